"""Managed tensors and capsules made by hand, whose deleters count: what hostile producers give."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import structs
from structs import (
    DELETER,
    NUMBERS,
    Legacy,
    Tensor,
    Versioned,
    consume,
    delete,
    exported,
    name_of,
    struct_in,
    versioned_in,
)

__all__ = ["Forged", "Legacy", "Producer", "Tensor", "Versioned"]
__all__ += ["consume", "delete", "exported", "name_of", "struct_in", "versioned_in"]


class Forged:
    """One managed tensor over bytes of its own, and how often it was deleted."""

    def __init__(
        self,
        shape: tuple[int, ...] = (2, 3),
        *,
        dtype: tuple[int, int, int] = (2, 32, 1),
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = (1, 0),
        version: tuple[int, int] | None = (1, 3),
        flags: int = 0,
        byte_offset: int = 0,
        size: int = 4096,
        data: int | None = None,
        ndim: int | None = None,
        no_strides: bool = False,
        no_deleter: bool = False,
        on_delete: Callable[[], None] | None = None,
    ) -> None:
        self.deleted = 0
        self.on_delete = on_delete
        self.memory = (ctypes.c_uint8 * (size + 64))()
        start = -(-ctypes.addressof(self.memory) // 64) * 64
        self.address = start if data is None else data
        if strides is None:
            steps = [1]
            for extent in reversed(shape[1:]):
                steps.insert(0, steps[0] * max(extent, 1))
            strides = tuple(steps)
        rank = len(shape)
        self._shape = (ctypes.c_int64 * max(rank, 1))(*shape)
        self._strides = (ctypes.c_int64 * max(rank, 1))(*strides[:rank])
        self._deleter = DELETER() if no_deleter else DELETER(self._count)
        self.managed = Legacy() if version is None else Versioned()
        if version is not None:
            self.managed.major, self.managed.minor = version
            self.managed.flags = flags
        self.managed.deleter = self._deleter
        tensor = self.managed.tensor
        tensor.data = self.address or None
        tensor.device_type, tensor.device_id = device
        tensor.ndim = rank if ndim is None else ndim
        tensor.code, tensor.bits, tensor.lanes = dtype
        tensor.shape = ctypes.cast(self._shape, NUMBERS)
        if not no_strides:
            tensor.strides = ctypes.cast(self._strides, NUMBERS)
        tensor.byte_offset = byte_offset
        structs.kept.append(self)

    def _count(self, _managed: int) -> None:
        self.deleted += 1
        if self.on_delete:
            self.on_delete()

    def floats(self, count: int = 6) -> ctypes.Array[ctypes.c_float]:
        """The memory as floats."""
        return (ctypes.c_float * count).from_address(self.address)

    def capsule(self, name: bytes | None = None) -> Any:
        """A capsule of the struct, without a destructor."""
        if name is None:
            name = structs.LEGACY if isinstance(self.managed, Legacy) else structs.VERSIONED
        structs.kept.append(name)
        return structs.new_capsule(ctypes.addressof(self.managed), name, None)


class Producer:
    """An object with both methods: what it states, what it exports, and how it was asked."""

    def __init__(self, forged: Forged, stated: tuple[int, int] | None = None) -> None:
        self.forged = forged
        tensor = forged.managed.tensor
        self.stated = stated or (tensor.device_type, tensor.device_id)
        self.calls: list[tuple[str, dict[str, object]]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        self.calls.append(("device", {}))
        return self.stated

    def __dlpack__(self, **keywords: object) -> object:
        self.calls.append(("dlpack", keywords))
        return self.forged.capsule()
