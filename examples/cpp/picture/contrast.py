"""What the program `picture` lets Python do: more contrast, in the memory of the program's own tensor."""

import crossdock as xd

try:
    import torch
except ImportError:
    torch = None
try:
    import numpy
except ImportError:
    numpy = None


def contrast(picture: xd.Tensor) -> str:
    """Spreads the gray levels of a picture over all that there are; says what did it."""
    if torch is not None:
        view = torch.from_dlpack(picture)
        low, high = int(view.min()), int(view.max())
        view.copy_(((view.to(torch.int32) - low) * 255) // max(high - low, 1))
        return f"PyTorch {torch.__version__}"
    if numpy is not None:
        view = numpy.from_dlpack(picture)
        low, high = int(view.min()), int(view.max())
        view[:] = (view.astype(numpy.int32) - low) * 255 // max(high - low, 1)
        return f"NumPy {numpy.__version__}"
    view = memoryview(picture).cast("B")
    low, high = min(view), max(view)
    view[:] = bytes((level - low) * 255 // max(high - low, 1) for level in view)
    return "Python alone"
