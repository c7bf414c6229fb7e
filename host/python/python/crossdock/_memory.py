"""Pickling, and `__array_interface__` in."""

from __future__ import annotations

from . import _crossdock as xd
from ._asarray import sequence_of
from ._crossdock import Tensor
from ._npy import TYPES

# Checkers take this as true; `typing` takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reduce(tensor: Tensor, protocol: Any) -> tuple[Any, ...]:
    """`Tensor.__reduce_ex__`: with protocol 5 the bytes may travel out of band."""
    from pickle import PickleBuffer

    if not tensor._host_reachable:
        raise TypeError(
            f"cannot pickle a tensor on {tensor.device}: another process cannot reach its memory; "
            'move it first with `.to("cpu")`'
        )
    whole = tensor if tensor.contiguous else tensor.copy()
    view = whole.raw()
    data: Any = PickleBuffer(view) if protocol >= 5 else bytes(view)
    return rebuild, (data, str(tensor.dtype), tensor.shape, tensor._padded, tensor.readonly)


def rebuild(data: Any, dtype: str, shape: tuple[int, ...], padded: bool, readonly: bool) -> Tensor:
    """A tensor over the bytes of a pickle, read-only as it was; a copy where they alone are."""
    data = memoryview(data).toreadonly() if readonly else data
    tensor = xd._from_bytes(data, dtype, shape, padded=padded)
    return tensor.copy() if tensor.readonly and not readonly else tensor


def of_interface(interface: dict[str, Any], owner: Any) -> Tensor:
    """A tensor of what `__array_interface__` (version 3) describes; `owner` keeps it alive."""
    if interface.get("mask") is not None:
        raise NotImplementedError("its array interface has a mask: apply it first")
    if missing := {"shape", "typestr"} - interface.keys():
        raise ValueError(f"its array interface lacks {' and '.join(sorted(missing))}")
    dtype, padded = _dtype(interface["typestr"], owner)
    shape, strides = sequence_of(interface["shape"]), interface.get("strides")
    data = interface.get("data")
    if isinstance(data, tuple):
        address, readonly = data
        place = (address, bool(readonly))
        return xd._from_address(place, dtype, shape, strides, padded=padded, owner=owner)
    if strides is not None:
        raise BufferError("its array interface gives strides over a buffer: copy it first")
    offset = interface.get("offset", 0)
    return xd._from_bytes(
        owner if data is None else data, dtype, shape, offset=offset, padded=padded
    )


def _dtype(text: str, owner: Any) -> tuple[xd.Dtype, bool]:
    """The dtype of a type text, and whether elements of less than a byte take whole ones."""
    if not text[2:].isdecimal():
        raise BufferError(f"its elements are {text!r}; only numbers travel")
    order, size = text[0], int(text[2:])
    if size > 1 and order == (">" if xd._little_endian else "<"):
        raise BufferError(
            f"its type `{text}` is not in this machine's byte order: swap the bytes first "
            "(NumPy: `a.astype(a.dtype.newbyteorder('='))`)"
        )
    if name := TYPES.get(text[1:]):
        return xd._dtype(name), False
    # Types that NumPy does not have, as those of ml_dtypes, say only how large they are.
    scalar = getattr(getattr(owner, "dtype", None), "type", None)
    name = getattr(scalar, "__name__", "") if text[1] == "V" or text[1:] == "f1" else ""
    try:
        dtype = xd._dtype(name)
    except ValueError as error:
        raise BufferError(f"its type `{name or text}` has no DLPack dtype") from error
    if dtype.itemsize != size:
        raise BufferError(f"its type `{name}` has elements of {size} bytes")
    return dtype, dtype.bits < 8
