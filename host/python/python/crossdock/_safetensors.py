"""The `.safetensors` format: a header of JSON, and the bytes of the tensors one after the other."""

from __future__ import annotations

import itertools
import math
import struct

from . import _crossdock as xd
from ._crossdock import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, BinaryIO, NoReturn

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn",
    "F4": "float4_e2m1fn",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000


def safetensors_file(file: BinaryIO, pages: memoryview) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    import json

    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(len(pages) - 8, _LONGEST_HEADER):
        raise ValueError(f"its header is truncated, or longer than {_LONGEST_HEADER} bytes")
    text = file.read(length).decode("utf-8")
    header = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("its `__metadata__` has a value that is not a text")
    data = pages[8 + length :]
    ranges = {name: _range(name, entry) for name, entry in header.items()}
    at, last = 0, len(data)
    for begin, end, name in sorted((*span, name) for name, span in ranges.items()):
        if begin != at:
            raise ValueError(f"`{name}` begins at byte {begin} of the data, and the tensors before it end at {at}")
        at = end
    if at != last:
        raise ValueError(f"its tensors end at byte {at} of the data, which has {last}")
    return {
        name: xd._from_bytes(data, _DTYPES[entry["dtype"]], tuple(entry["shape"]), offset=ranges[name][0])
        for name, entry in header.items()
    }


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which the format allows no name twice. Its texts must have UTF-8."""
    for text in (text for pair in pairs for text in pair if isinstance(text, str)):
        text.encode()
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"its header has two entries {twice!r}")
    return entries


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"its header contains {text}, which is not valid JSON")


def _range(name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor begins and ends, which is as many bytes as its shape and its dtype say."""
    dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in _DTYPES:
        raise ValueError(f"`{name}` has the unknown dtype {dtype!r}")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in (*shape, begin, end)):
        raise ValueError(f"`{name}` has a shape or offsets that are not whole numbers")
    bits = math.prod(shape) * xd._dtype(_DTYPES[dtype]).bits
    if bits != 8 * (end - begin):
        has = 8 * (end - begin)
        raise ValueError(f"`{name}` needs {bits} bits, but its data_offsets {begin} to {end} hold {has}")
    return begin, end


def safetensors_parts(tensors: Mapping[str, Any]) -> Iterator[bytes]:
    """The bytes of a file."""
    import json

    from ._asarray import asarray

    found = {name: asarray(value) for name, value in tensors.items()}
    if "__metadata__" in found:
        raise ValueError("`__metadata__` is reserved in .safetensors files: choose another tensor name")
    header, end = {}, 0
    # Wide elements first, so that each tensor is aligned.
    order = sorted(found, key=lambda name: (-found[name].dtype.bits, name))
    for name in order:
        tensor = found[name]
        if tensor.dtype.name not in _NAMES:
            raise ValueError(f"`{name}`: .safetensors files have no dtype {tensor.dtype}")
        if tensor._padded:
            raise ValueError(
                f"`{name}`: .safetensors files need packed elements; this tensor uses one byte for each: save "
                f'`xd.asarray(x.tolist(), dtype="{tensor.dtype}")`'
            )
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    return itertools.chain((head,), (found[name]._bytes() for name in order))
