"""Elements as Python numbers and back: `tolist`, `item`, `fill`, and assignment."""

from __future__ import annotations

import math
import struct

from . import _small_floats as small
from ._crossdock import Dtype, Tensor

# Checkers take this as true; `typing` takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# struct's letters, which have fixed sizes after "<" and ">".
_LETTERS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
    "complex32": "e", "complex64": "f", "complex128": "d",
}  # fmt: skip


def _range(dtype: Dtype) -> tuple[int, int]:
    """The least integer of the dtype, and what comes after the largest."""
    signed = dtype.name.startswith("int")
    return (-1 << dtype.bits - 1, 1 << dtype.bits - 1) if signed else (0, 1 << dtype.bits)


def is_complex(value: Any) -> bool:
    """Whether a number may have an imaginary part: then only complex dtypes hold it."""
    if isinstance(value, (float, int)) or not hasattr(type(value), "__complex__"):
        return False
    from numbers import Complex, Real

    if isinstance(value, Complex):
        return not isinstance(value, Real)
    return not hasattr(type(value), "__float__") or complex(value).imag != 0


def has_no_dtype(value: Any) -> bool:
    """Whether it is a number of a class, such as `Decimal` and `Fraction`, whose values no dtype holds."""
    from numbers import Number

    return isinstance(value, Number) and not hasattr(type(value), "dtype")


def _real(value: Any) -> Any:
    """A number that is not complex."""
    if is_complex(value):
        raise TypeError("it is complex")
    return value


def _whole(value: Any, dtype: Dtype) -> int:
    """An integer that the dtype can hold."""
    low, high = _range(dtype)
    # Only `int()` of an exact number is exact, and of some numbers there is only `float()`.
    exact = _real(value) if hasattr(type(value), "__int__") else float(_real(value))
    try:
        number = int(exact)
    except (ValueError, OverflowError):
        # An infinity, or not a number.
        number = high
    if number != exact or not low <= number < high:
        raise ValueError(f"{dtype.name} cannot hold {value!r}")
    return number


def _wholes(values: list[Any], dtype: Dtype) -> list[int]:
    """Such integers; as they are where they are ints, which is looked at all at once."""
    low, high = _range(dtype)
    if {bool, int}.issuperset(map(type, values)):
        if low <= min(values, default=low) and max(values, default=low) < high:
            return values
    return [_whole(value, dtype) for value in values]


def decode(data: bytes, dtype: Dtype, count: int, padded: bool = False) -> list[Any]:
    """`count` numbers from their bytes."""
    if dtype.lanes != 1:
        raise TypeError(f"{dtype.name} has several numbers in an element; Python has no such value")
    if letter := _LETTERS.get(dtype.name):
        if not dtype.name.startswith("complex"):
            return list(struct.unpack(f"={count}{letter}", data))
        parts = struct.unpack(f"={2 * count}{letter}", data)
        return [complex(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    if dtype.name == "bfloat16":
        return list(_brain_floats(data))
    if dtype.name == "bcomplex32":
        parts = _brain_floats(data)
        return [complex(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    is_whole = dtype.name.startswith(("int", "uint"))
    values = [] if is_whole else small.table(dtype.name)
    codes = data if dtype.bits == 8 or padded else _unpacked(data, dtype.bits, count)
    mask = (1 << dtype.bits) - 1
    if is_whole:
        half = 1 << dtype.bits - 1 if dtype.name.startswith("int") else 1 << dtype.bits
        return [code - 2 * half if code >= half else code for code in (c & mask for c in codes)]
    return [values[code & mask] for code in codes]


def _brain_floats(data: bytes) -> tuple[float, ...]:
    """The upper halves of floats."""
    count = len(data) // 2
    words = struct.unpack(f"={count}H", data)
    wide = struct.pack(f"={count}I", *(word << 16 for word in words))
    return struct.unpack(f"={count}f", wide)


def encode(values: list[Any], dtype: Dtype, padded: bool = False) -> bytes:
    """The bytes of numbers, each rounded to the nearest one that the dtype has."""
    name = dtype.name
    if dtype.lanes != 1:
        raise TypeError(f"{name} has several numbers in an element; Python has no such value")
    try:
        if name == "bool":
            return bytes(bool(value) for value in values)
        if name.startswith(("complex", "bcomplex")):
            pairs = [part for value in map(complex, values) for part in (value.real, value.imag)]
            if name == "bcomplex32":
                return struct.pack(f"={len(pairs)}H", *map(small.bfloat16, pairs))
            return struct.pack(f"={len(pairs)}{_LETTERS[name]}", *map(_fitting(name), pairs))
        if name.startswith(("int", "uint")):
            numbers = _wholes(values, dtype)
            if letter := _LETTERS.get(name):
                return struct.pack(f"={len(numbers)}{letter}", *numbers)
            mask = (1 << dtype.bits) - 1
            return _packed([number & mask for number in numbers], dtype.bits, padded)
        if not {bool, int, float}.issuperset(map(type, values)):
            values = [_real(value) for value in values]
        floats = [float(value) for value in values]
    except TypeError as error:
        if any(map(is_complex, values)):
            raise TypeError(f"a complex number is no {name}: give its `.real`") from error
        raise TypeError(f"{name} is for numbers: {error}") from error
    if letter := _LETTERS.get(name):
        return struct.pack(f"={len(floats)}{letter}", *map(_fitting(name), floats))
    if name == "bfloat16":
        return struct.pack(f"={len(floats)}H", *map(small.bfloat16, floats))
    codes = [small.nearest(name, value) for value in floats]
    return bytes(codes) if dtype.bits == 8 else _packed(codes, dtype.bits, padded)


def _fitting(name: str) -> Any:
    """What turns a number that is too large for a float into an infinity, as IEEE rounds it."""
    # Without "=", Python does not say what is too large for a `f`.
    letter = f"={_LETTERS[name]}"

    def fit(value: float) -> float:
        try:
            struct.pack(letter, value)
        except OverflowError:
            return math.copysign(math.inf, value)
        return value

    return fit


def _unpacked(data: bytes, bits: int, count: int) -> list[int]:
    """Codes of less than a byte, in little bit order, as DLPack packs them."""
    # Eight codes always end with a byte.
    mask, shifts = (1 << bits) - 1, range(0, 8 * bits, bits)
    groups = (data[first : first + bits] for first in range(0, len(data), bits))
    words = (int.from_bytes(group, "little") for group in groups)
    return [word >> shift & mask for word in words for shift in shifts][:count]


def _packed(codes: list[int], bits: int, padded: bool) -> bytes:
    if padded:
        return bytes(codes)
    whole = bytearray()
    for first in range(0, len(codes), 8):
        word = 0
        for code in reversed(codes[first : first + 8]):
            word = word << bits | code
        whole += word.to_bytes(bits, "little")
    return bytes(whole[: (len(codes) * bits + 7) // 8])


def flat(tensor: Tensor) -> list[Any]:
    """All elements, in C order."""
    return decode(tensor._bytes(), tensor.dtype, tensor.size, tensor._padded)


def _nested(values: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Rows of rows."""
    for extent in reversed(shape[1:]):
        rows = len(values) // extent if extent else 0
        values = [values[row * extent : (row + 1) * extent] for row in range(rows)]
    return values


def to_list(tensor: Tensor) -> Any:
    """`Tensor.tolist`."""
    if tensor.ndim == 0:
        return only(tensor)
    if tensor.size == 0:
        return _empty_rows(tensor.shape)
    return _nested(flat(tensor), tensor.shape)


def _empty_rows(shape: tuple[int, ...]) -> list[Any]:
    return [_empty_rows(shape[1:]) for _ in range(shape[0])] if len(shape) > 1 else []


def only(tensor: Tensor) -> Any:
    """`Tensor.item`."""
    return flat(tensor)[0]


def fill(tensor: Tensor, value: Any, stream: Any = None) -> None:
    """`Tensor.fill`."""
    from ._asarray import number

    value, dtype = number(value), tensor.dtype
    if dtype.bits * dtype.lanes % 8 == 0 or tensor._padded:
        tensor._repeat(encode([value], dtype, tensor._padded), stream)
    elif 8 % dtype.bits == 0:
        tensor._repeat(encode([value] * (8 // dtype.bits), dtype), stream)
    else:
        # Eight elements always end with a byte.
        groups, rest = divmod(tensor.size, 8)
        some = encode([value] * 8, dtype) * groups + encode([value] * rest, dtype)
        tensor._store(some, stream)


def assign(part: Tensor, value: Any) -> None:
    """`tensor[key] = value`, where `part` is `tensor[key]`."""
    from ._asarray import asarray, is_number

    if is_number(value) or has_no_dtype(value):
        fill(part, value)
        return
    source = asarray(value, dtype=None if _knows_its_dtype(value) else part.dtype)
    if source.dtype != part.dtype:
        raise TypeError(
            f"cannot assign {source.dtype} to {part.dtype}: crossdock moves data and does not "
            "convert it"
        )
    part._check_writable()
    _spread(part, source)


def _knows_its_dtype(value: Any) -> bool:
    return not isinstance(value, (list, tuple, range))


def _spread(part: Tensor, source: Tensor) -> None:
    """Copies, and repeats the source along the axes where it has one index or none.

    The source is read once, in one copy: it may lie in the part's own memory.
    """
    while source.ndim > part.ndim and source.shape[0] == 1:
        source = source[0]
    if source.ndim == 0 and part.ndim:
        if part.dtype.bits * part.dtype.lanes % 8 == 0:
            part._repeat(source._bytes())
        else:
            fill(part, source.item())
        return
    missing = part.ndim - source.ndim
    shape = (1,) * missing + source.shape
    pairs = list(zip(part.shape, shape, strict=False))
    if missing < 0 or any(have not in (1, want) for want, have in pairs):
        raise ValueError(f"cannot assign shape {source.shape} to shape {part.shape}")
    if part.dtype.bits * part.dtype.lanes % 8 and (shape != part.shape or part._padded != source._padded):
        # No view of packed elements begins inside a byte.
        values = _broadcast(flat(source), pairs)
        part._store(encode(values, part.dtype, part._padded))
        return
    if shape == part.shape:
        part._copy_from(source.reshape(shape))
        return
    axis = next(at for at, (want, have) in enumerate(pairs) if want != have)
    _repeated(part, axis, source.reshape(shape))


def _broadcast(values: list[Any], extents: list[tuple[int, int]]) -> list[Any]:
    """Values in C order, repeated along the axes that have one index and want more: pairs of wanted and had."""
    block = 1
    for want, have in reversed(extents):
        if have != want:
            blocks = (values[first : first + block] for first in range(0, len(values), block or 1))
            values = [value for one in blocks for value in one * want]
        block *= want
    return values


def _repeated(part: Tensor, axis: int, source: Tensor) -> None:
    """Puts the source at the first index of an axis, and copies what is there to the others."""
    before = (slice(None),) * axis
    extent, done = part.shape[axis], 1
    if extent:
        _spread(part[(*before, slice(1))], source)
    while done < extent:
        more = min(done, extent - done)
        part[(*before, slice(done, done + more))]._copy_from(part[(*before, slice(more))])
        done += more
