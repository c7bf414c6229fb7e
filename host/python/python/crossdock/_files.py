"""Tensors in files: `.npy`, `.npz` and `.safetensors`, mapped so that the file is the tensor.

The formats are a header of a few lines each, so they are read here, in Python: a mapped file
reaches the runtime as any other object with the buffer protocol does, which needs no function of
the table.
"""

from __future__ import annotations

import math
import os
import struct

from . import _crossdock as xd
from ._crossdock import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any
    from zipfile import ZipFile, ZipInfo

    from ._crossdock import _DeviceLike

# NumPy's type texts without their byte order, of the dtypes that DLPack has as well.
TYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
    "u2": "uint16", "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32",
    "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
_TEXTS = {name: text for text, name in TYPES.items()}
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 100_000_000
# Of a `.npy`, which Python reads as an expression: a shape of 64 axes has some hundred letters.
_LONGEST_EXPRESSION = 10_000

# What reading a header raises where it is not what it should be.
_BROKEN = (
    struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError,
    TypeError, UnicodeDecodeError,
)  # fmt: skip

_SAFETENSORS = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn", "F4": "float4_e2m1fn",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _SAFETENSORS.items()}

_OF_PYTORCH = ": `torch.load` reads PyTorch's own, and `asarray` takes its tensors"
_WHO_READS = dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _OF_PYTORCH)


def load(
    path: str | os.PathLike[str], *, device: _DeviceLike | None = None
) -> Tensor | dict[str, Tensor]:
    """The tensor of a `.npy` file, or the tensors by name of a `.npz` or `.safetensors` file.

    The file is mapped, and the tensors are read-only views of it: nothing is read before it is
    used, and the file must not be shortened while they live. A library that writes all the same, as PyTorch
    does, changes pages of this process, and never the file. Compressed members of a `.npz` are
    copies. With `device` they are moved there. Raises `OSError`, and `ValueError` for what is no such file.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    reader = _READERS.get(ending)
    if reader is None:
        raise ValueError(f"{path} ends in none of .npy, .npz and .safetensors{_WHO_READS.get(ending, '')}")
    try:
        found = reader(path)
    except _BROKEN as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is no whole {ending} file: {why}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if device is None:
        return found
    if isinstance(found, Tensor):
        return found.to(device)
    return {name: tensor.to(device) for name, tensor in found.items()}


def save(path: str | os.PathLike[str], tensors: Any) -> None:
    """Writes a tensor to a `.npy` file, or a dict of tensors by name to `.npz` or `.safetensors`.

    Anything that `asarray` takes is a tensor here. The file is there whole or not at all. Raises
    `OSError`, `TypeError` for the wrong kind of file, and `ValueError` for a dtype that the format
    lacks (`.safetensors` has most).
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    writer = _WRITERS.get(ending)
    if writer is None:
        raise ValueError(f"{path} ends in none of .npy, .npz and .safetensors")
    if isinstance(tensors, dict) == (writer is _npy_parts):
        wanted = "one tensor" if writer is _npy_parts else "a dict of tensors by name"
        raise TypeError(f"a {ending} file holds {wanted}")
    parts = writer(tensors)
    folder, name = os.path.split(path)
    # Other threads and processes may save the same file now.
    new = os.path.join(folder, f".{name}.{os.getpid()}.{id(parts):x}.new")
    try:
        with open(new, "wb") as file:
            file.writelines(parts)
        os.replace(new, path)
    except BaseException as error:
        if os.path.exists(new):
            os.unlink(new)
        if isinstance(error, OSError):
            # The caller knows of no other name.
            raise OSError(error.errno, error.strerror, path) from None
        raise


def _mapped(path: str) -> Any:
    """The file's pages, which may be written: for this process alone, as many as were written."""
    import mmap

    # Not reserved, since few are ever written, and a file may be larger than memory.
    private = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError("it is empty")
        try:
            return mmap.mmap(file.fileno(), 0, private, mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError:
            # A system that reserves all the same.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_only(data: Any) -> Any:
    """A view that says so, of what could be written."""
    return memoryview(data).toreadonly()


def _npy_file(path: str) -> Tensor:
    data = _mapped(path)
    return _npy(data, 0, len(data))


def _npy(data: Any, begin: int, end: int) -> Tensor:
    """The array whose file lies in `data[begin:end]`."""
    dtype, shape, is_fortran, offset = _npy_header(data, begin, end)
    order = shape[::-1] if is_fortran else shape
    tensor = xd._from_bytes(_read_only(data), dtype, order, offset=offset)
    if offset + tensor.nbytes > end:
        raise ValueError("its array is cut off")
    axes = range(len(shape))
    return tensor.permute_dims(axes[::-1]) if is_fortran else tensor


def _npy_header(data: Any, begin: int, end: int) -> tuple[xd.Dtype, tuple[Any, ...], bool, int]:
    """Dtype and shape of the array, whether its order is Fortran's, and where its bytes begin."""
    import ast

    if data[begin : begin + 6] != _MAGIC:
        raise ValueError("it does not begin as a .npy file does")
    major = data[begin + 6]
    letter, after = ("H", 10) if major == 1 else ("I", 12)
    (length,) = struct.unpack(f"<{letter}", data[begin + 8 : begin + after])
    offset = begin + after + length
    if major not in (1, 2, 3) or offset > end or length > _LONGEST_EXPRESSION:
        raise ValueError("its header is cut off, too long, or of an unknown version")
    text = data[begin + after : offset].decode("utf-8" if major == 3 else "latin-1")
    try:
        header = ast.literal_eval(text.strip())
    except MemoryError as error:
        # Python's word for brackets that are nested too deep.
        raise ValueError("its header is nested too deep") from error
    dtype, is_fortran = _numpy_dtype(header["descr"]), header["fortran_order"]
    if not isinstance(is_fortran, bool):
        raise ValueError("its header does not say in which order the elements are")
    return dtype, tuple(header["shape"]), is_fortran, offset


def _numpy_dtype(text: Any) -> xd.Dtype:
    name = TYPES.get(text[1:]) if isinstance(text, str) else None
    if name is None:
        raise ValueError(f"its elements are {text!r}; only plain numbers travel")
    if text[0] == ">" and text[2:] != "1":
        raise ValueError(f"its elements are {text!r}, big-endian: save it in this byte order first")
    return xd._dtype(name)


def _npz_file(path: str) -> dict[str, Tensor]:
    import zipfile
    import zlib

    broken = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    # A wrong offset inside the archive ends in an OSError as well; the file itself was opened.
    data, tensors = _mapped(path), {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if member.compress_type == zipfile.ZIP_STORED:
                    begin = _member_begin(data, member.header_offset)
                    tensors[name] = _npy(data, begin, begin + member.file_size)
                else:
                    unpacked = _unpacked(archive, member)
                    tensors[name] = _npy(unpacked, 0, len(unpacked))
    except (*broken, OSError) as error:
        raise ValueError(f"it is no whole archive: {error}") from error
    return tensors


def _unpacked(archive: ZipFile, member: ZipInfo) -> bytes:
    """A compressed member, as far as its array goes: a small file may unpack to any size."""
    with archive.open(member) as file:
        head = file.read(12 + _LONGEST_EXPRESSION)
        dtype, shape, _, offset = _npy_header(head, 0, member.file_size)
        size = offset + math.prod(shape) * dtype.bits * dtype.lanes // 8
        return head[:size] + file.read(max(0, size - len(head)))


def _member_begin(data: Any, offset: int) -> int:
    """Where the bytes of a stored member begin: behind its own header, name and extra field."""
    lengths: tuple[int, int] = struct.unpack("<HH", data[offset + 26 : offset + 30])
    return offset + 30 + sum(lengths)


def _safetensors_file(path: str) -> dict[str, Tensor]:
    import json

    data = _mapped(path)
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(len(data) - 8, _LONGEST_HEADER):
        raise ValueError("its header is cut off, or longer than such a file may have")
    header = json.loads(data[8 : 8 + length].decode("utf-8"))
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in _SAFETENSORS:
            raise ValueError(f"`{name}` has the unknown dtype {entry['dtype']!r}")
        begin, end = entry["data_offsets"]
        tensor = xd._from_bytes(
            _read_only(data),
            _SAFETENSORS[entry["dtype"]],
            tuple(entry["shape"]),
            offset=8 + length + begin,
        )
        if end - begin != tensor.nbytes or begin < 0:
            raise ValueError(f"`{name}` has {tensor.nbytes} bytes, not those of {begin} to {end}")
        tensors[name] = tensor
    return tensors


def _tensor(value: Any) -> Tensor:
    from ._asarray import asarray

    return asarray(value)


def _npy_parts(value: Any, file: str = ".npy files have") -> Iterator[bytes]:
    tensor = _tensor(value)
    text = _TEXTS.get(tensor.dtype.name)
    if text is None:
        raise ValueError(f"{file} no dtype {tensor.dtype}: save it as .safetensors")
    order = "|" if tensor.dtype.itemsize == 1 else "<"
    header = (
        f"{{'descr': '{order}{text}', 'fortran_order': False, "
        f"'shape': {tensor.shape}, }}"
    )
    # The array begins at a multiple of 64 bytes.
    header += " " * (-(len(header) + 11) % 64) + "\n"
    head = _MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1")
    return iter((head, tensor._bytes()))


def _npz_parts(tensors: dict[str, Any]) -> Iterator[bytes]:
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, value in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for part in _npy_parts(value, f"`{name}`: .npz files have"):
                    member.write(part)
    yield packed.getvalue()


def _safetensors_parts(tensors: dict[str, Any]) -> Iterator[bytes]:
    import json

    found = {name: _tensor(value) for name, value in tensors.items()}
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are texts, and {name!r} is none")
    if "__metadata__" in found:
        raise ValueError("`__metadata__` is no name of a tensor in .safetensors files: choose another")
    header, end = {}, 0
    # Wide elements first, so that each tensor is aligned.
    order = sorted(found, key=lambda name: (-found[name].dtype.bits, name))
    for name in order:
        tensor = found[name]
        if tensor.dtype.name not in _NAMES:
            raise ValueError(f"`{name}`: .safetensors files have no dtype {tensor.dtype}")
        if tensor._padded:
            raise ValueError(
                f"`{name}`: .safetensors files have elements packed, and here each takes a byte: save "
                f'`xd.asarray(x.tolist(), dtype="{tensor.dtype}")`'
            )
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for name in order:
        yield found[name]._bytes()


_READERS: dict[str, Callable[[str], Tensor | dict[str, Tensor]]] = {
    ".npy": _npy_file,
    ".npz": _npz_file,
    ".safetensors": _safetensors_file,
}
_WRITERS: dict[str, Callable[[Any], Iterator[bytes]]] = {
    ".npy": _npy_parts,
    ".npz": _npz_parts,
    ".safetensors": _safetensors_parts,
}
