"""The Pythons of this machine that `crossdock run` is tried with, and how it is compared with them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import crossdock as xd
import pytest

PACKAGE = Path(xd.__file__).parent
COMMAND = PACKAGE / "command"
# Where cargo builds what some tests need beside the package.
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target")) / "debug"
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"

# The Python of the system, others where pyenv has them, and the environment of these tests.
PYTHONS = {
    "system": Path("/usr/bin/python3"),
    "3.11": PYENV / "3.11.7/bin/python3",
    "3.12": PYENV / "3.12.1/bin/python3",
    "3.13": PYENV / "3.13.0/bin/python3",
    "venv": Path(sys.executable),
}

# Answers of Pythons are kept in the user's cache; those of the tests' own are not to stay there. A path that is
# no folder keeps none.
CACHE = tempfile.TemporaryDirectory(prefix="crossdock-")
CACHES = os.environ.get("CROSSDOCK_TEST_CACHES", CACHE.name)

# What would choose another Python, or make the outputs differ, for any user who runs these tests.
STEERING = ("VIRTUAL_ENV", "CONDA_PREFIX", "CROSSDOCK_PYTHON")


@cache
def why_not(python: Path) -> str:
    """Why a Python cannot be tried here; empty where it can."""
    if not python.is_file():
        return f"{python} is not installed"
    asked = explain(python)
    if asked.returncode:
        return asked.stderr
    if "library      none" in asked.stdout:
        return f"{python} has no shared library"
    return ""


def usable(name: str) -> Path:
    """The Python of that name; a test that asks for one which is not here is skipped."""
    python = PYTHONS[name]
    if reason := why_not(python):
        pytest.skip(reason)
    return python


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without what steers, with the package and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if name not in STEERING}
    ours = {"PYTHONPATH": str(PACKAGE.parent), "XDG_CACHE_HOME": CACHES}
    return kept | ours | dict(extra or {})


def run(
    command: Sequence[str | Path],
    stdin: str = "",
    extra: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """A process with all that it said; its end is awaited, but not for ever."""
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        env=environment(extra),
        cwd=cwd,
    )


def explain(python: Path | str) -> subprocess.CompletedProcess[str]:
    """`crossdock run --explain` of a Python."""
    return run([COMMAND, "run", "--python", python, "--explain"])


def inside(
    python: Path | str,
    *arguments: str | Path,
    stdin: str = "",
    extra: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """`crossdock run` with that Python."""
    return run([COMMAND, "run", "--python", python, *arguments], stdin, extra, cwd)


def masked(text: str) -> str:
    """Without what differs between two runs of one program: times and addresses."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"\d+(\.\d+)? ?(sec|usec|nsec|msec|s|ms)\b", "TIME", text)
    text = re.sub(r"\d+ loops?", "LOOPS", text)
    return re.sub(r"(import time:)[ \d]+\|[ \d]+\|", r"\1", text)
