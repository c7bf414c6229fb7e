"""Tensors from anything: arrays of every protocol, buffers, numbers, nested sequences."""

from __future__ import annotations

import sys
from operator import index

from . import _crossdock as xd
from ._crossdock import CopyRequiredError, Dtype, Tensor

# Checkers take this as true; `typing` is not imported, because that costs more than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._crossdock import _DeviceLike, _DtypeLike, _ShapeLike, _StreamLike


_NUMBERS = frozenset((bool, int, float, complex))


def is_number(value: Any) -> bool:
    """Whether it is a Python number."""
    return isinstance(value, (bool, int, float, complex))


def asarray(
    obj: Any,
    /,
    *,
    dtype: _DtypeLike | None = None,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of anything, which shares its memory where that works.

    These are tried in order: our own type, DLPack, the CUDA array interface, the buffer protocol,
    `__array_interface__`, `__array__`, then nested sequences of numbers and of arrays of one dtype,
    which is kept. `dtype` is for numbers; of anything else it must be the dtype that it has, because
    nothing here converts.
    `copy=True` always copies, `copy=False` never (`CopyRequiredError` if a copy is required).

    If an object refuses a protocol by a `BufferError`, `TypeError` or `NotImplementedError`, its next protocol
    is tried; with `copy=False`, a `TypeError` is final. The first export decides: if it is rejected here, the
    call fails.

    Raises `BufferError` if the object's memory cannot be used, with every reason; `TypeError` for an object
    without a protocol, or with another dtype; `NotImplementedError` for an array with a mask. Array API.
    """
    wanted = None if dtype is None else _dtype(dtype)
    tensor, moved = _exchanged(obj, device, copy)
    if tensor is None:
        if copy is False:
            raise CopyRequiredError("numbers have no memory to share: asarray copies them")
        return _of_values(obj, wanted, device)
    if wanted is not None and tensor.dtype != wanted:
        raise TypeError(
            f"it has dtype {tensor.dtype}, not {wanted}: crossdock moves data and does not "
            "convert it"
        )
    return tensor if moved else _placed(tensor, device, copy)


def _dtype(dtype: Any) -> Dtype:
    return dtype if isinstance(dtype, Dtype) else xd._dtype(dtype)


def _placed(tensor: Tensor, target: Any, copy: bool | None) -> Tensor:
    return tensor if target is None and not copy else tensor.to(target, copy=copy)


def _exchanged(obj: Any, target: Any, copy: bool | None) -> tuple[Tensor | None, bool]:
    """The tensor of an object that speaks a protocol, and whether it is in its place already."""
    _refuse_masked(obj)
    refusals: dict[str, Exception] = {}
    answer: Tensor | Exception | None = None
    name = "__dlpack__"
    try:
        try:
            if isinstance(obj, Tensor) or hasattr(type(obj), name):
                answer = xd._from_dlpack_or_refusal(obj, target, copy)
                if isinstance(answer, Tensor):
                    return answer, True
                refusals[name] = answer
            for name, export, take in _PROTOCOLS:
                try:
                    exported = export(obj, copy)
                except _REFUSALS as error:
                    if copy is False and isinstance(error, (TypeError, CopyRequiredError)):
                        raise
                    refusals[name] = error
                    continue
                if exported is not None:
                    return take(exported, obj, copy), False
            if not refusals:
                return None, False
        except Exception as error:
            if not refusals:
                raise
            refusals[name] = error
        reasons = "; ".join(f"{name}: {error}" for name, error in refusals.items())
        first = next(iter(refusals))
        raise BufferError(f"{type(obj).__name__} cannot be used: {reasons}") from refusals[first]
    finally:
        # They refer to this frame, which would keep the objects of its locals.
        answer = None
        refusals.clear()


def _refuse_masked(obj: Any) -> None:
    """Refuses NumPy's masked arrays that mask something, whose protocols give all elements."""
    # A program with such an array has imported the module.
    masked = sys.modules.get("numpy.ma")
    # Another thread may be importing the module: then it has no class yet, and there is no such array.
    array = getattr(masked, "MaskedArray", None)
    if masked is None or array is None or not isinstance(obj, array):
        return
    mask = masked.getmask(obj)
    if mask is not masked.nomask and (mask.dtype.names or mask.any()):
        raise NotImplementedError(
            "a tensor has no mask: give `.filled()`, or `.data` for the masked elements too"
        )


# Of each protocol: what the object exports, or `None` without the protocol, and the tensor of such an export. An
# exception of the first is the object's refusal, one of the second is our rejection.
_REFUSALS = (BufferError, TypeError, NotImplementedError)


def _cuda_interface(obj: Any, _copy: bool | None) -> Any:
    try:
        # An interface that is None is a wrong one.
        return (obj.__cuda_array_interface__,)
    except AttributeError:
        return None


def _of_cuda(exported: Any, obj: Any, _copy: bool | None) -> Tensor:
    return xd.from_cuda_array_interface(exported[0], obj)


def _buffer(obj: Any, _copy: bool | None) -> Any:
    try:
        memoryview(obj).release()
    except (TypeError, ValueError) as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            # A `__buffer__` in Python raised it.
            raise
        if isinstance(error, TypeError):
            return None
        # NumPy's exception for a dtype that has no format.
        raise BufferError(str(error)) from error
    return obj


def _of_buffer(exported: Any, _obj: Any, _copy: bool | None) -> Tensor:
    return xd._from_buffer(exported)


def _interface(obj: Any, _copy: bool | None) -> Any:
    interface = getattr(obj, "__array_interface__", None)
    # A class has the descriptor of its instances there.
    return interface if isinstance(interface, dict) else None


def _of_interface(exported: Any, obj: Any, _copy: bool | None) -> Tensor:
    from ._memory import of_interface

    return of_interface(exported, obj)


def _array(obj: Any, copy: bool | None) -> Any:
    method = getattr(type(obj), "__array__", None)
    if method is None:
        return None
    try:
        array = method(obj, copy=False) if copy is False else method(obj)
    except (TypeError, ValueError) as error:
        if copy is not False:
            raise
        name = type(obj).__name__
        raise CopyRequiredError(f"`{name}.__array__` cannot promise to share memory: {error}") from error
    return None if type(array) is type(obj) else array


def _of_array(exported: Any, obj: Any, copy: bool | None) -> Tensor:
    tensor, _ = _exchanged(exported, None, False if copy is False else None)
    if tensor is None:
        kind = type(exported).__name__
        raise TypeError(f"`{type(obj).__name__}.__array__` returned {kind}, which is not an array")
    return tensor


_PROTOCOLS = (
    ("__cuda_array_interface__", _cuda_interface, _of_cuda),
    ("buffer", _buffer, _of_buffer),
    ("__array_interface__", _interface, _of_interface),
    ("__array__", _array, _of_array),
)


def _of_values(obj: Any, dtype: Dtype | None, target: Any) -> Tensor:
    """A tensor of a number, or of nested sequences of numbers and arrays."""
    from . import _values

    shape = _shape(obj)
    parts: list[Any] = []
    _collect(obj, shape, parts)
    arrays = [part for part in parts if isinstance(part, Tensor)]
    if arrays:
        return _of_arrays(parts, _dtype_of(arrays, dtype), shape, target)
    flat = parts[0] if parts else []
    tensor = empty(shape, dtype=dtype or _common(flat), device=target)
    if flat:
        tensor._store(_values.encode(flat, tensor.dtype))
    return tensor


def _dtype_of(arrays: list[Tensor], wanted: Dtype | None) -> Dtype:
    """The one dtype that all arrays have, which is the wanted one."""
    dtype = wanted or arrays[0].dtype
    for array in arrays:
        if array.dtype != dtype:
            raise TypeError(
                f"an array in the sequence has dtype {array.dtype}, not {dtype}: crossdock moves "
                "data and does not convert it"
            )
    return dtype


def _of_arrays(parts: list[Any], dtype: Dtype, shape: tuple[int, ...], target: Any) -> Tensor:
    """A tensor of arrays of one dtype, and of the numbers that stand between them."""
    from . import _values

    tensor = empty(shape, dtype=dtype, device=target)
    sizes = [len(part) if isinstance(part, list) else part.size for part in parts]
    if sum(sizes) != tensor.size:
        # A subclass said something else when it was asked again.
        raise ValueError("the nested sequences have different lengths")
    if not tensor.size:
        return tensor
    if dtype.bits * dtype.lanes % 8:
        # A part may begin inside a byte, where no view can.
        values = (part if isinstance(part, list) else _values.flat(part) for part in parts)
        tensor._store(_values.encode([value for part in values for value in part], dtype))
        return tensor
    line, done = tensor.reshape(-1), 0
    for part, size in zip(parts, sizes, strict=True):
        place = line[done : done + size]
        if isinstance(part, list):
            place._store(_values.encode(part, dtype))
        elif size:
            place.reshape(part.shape)._copy_from(part)
        done += size
    return tensor


def _is_sequence(obj: Any) -> bool:
    return isinstance(obj, (list, tuple, range))


def _shape(obj: Any) -> tuple[int, ...]:
    """The extents along the first elements; `_collect` checks the others."""
    shape = []
    while _is_sequence(obj):
        shape.append(len(obj))
        if len(shape) > 64:
            raise ValueError("the sequences are nested deeper than 64")
        if not obj:
            break
        obj = obj[0]
    return (*shape, *(asarray(obj).shape if _is_array(obj) else ()))


def _is_array(obj: Any) -> bool:
    return hasattr(type(obj), "__dlpack__")


def _collect(obj: Any, shape: tuple[int, ...], parts: list[Any]) -> None:
    """The arrays and the lists of numbers between them, in order."""
    if _is_array(obj):
        array = asarray(obj)
        if array.shape != shape:
            raise ValueError(f"an array of shape {array.shape} stands where {shape} belongs")
        parts.append(array)
        return
    if not _is_sequence(obj):
        if shape:
            raise ValueError("the nested sequences have different depths")
        _numbers(parts).append(number(obj))
        return
    if not shape or len(obj) != shape[0]:
        raise ValueError("the nested sequences have different lengths")
    # A subclass may say something else each time it is asked.
    is_plain = len(shape) == 1 and type(obj) in (list, tuple)
    if is_plain and _NUMBERS.issuperset(map(type, obj)):
        _numbers(parts).extend(obj)
        return
    for part in obj:
        _collect(part, shape[1:], parts)


def _numbers(parts: list[Any]) -> list[Any]:
    """The list of numbers at the end."""
    if not parts or isinstance(parts[-1], Tensor):
        parts.append([])
    last: list[Any] = parts[-1]
    return last


def number(obj: Any) -> Any:
    """A Python number, or a number of another type that `_values` converts by the kind of the dtype.

    `TypeError` for anything else. Scalars of array libraries have every conversion, whatever they hold, so
    they are judged by what their `item()` returns.
    """
    if is_number(obj):
        return obj
    kind = type(obj)
    if hasattr(kind, "item"):
        _refuse_masked(obj)
        if getattr(getattr(obj, "dtype", None), "kind", "") in ("m", "M"):
            raise TypeError(
                f"{kind.__name__} is a time, not a number: give its number of units, `.astype('int64')`"
            )
        value = obj.item()
        if type(value) is not kind:
            return number(value)
    if hasattr(kind, "__index__"):
        return index(obj)
    if hasattr(kind, "__float__") or hasattr(kind, "__complex__"):
        return obj
    of_opencl = type(obj).__module__.startswith("pyopencl")
    raise TypeError(
        f"{type(obj).__name__} is no number and speaks no protocol (DLPack, the CUDA array "
        "interface, buffers, __array_interface__, __array__)"
        f"{': `xd.from_opencl` takes memory of OpenCL' if of_opencl else ''}"
    )


def _common(values: list[Any]) -> Dtype:
    """bool, int64 (uint64 where it must be), float64 or complex128: what holds them all."""
    kinds = {type(value) for value in values}
    if not _NUMBERS.issuperset(kinds):
        return _common_of_others(values)
    if complex in kinds:
        return xd.complex128
    if float in kinds or not values:
        return xd.float64
    if kinds == {bool}:
        return xd.bool
    if max(values) < 1 << 63:
        return xd.int64
    return xd.uint64


def _common_of_others(values: list[Any]) -> Dtype:
    """The same where some values are not of Python's own types. `TypeError` for exact numbers, such as `Decimal`,
    which no dtype holds."""
    from ._values import has_no_dtype, is_complex

    numbers: list[Any] = []
    classes: tuple[Any, ...] = (bool, int, float, complex)
    for value in values:
        if is_number(value):
            numbers.append(next(kind(value) for kind in classes if isinstance(value, kind)))
        elif has_no_dtype(value):
            name = type(value).__name__
            raise TypeError(f"no dtype holds every {name}: give `dtype=`, such as `dtype='float64'`")
        else:
            numbers.append(1j if is_complex(value) else 1.0)
    return _common(numbers)


def sequence_of(shape: Any) -> list[Any]:
    """What is in a shape. `TypeError` for a set, a mapping and the like, which have no order."""
    kind = type(shape)
    if not hasattr(kind, "__getitem__") or hasattr(kind, "keys"):
        raise TypeError(f"a shape is a sequence of integers, not a {kind.__name__}")
    return list(shape)


def extents_of(shape: Any) -> list[int]:
    """The extents of a shape, which may be one number. `TypeError`, `ValueError`."""
    extents = [shape] if hasattr(shape, "__index__") else sequence_of(shape)
    extents = [index(extent) for extent in extents]
    if any(extent < 0 for extent in extents):
        raise ValueError(f"an extent of shape {tuple(extents)} is negative")
    return extents


def empty(
    shape: _ShapeLike,
    *,
    dtype: _DtypeLike | None = None,
    device: _DeviceLike | None = None,
    kind: str | None = None,
    stream: _StreamLike | None = None,
) -> Tensor:
    """A tensor whose content is undefined; `float64` on `cpu:0` by default. Array API, `empty`.

    `kind` is the memory: `"device"`, or `"pinned"` or `"managed"` where the device has it. With `stream`,
    one of the device, memory of the device is allocated in that stream's order where it can be: the call
    does not wait, and later uses of the tensor come after that point of the stream.

    `DeviceError` where the device has no memory of the kind.
    """
    dtype = xd.float64 if dtype is None else dtype
    device = "cpu" if device is None else device
    return xd._empty(extents_of(shape), dtype, device, kind, stream)


def full(
    shape: _ShapeLike,
    fill_value: Any,
    *,
    dtype: _DtypeLike | None = None,
    device: _DeviceLike | None = None,
) -> Tensor:
    """A tensor of one value, by which its dtype is inferred where none is given. Array API."""
    if isinstance(fill_value, Tensor):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    dtype = _common([number(fill_value)]) if dtype is None else dtype
    tensor = empty(shape, dtype=dtype, device=device)
    if tensor.size:
        tensor.fill(fill_value)
    return tensor


def zeros(
    shape: _ShapeLike, *, dtype: _DtypeLike | None = None, device: _DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros; `float64` on `cpu:0` by default. Array API, `zeros`."""
    return full(shape, 0, dtype=xd.float64 if dtype is None else dtype, device=device)


def ones(
    shape: _ShapeLike, *, dtype: _DtypeLike | None = None, device: _DeviceLike | None = None
) -> Tensor:
    """A tensor of ones; `float64` on `cpu:0` by default. Array API, `ones`."""
    return full(shape, 1, dtype=xd.float64 if dtype is None else dtype, device=device)


def empty_like(
    x: Any, /, *, dtype: _DtypeLike | None = None, device: _DeviceLike | None = None
) -> Tensor:
    """A tensor of the shape of `x`, and of its dtype and on its device where none is given."""
    like = x if isinstance(x, Tensor) else asarray(x)
    dtype = like.dtype if dtype is None else dtype
    return empty(like.shape, dtype=dtype, device=like.device if device is None else device)
