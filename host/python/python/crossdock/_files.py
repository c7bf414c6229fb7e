"""Tensors in files: `.npy`, `.npz` and `.safetensors`, mapped so that the file is the tensor.

The formats are a header of a few lines each, so they are read here, in Python: a mapped file
reaches the runtime as any other object with the buffer protocol does, which needs no function of
the table.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from ._crossdock import Tensor
from ._npy import Members, npy_file, npy_parts, npz_file, npz_parts
from ._pages import mapped, open_regular
from ._safetensors import safetensors_file, safetensors_parts
from ._written import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from ._crossdock import _DeviceLike

# What reading a header raises where it is not what it should be.
_BROKEN = (
    struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    UnicodeDecodeError,
)  # fmt: skip

_OF_PYTORCH = ": `torch.load` reads PyTorch's own, and `asarray` takes its tensors"
_WHO_READS = dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _OF_PYTORCH)


def load(
    path: str | os.PathLike[str], *, device: _DeviceLike | None = None
) -> Tensor | Mapping[str, Tensor]:
    """The tensor of a `.npy` file, or the tensors by name of a `.npz` or `.safetensors` file.

    The file is mapped, and the tensors are read-only views of it: nothing is read before it is
    used, and the file must not be shortened while they live. A library that writes all the same, as PyTorch
    does, changes pages of this process, and never the file. Compressed members of a `.npz` are
    copies. A member that is not a plain array raises `ValueError` when it is accessed. With `device` the tensors
    are moved there. Raises `OSError`, and `ValueError` for what is no such file.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    reader = _READERS.get(ending)
    if reader is None:
        raise ValueError(f"{path} ends in none of .npy, .npz and .safetensors{_WHO_READS.get(ending, '')}")
    try:
        with open_regular(path) as file:
            found = reader(file, mapped(file))
    except _BROKEN as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is no whole {ending} file: {why}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if device is None:
        return found
    if isinstance(found, (Tensor, Members)):
        return found.to(device)
    return {name: tensor.to(device) for name, tensor in found.items()}


def save(path: str | os.PathLike[str], tensors: Any) -> None:
    """Writes a tensor to a `.npy` file, or a dict of tensors by name to `.npz` or `.safetensors`.

    Anything that `asarray` takes is a tensor here. The file is there whole or not at all; only if its folder accepts
    no new file, an existing one is overwritten in place. As `numpy.save` does, it follows links and keeps the mode of
    an existing file. Raises `OSError`, `TypeError` for the wrong kind of file, and `ValueError` for a dtype that the
    format lacks (`.safetensors` has most).
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    writer = _WRITERS.get(ending)
    if writer is None:
        raise ValueError(f"{path} ends in none of .npy, .npz and .safetensors")
    if isinstance(tensors, Mapping) == (writer is npy_parts):
        wanted = "one tensor" if writer is npy_parts else "a dict of tensors by name"
        raise TypeError(f"a {ending} file holds {wanted}")
    for name in tensors if writer is not npy_parts else ():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are texts, and {name!r} is none")
    parts, of_values = writer(tensors), list[OSError]()
    try:
        write(path, _noting(parts, of_values))
    except OSError as error:
        if any(error is one for one in of_values):
            raise
        # The caller knows of no other name.
        raise OSError(error.errno, error.strerror, path) from None


def _noting(parts: Iterator[bytes], raised: list[OSError]) -> Iterator[bytes]:
    """The parts, and notes an error of the values, which says nothing of the file."""
    try:
        yield from parts
    except OSError as error:
        raised.append(error)
        raise


_READERS: dict[str, Callable[[BinaryIO, memoryview], Tensor | Members | dict[str, Tensor]]] = {
    ".npy": npy_file,
    ".npz": npz_file,
    ".safetensors": safetensors_file,
}
_WRITERS: dict[str, Callable[[Any], Iterator[bytes]]] = {
    ".npy": npy_parts,
    ".npz": npz_parts,
    ".safetensors": safetensors_parts,
}
