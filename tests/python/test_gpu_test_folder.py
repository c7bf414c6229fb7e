"""`scripts/gpu-test`, `sim-pycuda` and `sim-cupy`: the folders that a user names, and what programs print there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu-test"


def said(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


@pytest.mark.parametrize("name", ["work", ".", "link"])
def test_a_folder_with_files_of_the_user_is_not_emptied(tmp_path: Path, name: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    file = tmp_path / "work/thesis.tex"
    file.write_text("years of work")
    run = said(sys.executable, SCRIPT, "build", name, "--profile", "dev", "--is-built", folder=tmp_path)
    assert file.read_text() == "years of work"
    assert run.returncode == 1 and "name a folder that is empty or does not exist yet" in run.stderr, run.stderr


@pytest.mark.parametrize("script", ["sim-pycuda", "sim-cupy"])
def test_an_environment_of_the_user_is_not_replaced(tmp_path: Path, script: str) -> None:
    file = tmp_path / "venv/pyvenv.cfg"
    file.parent.mkdir()
    file.write_text("home = /usr/bin")
    run = said(ROOT / "scripts" / script, tmp_path, folder=tmp_path)
    assert file.read_text() == "home = /usr/bin"
    assert run.returncode == 4 and "is not empty" in run.stderr, run.stderr


def test_warnings_on_stderr_are_no_part_of_the_answer(tmp_path: Path) -> None:
    program = tmp_path / "ready/bin/crossdock"
    program.parent.mkdir(parents=True)
    device = '{"id": "cuda:0", "name": "Simulated", "driver_version": "13.0"}'
    program.write_text(f"#!/bin/sh\necho 'warning: slow disk' >&2\necho '{{\"devices\": [{device}]}}'\n")
    program.chmod(0o755)
    run = said(sys.executable, SCRIPT, "run", "ready", "--only", "devices", folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "cuda:0: Simulated, driver 13.0" in run.stdout
    assert "warning: slow disk" in (tmp_path / "gpu-test-out/devices.log").read_text()


def test_a_failed_run_shows_the_last_line_of_its_stderr(tmp_path: Path) -> None:
    program = tmp_path / "ready/bin/crossdock"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho report\necho 'error: no memory' >&2\nexit 1\n")
    program.chmod(0o755)
    run = said(sys.executable, SCRIPT, "run", "ready", "--only", "devices", "matrix", folder=tmp_path)
    assert run.returncode == 1
    assert "FAILED matrix: error: no memory" in run.stdout, run.stdout
