"""Managed tensors and capsules made by hand, whose deleters count: what hostile producers give."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = _api.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

# Names and structs that capsules point to; a test's process keeps them all.
_kept: list[object] = []


def name_of(capsule: object) -> bytes:
    """The capsule's name."""
    return bytes(_name(capsule))


def struct_in(capsule: object) -> Versioned | Legacy:
    """The struct behind a capsule, by the capsule's name."""
    name = _name(capsule)
    kind = Versioned if b"versioned" in name else Legacy
    return kind.from_address(_pointer(capsule, name))


def versioned_in(capsule: object) -> Versioned:
    """The new struct behind a capsule of any name."""
    return Versioned.from_address(_pointer(capsule, _name(capsule)))


def consume(capsule: object) -> Versioned | Legacy:
    """Renames a capsule as consumers do; the caller calls the deleter."""
    found = struct_in(capsule)
    used = b"used_" + _name(capsule)
    _kept.append(used)
    assert _rename(capsule, used) == 0
    return found


def delete(managed: Versioned | Legacy) -> None:
    """Calls the deleter."""
    managed.deleter(ctypes.addressof(managed))


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
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if not no_strides:
            tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        tensor.byte_offset = byte_offset
        _kept.append(self)

    def _count(self, _managed: int) -> None:
        self.deleted += 1
        if self.on_delete:
            self.on_delete()

    def floats(self, count: int = 6) -> ctypes.Array[ctypes.c_float]:
        """The memory as floats."""
        return (ctypes.c_float * count).from_address(self.address)

    def capsule(self, name: bytes | None = None) -> object:
        """A capsule of the struct, without a destructor."""
        if name is None:
            name = LEGACY if isinstance(self.managed, Legacy) else VERSIONED
        _kept.append(name)
        return _new(ctypes.addressof(self.managed), name, None)


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
