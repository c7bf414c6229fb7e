"""Which lines of Python a report names for calls that come from an installed package (`docs/simulator.md`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pythons import PYTHONS

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = """
import contextlib, ctypes, sys

driver = (ctypes.PyDLL if sys.argv[1] == "held" else ctypes.CDLL)("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64)) == 0

def free():
    driver.cuMemFree_v2(memory)  # the call

@contextlib.contextmanager
def freed():
    free()
    yield

def freeing():
    yield free()

def deep(depth):
    deep(depth - 1) if depth else free()
"""
PROGRAM = """
import library

def main():
    library.free()
    library.free()  # by a function
    with library.freed():  # by a module of Python's
        pass
    list(library.freeing())  # by a generator
    library.deep(100)

main()
list(map(lambda _: library.free(), [0]))  # by another function
"""


def line_of(text: str, mark: str) -> int:
    (number,) = (number for number, line in enumerate(text.splitlines(), 1) if mark in line)
    return number


@pytest.mark.parametrize("lock", ["held", "free"])
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "venv"])
def test_the_line_outside_of_packages_is_named_too(tmp_path: Path, version: str, lock: str) -> None:
    if not PYTHONS[version].exists():
        pytest.skip(f"skipped: Python {version} is not installed")
    packages, program = tmp_path / "site-packages", tmp_path / "program.py"
    packages.mkdir()
    (packages / "library.py").write_text(LIBRARY)
    program.write_text(PROGRAM)
    options = ["--reports", str(tmp_path / "reports")]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", str(PYTHONS[version]), str(program), lock]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert run.returncode == 3, run.stdout + run.stderr
    (file,) = (tmp_path / "reports").iterdir()
    calls: list[dict[str, Any]] = [json.loads(line)["second"] for line in file.read_text().splitlines()]
    called = {(call["python"]["file"], call["python"]["line"]) for call in calls}
    assert called == {(str(packages / "library.py"), line_of(LIBRARY, "# the call"))}
    functions = [("# by a function", "main"), ("Python's", "main"), ("a generator", "main"), None, ("another", "<lambda>")]
    expected = [
        function and {"file": str(program), "line": line_of(PROGRAM, function[0]), "function": function[1]}
        for function in functions
    ]
    # Of a call from deep within the package nobody looks for more.
    assert [call["program"] for call in calls] == expected
    assert f"library.py:{line_of(LIBRARY, '# the call')} in free for {program}:" in run.stderr
