"""Tensors as NumPy arrays. NumPy and `ml_dtypes` are imported when they are asked for."""

from __future__ import annotations

import sys

from ._crossdock import Tensor

# Checkers take this as true; `typing` takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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


def dispatch() -> Callable[..., Any] | None:
    """The `__array_function__` that NumPy before 2.4 needs (`objects/numpy_dispatch.rs`); `None` without it."""
    numpy: Any = sys.modules.get("numpy")
    version = getattr(numpy, "__version__", "").split(".")[:2]
    needs = len(version) == 2 and [int(part) for part in version] < [2, 4]
    return _array_function if needs else None


def _array_function(
    _tensor: Tensor, function: Any, types: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Replaces tensors by their dtypes where NumPy asks for those; every other function takes tensors itself."""
    import numpy as np

    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    if function in (np.result_type, np.can_cast):
        arguments = tuple(np.dtype(x.dtype) if isinstance(x, Tensor) else x for x in arguments)
    return function._implementation(*arguments, **keywords)


class _Interface:
    """What NumPy keeps as the owner: the interface of a tensor, without its other protocols."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.__array_interface__ = tensor.__array_interface__
