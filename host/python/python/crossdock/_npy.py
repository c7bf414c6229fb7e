"""NumPy's formats: one array in a `.npy` file, and several in a `.npz` archive."""

from __future__ import annotations

import errno
import math
import re
import struct
from collections.abc import Mapping

from . import _crossdock as xd
from ._crossdock import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any, BinaryIO, NoReturn
    from zipfile import ZipFile, ZipInfo

# NumPy's type texts without their byte order, of the dtypes that DLPack has as well.
TYPES = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
    "u2": "uint16", "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32",
    "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
_TEXTS = {name: text for text, name in TYPES.items()}

_MAGIC = b"\x93NUMPY"
# The versions, and the letter of `struct` for the length of the header.
_VERSIONS = {b"\1\0": "H", b"\2\0": "I", b"\3\0": "I"}
# NumPy itself refuses more unless it is told to trust the file.
_LONGEST_HEADER = 10_000

# One entry of a header. Only three are known, so nothing in a header nests.
_SPACES = b" \t\n\r\f"
_S = r"[ \t\n\r\f]*"
_ENTRY = re.compile(
    rf"""{_S} (['"]) (?P<key>descr|fortran_order|shape) \1 {_S} : {_S}
    (?: (['"]) (?P<descr>[^'"\\]*) \3 | (?P<order>True|False) | \( (?P<shape>[^()]*) \) )
    {_S} (?: , | (?=\}}) )""".encode(),
    re.VERBOSE,
)
_EXTENT = re.compile(rb"(0|[1-9]\d*)(L?)")


class Head:
    """What stands before an array: its dtype and shape, the order of its elements, and how many bytes it takes."""

    def __init__(self, file: IO[bytes]) -> None:
        start = file.read(8)
        if start[:6] != _MAGIC:
            raise ValueError("it does not begin as a .npy file does")
        letter = _VERSIONS.get(start[6:])
        if letter is None:
            raise ValueError("its version is unknown")
        length = file.read(struct.calcsize(letter))
        (count,) = struct.unpack(f"<{letter}", length)
        if count > _LONGEST_HEADER:
            raise ValueError(f"its header is too long: {count} bytes, at most {_LONGEST_HEADER} are allowed")
        text = file.read(count)
        if len(text) < count:
            raise ValueError("its header is cut off")
        self.length = len(start) + len(length) + count
        # Python 2 wrote `L` after some numbers, in files of the first two versions.
        self._parse(text.strip(_SPACES), has_longs=start[6] < 3)
        self.nbytes = math.prod(self.shape) * self.dtype.bits // 8

    def _parse(self, text: bytes, has_longs: bool) -> None:
        entries, at = {}, 1
        while entry := _ENTRY.match(text, at):
            key, at = entry["key"], entry.end()
            if key in entries:
                raise ValueError(f"its header has two entries {key.decode()!r}")
            entries[key] = entry[{b"fortran_order": "order"}.get(key, key.decode())]
        if text[:1] != b"{" or text[at:].strip(_SPACES) != b"}" or len(entries) < 3 or None in entries.values():
            if b"[" in text[at : at + 20]:
                raise ValueError("its elements are records; only plain numeric dtypes are supported")
            raise ValueError(f"its header is not that of an array: {text[:200]!r}")
        self.dtype = _numpy_dtype(entries[b"descr"].decode("latin-1"))
        self.is_fortran = entries[b"fortran_order"] == b"True"
        self.shape = _shape(entries[b"shape"], has_longs)

    def tensor(self, pages: memoryview | bytes, offset: int, end: int) -> Tensor:
        """The array, whose elements lie from `offset` on and may not go past `end`."""
        if offset + self.nbytes > end:
            raise ValueError("its array is cut off")
        order = self.shape[::-1] if self.is_fortran else self.shape
        tensor = xd._from_bytes(pages, self.dtype, order, offset=offset)
        axes = range(len(order))
        return tensor.permute_dims(axes[::-1]) if self.is_fortran else tensor


def _shape(text: bytes, has_longs: bool) -> tuple[int, ...]:
    parts = [part.strip(_SPACES) for part in text.split(b",")]
    is_tuple = len(parts) > 1 or parts == [b""]
    if not parts[-1]:
        parts.pop()
    extents = [_EXTENT.fullmatch(part) for part in parts]
    if not is_tuple or not all(extent and (has_longs or not extent[2]) for extent in extents):
        raise ValueError(f"its header has an invalid shape: ({text[:200].decode('latin-1')})")
    return tuple(int(extent[1]) for extent in extents if extent)


def _numpy_dtype(text: str) -> xd.Dtype:
    order = text[:1] if text[:1] in "<>|=" else ""
    name = TYPES.get(text.removeprefix(order))
    if name is None:
        raise ValueError(f"its dtype {text!r} is not supported; only plain numeric dtypes are")
    if order == ">" and not text.endswith("1"):
        raise ValueError(f"its dtype {text!r} is big-endian: save the array as little-endian first")
    return xd._dtype(name)


def npy_file(file: BinaryIO, pages: memoryview) -> Tensor:
    """The array of a `.npy` file."""
    head = Head(file)
    return head.tensor(pages, head.length, len(pages))


class Members(Mapping[str, Tensor]):
    """The arrays of a `.npz` file by name. Access to a member that is not a plain array raises `ValueError`."""

    def __init__(self, path: str, found: dict[str, Tensor | str]) -> None:
        self._path, self._found = path, found

    def __getitem__(self, name: str) -> Tensor:
        found = self._found[name]
        if isinstance(found, str):
            raise ValueError(f"{self._path}: its member `{name}`: {found}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<{self._path}: {', '.join(self._found)}>"

    def to(self, device: Any) -> Members:
        """The same on a device."""
        moved = {
            name: found if isinstance(found, str) else found.to(device)
            for name, found in self._found.items()
        }
        return Members(self._path, moved)


def npz_file(file: BinaryIO, pages: memoryview) -> Members:
    """The arrays of a `.npz` file. Stored ones are views of it, and compressed ones are copies."""
    import zipfile

    found: dict[str, Tensor | str] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                try:
                    found[name] = _member(archive, member, file, pages)
                except Exception as error:
                    found[name] = _why_broken(error)
    except Exception as error:
        raise ValueError(f"it is not a complete zip archive: {_why_broken(error)}") from error
    return Members(file.name, found)


def _why_broken(error: Exception) -> str | NoReturn:
    """What is wrong with the content of a file. Raises the error again if the system failed to read it."""
    # A wrong offset in an archive ends in EINVAL; modules that unpack give no number.
    is_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
    if is_system or isinstance(error, MemoryError):
        raise error
    return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _member(archive: ZipFile, member: ZipInfo, file: BinaryIO, pages: memoryview) -> Tensor:
    if member.flag_bits & 1:
        raise ValueError("it is encrypted")
    if member.compress_type != 0:
        with archive.open(member) as unpacked:
            head = Head(unpacked)
            # A small file may unpack to any size, so no more is unpacked than the array takes.
            size = min(head.nbytes, member.file_size)
            return head.tensor(unpacked.read(size), 0, size)
    begin = _member_begin(pages, member.header_offset)
    file.seek(begin)
    head = Head(file)
    end = begin + min(member.file_size, member.compress_size)
    return head.tensor(pages, begin + head.length, end)


def _member_begin(pages: memoryview, offset: int) -> int:
    """Where the bytes of a stored member begin: behind its own header, name and extra field."""
    header = bytes(pages[offset : offset + 30])
    if header[:4] != b"PK\3\4":
        raise ValueError("its offset in the archive directory is wrong")
    lengths: tuple[int, int] = struct.unpack("<HH", header[26:])
    return offset + 30 + sum(lengths)


def npy_parts(value: Any, file: str = ".npy files have") -> Iterator[bytes]:
    """The bytes of a `.npy` file."""
    from ._asarray import asarray

    tensor = asarray(value)
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


def npz_parts(tensors: Mapping[str, Any]) -> Iterator[bytes]:
    """The bytes of a `.npz` file."""
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, value in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for part in npy_parts(value, f"`{name}`: .npz files have"):
                    member.write(part)
    return iter((packed.getvalue(),))
