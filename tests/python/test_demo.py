"""`scripts/demo`, with stand-ins for what it builds and fetches: whether it fails where it proves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def demo(folder: Path, setup: str) -> subprocess.CompletedProcess[str]:
    """The demo on a machine where the plugin for OpenCL shows no device."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/demo", folder / "scripts/demo")
    program(folder / "scripts/setup", f"mkdir -p .cache; echo '{setup}' >.cache/env.sh")
    program(folder / "scripts/fetch", "echo /nowhere")
    program(folder / "scripts/demo-files", "true")
    program(folder / "bin/cargo", "true")
    program(folder / "target/release/crossdock", 'case "$*" in *--require*opencl*) echo "opencl is absent" >&2; exit 1; esac')
    for name in ("cpu", "opencl", "cuda", "rocm"):
        (folder / f"target/release/libcrossdock_plugin_{name}.so").touch()
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder)}
    return subprocess.run([folder / "scripts/demo"], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("setup", "code"), [("export CROSSDOCK_OPENCL=set-up", 1), ("", 0)])
def test_the_demo_fails_if_a_device_that_it_set_up_is_missing(tmp_path: Path, setup: str, code: int) -> None:
    run = demo(tmp_path, setup)
    assert run.returncode == code, run.stderr
    assert ("opencl is absent" in run.stderr) == (code == 1), run.stderr
