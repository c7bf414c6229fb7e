"""Forged producers: DLPack structs made by hand, in capsules, with a deleter that counts.

    forged = forge(shape=(2, 3), version=(99, 0))
    xd.from_dlpack(forged.capsule)
    assert forged.deleted == 1

Every field can be set to what no honest producer would write.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from structs import DELETER, NUMBERS, Legacy, Versioned, kept, name_of, new_capsule

__all__ = ["Forged", "Producer", "forge", "name_of", "new_capsule"]

CPU = (1, 0)
FLOAT32 = (2, 32, 1)
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


class Forged:
    """A forged tensor: its `capsule`, its `struct`, its memory, and how often it was `deleted`."""

    def __init__(self, struct: Legacy | Versioned, name: str, memory: Any) -> None:
        self.struct = struct
        self.memory = memory
        self.deleted = 0
        self._gone = threading.Event()
        self.when_deleted: Callable[[], None] | None = None
        self._name = ctypes.create_string_buffer(name.encode())
        self._deleter = DELETER(self._delete)
        kept.append((struct, memory, self._name, self._deleter))

    def _delete(self, _struct: int) -> None:
        self.deleted += 1
        self._gone.set()
        if self.when_deleted:
            self.when_deleted()

    def released(self) -> bool:
        """Whether the deleter ran, once, or does so soon: after the work on the tensor."""
        return self._gone.wait(20) and self.deleted == 1

    def give_deleter(self) -> None:
        """Writes the counting deleter into the struct."""
        self.struct.deleter = self._deleter

    @property
    def capsule(self) -> Any:
        """A new capsule with the struct. It has no destructor: one that nobody takes is lost."""
        return new_capsule(ctypes.addressof(self.struct), self._name, None)

    def producer(self) -> Producer:
        """An object that hands the capsule out and names the struct's device."""
        tensor = self.struct.tensor
        return Producer(self, (tensor.device_type, tensor.device_id))


class Producer:
    """Answers `__dlpack__` with a forged capsule, whatever was asked; `asked` has the keywords."""

    def __init__(self, forged: Forged, device: tuple[int, int]) -> None:
        self.forged = forged
        self.device = device
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.forged.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def _numbers(values: Sequence[int] | None) -> Any:
    return None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values)


def forge(
    *,
    versioned: bool = True,
    shape: Sequence[int] | None = (2, 3),
    strides: Sequence[int] | None = None,
    ndim: int | None = None,
    dtype: tuple[int, int, int] = FLOAT32,
    device: tuple[int, int] = CPU,
    data: int | None = -1,
    byte_offset: int = 0,
    version: tuple[int, int] = (1, 3),
    flags: int = 0,
    name: str | None = None,
    deleter: bool = True,
) -> Forged:
    """A forged tensor. `data=-1` is 4096 bytes of zeros of its own; `None` is NULL, as in `shape`
    and `strides`; `ndim=None` is the length of `shape`.
    """
    memory = (ctypes.c_uint8 * 4096)()
    extents, steps = _numbers(shape), _numbers(strides)
    struct: Legacy | Versioned = Versioned() if versioned else Legacy()
    tensor = struct.tensor
    tensor.data = ctypes.addressof(memory) if data == -1 else data
    tensor.device_type, tensor.device_id = device
    tensor.ndim = len(shape or ()) if ndim is None else ndim
    tensor.code, tensor.bits, tensor.lanes = dtype
    tensor.shape = ctypes.cast(extents, NUMBERS)
    tensor.strides = ctypes.cast(steps, NUMBERS)
    tensor.byte_offset = byte_offset
    if isinstance(struct, Versioned):
        struct.major, struct.minor = version
        struct.flags = flags
    name = name or ("dltensor_versioned" if versioned else "dltensor")
    forged = Forged(struct, name, (memory, extents, steps))
    if deleter:
        forged.give_deleter()
    return forged
