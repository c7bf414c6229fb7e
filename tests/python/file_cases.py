"""The table of files that `load` and the command read alike: `tests/files/cases.json`.

A case has what a file says, how many bytes of data follow, and whether both readers accept it. `judge` is what NumPy's
or safetensors' own reader says where it differs, and `why` the reason; `command` what the command says where it
differs.
"""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

TABLE = json.loads(
    (Path(__file__).parents[1] / "files" / "cases.json").read_text(encoding="utf-8")
)
CASES = [
    (format, case) for format in ("npy", "safetensors", "npz") for case in TABLE[format]
]


def content(format: str, case: dict[str, Any]) -> bytes:
    """The bytes of a case's file."""
    return {"npy": _npy, "safetensors": _safetensors, "npz": _npz}[format](case)


def _data(count: int) -> bytes:
    # A bool is 0 or 1.
    return bytes([1, 0] * count)[:count]


def _npy(case: dict[str, Any]) -> bytes:
    major, minor = case.get("version", (1, 0))
    header: bytes = case["header"].encode()
    header = header.ljust(case.get("pad", len(header) + 1) - 1) + b"\n"
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([major, minor]) + length + header + _data(case["bytes"])


def _safetensors(case: dict[str, Any]) -> bytes:
    header: bytes = case["header"].encode()
    return struct.pack("<Q", len(header)) + header + _data(case["bytes"])


def _npz(case: dict[str, Any]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member in case["members"]:
            inner = member["text"].encode() if "text" in member else _npy(member)
            method = member.get("method", 0)
            archive.writestr(member["name"], inner, method if method in (0, 8, 12, 14) else 0)
    whole = bytearray(packed.getvalue())
    # Of the first member alone: what no writer writes.
    for member in case["members"][:1]:
        for begin, flags in ((whole.find(b"PK\3\4"), 6), (whole.find(b"PK\1\2"), 8)):
            whole[begin + flags] |= member.get("flags", 0)
            whole[begin + flags + 2] = member.get("method", 0)
    return bytes(whole)
