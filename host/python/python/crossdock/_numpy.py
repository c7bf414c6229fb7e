"""Tensors as NumPy arrays. NumPy and `ml_dtypes` are imported when they are asked for."""

from __future__ import annotations

from ._crossdock import Tensor

# Checkers take this as true; `typing` takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Memory:
    """Memory of a tensor as unsigned numbers, for dtypes that NumPy does not have itself."""

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.dtype.itemsize
        tensor.synchronize()
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "shape": tensor.shape,
            "strides": tuple(stride * size for stride in tensor.strides),
            "typestr": f"|u{size}" if size == 1 else f"<u{size}",
            "data": (tensor.data_ptr(), tensor.readonly),
        }


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """`Tensor.__array__` and `Tensor.numpy`."""
    import numpy as np

    if not tensor._host_reachable:
        raise TypeError(
            f"cannot make a NumPy array of a tensor on {tensor.device}, whose memory the host does "
            'not reach: bring it to the host first with `.to("cpu")`'
        )
    shared, is_copy = _shared(tensor)
    converts = dtype is not None and np.dtype(dtype) != shared.dtype
    if copy is False and (converts or is_copy):
        raise ValueError("it would take a copy, and copy=False forbids one")
    if converts:
        return shared.astype(dtype)
    return shared.copy() if copy and not is_copy else shared


def _shared(tensor: Tensor) -> tuple[Any, bool]:
    """The array, and whether it is a copy."""
    import numpy as np

    if hasattr(tensor, "__array_interface__"):
        interface = _Interface(tensor)
        return np.asarray(interface), False
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy has no {tensor.dtype}: install ml_dtypes, or use `.raw()` for the bytes"
        ) from None
    kind = getattr(ml_dtypes, str(tensor.dtype), None)
    if kind is None:
        raise TypeError(f"neither NumPy nor ml_dtypes has {tensor.dtype}: use `.raw()`")
    if tensor.dtype.bits < 8:
        values = np.array(tensor.tolist(), dtype=np.float32).reshape(tensor.shape)
        return values.astype(kind), True
    if tensor.size == 0:
        return np.empty(tensor.shape, kind), False
    return np.asarray(_Memory(tensor)).view(kind), False


class _Interface:
    """What NumPy keeps as the owner: the interface of a tensor, without its other protocols."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.__array_interface__ = tensor.__array_interface__
