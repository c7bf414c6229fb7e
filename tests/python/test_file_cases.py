"""The table of files (`tests/files/cases.json`): `load` against it, and against the formats' own readers."""

import warnings
from pathlib import Path
from typing import Any

import crossdock as xd
import numpy as np
import pytest
import safetensors
from file_cases import CASES, content

EVERY = pytest.mark.parametrize(
    ("format", "case"), CASES, ids=[f"{format}-{case['name']}" for format, case in CASES]
)


def loaded(path: Path) -> dict[str, bytes]:
    """The bytes of each tensor that `load` gives."""
    found: Any = xd.load(path)
    tensors = {"": found} if isinstance(found, xd.Tensor) else dict(found)
    return {name: bytes(tensor._bytes()) for name, tensor in tensors.items()}


def judged(path: Path) -> dict[str, bytes]:
    """The same by the reader of the format's own authors."""
    if path.suffix == ".safetensors":
        read: Any = safetensors.deserialize
        tensors = dict(read(path.read_bytes()))
        return {name: bytes(tensor["data"]) for name, tensor in tensors.items()}
    with warnings.catch_warnings():
        # Of files that Python 2 wrote.
        warnings.simplefilter("ignore", UserWarning)
        found = np.load(path)
        arrays = {"": found} if isinstance(found, np.ndarray) else dict(found)
    return {name: array if isinstance(array, bytes) else array.tobytes() for name, array in arrays.items()}


def answer(read: Any, path: Path) -> dict[str, bytes] | None:
    try:
        found: dict[str, bytes] = read(path)
    except Exception:
        return None
    return found


@EVERY
def test_a_file_is_read_as_the_table_and_its_judge_say(
    tmp_path: Path, format: str, case: dict[str, Any]
) -> None:
    path = tmp_path / f"a.{format}"
    path.write_bytes(content(format, case))
    judge = answer(judged, path)
    assert (judge is not None) == case.get("judge", case["accepted"])
    if not case["accepted"]:
        with pytest.raises(ValueError, match=r"a\."):
            loaded(path)
        assert judge is None or case["why"]
    else:
        assert loaded(path) == judge
