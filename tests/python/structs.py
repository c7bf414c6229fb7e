"""DLPack's structs and the capsules around them, as the tests' own producers and consumers see them."""

from __future__ import annotations

import ctypes
from typing import Any

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NUMBERS = ctypes.POINTER(ctypes.c_int64)


class Tensor(ctypes.Structure):
    """`DLTensor`, its inner structs written out."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", NUMBERS),
        ("strides", NUMBERS),
        ("byte_offset", ctypes.c_uint64),
    ]


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
# With an address, a name that the caller keeps, and no destructor.
new_capsule = _api.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = _api.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

# A capsule does not copy its name, and a struct must outlive its consumers.
kept: list[object] = []


def name_of(capsule: object) -> bytes:
    """The name of a capsule: `used_dltensor` once it was taken."""
    return bytes(_name(capsule))


def struct_in(capsule: object) -> Versioned | Legacy:
    """The struct in a DLPack capsule, taken or not, by the capsule's name."""
    kind = Versioned if name_of(capsule).endswith(b"versioned") else Legacy
    return kind.from_address(_pointer(capsule, _name(capsule)))


def versioned_in(capsule: object) -> Versioned:
    """The new struct behind a capsule of any name."""
    return Versioned.from_address(_pointer(capsule, _name(capsule)))


def exported(x: Any, version: tuple[int, int] | None = (1, 3), **keywords: Any) -> Any:
    """The struct that `x` exports; it keeps its capsule."""
    capsule = x.__dlpack__(max_version=version, **keywords)
    found: Any = struct_in(capsule)
    found.capsule = capsule
    return found


def consume(capsule: object) -> Versioned | Legacy:
    """Renames a capsule as consumers do; the caller calls the deleter."""
    found = struct_in(capsule)
    used = b"used_" + name_of(capsule)
    kept.append(used)
    assert _rename(capsule, used) == 0
    return found


def delete(managed: Versioned | Legacy) -> None:
    """Calls the deleter."""
    managed.deleter(ctypes.addressof(managed))
