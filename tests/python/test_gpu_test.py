"""`scripts/gpu-test`, which is for machines with a GPU, over the simulated driver: so that it runs once there is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu-test"

pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is copied to such a machine, of what is built here."""
    if "CROSSDOCK_CUDA_HEADER_DIR" not in os.environ:
        pytest.skip("skipped: CROSSDOCK_CUDA_HEADER_DIR is not set; scripts/setup fetches the header")
    folder = tmp_path_factory.mktemp("gpu") / "ready"
    command = [sys.executable, str(SCRIPT), "build", str(folder), "--profile", "dev", "--is-built"]
    subprocess.run(command, check=True)
    return folder


def run(folder: Path, simulated: list[str], *parts: str) -> tuple[int, str, str]:
    """The exit code, what was printed, and the table."""
    out = folder.parent / "out"
    command = [*simulated, sys.executable, str(folder / "gpu-test"), "run", "--short", "--out", str(out), "--only", *parts]
    # As on a machine that has nothing of this project.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONPATH")}
    result = subprocess.run(command, env=variables, cwd=folder.parent, capture_output=True, text=True, timeout=600)
    return result.returncode, result.stdout + result.stderr, (out / "table.md").read_text()


def over(*words: str, vendor: str = "cuda") -> list[str]:
    return [str(ROOT / "scripts/with-sim"), f"--{vendor}", "2", *words, "--"]


def test_all_is_run_from_one_folder_and_fills_a_table(ready: Path) -> None:
    code, told, table = run(ready, over(), "devices", "suite", "questions", "matrix", "copies", "frameworks")
    # Times are not judged here, which rows there are is.
    assert "| cuda:1 | Simulated GPU 1, driver 13.0 | - |" in table, told
    assert "| suite: pools, one queue | as documented | yes |" in table, told
    assert "| how many of 63 streams go on while one waits for a word | 56 of 63 | - |" in table, told
    assert "| matrix, one queue | " in table, told
    assert "| pinned, beside the driver's own, from cuda:1, 16 MiB | " in table, told
    assert "numba: CUDA Array Interface, from Crossdock | " in table, told
    failed = [line for line in table.splitlines() if "**no**" in line and "asked: >=" not in line]
    assert failed == [] and code in (0, 1), told


def test_what_the_driver_does_otherwise_is_told_with_its_line(ready: Path) -> None:
    code, told, table = run(ready, over("--set", "fault=cuMemPoolCreate@1+=801"), "suite")
    assert code == 1, told
    assert "| suite: pools | " in table and "cuMemPoolCreate" in table and "answers 801 and not 0 | **no** |" in table
    assert "| suite: order | as documented | yes |" in table, told


@pytest.mark.parametrize("hip", ["7.0", "6.4"])
def test_amds_devices_have_their_own_suite(ready: Path, hip: str) -> None:
    code, told, table = run(ready, over("--set", f"hip={hip}", vendor="rocm"), "devices", "suite", "questions", "copies")
    assert code == 0, told
    assert f"| rocm:1 | Simulated ROCm GPU 1, driver {hip} | - |" in table, told
    suites = re.findall(r"\| suite: (.*?) \| as documented \| yes \|", table)
    assert suites == [name + queues for name in [f"hip-{hip[0]}-behaviour"] for queues in ("", ", one queue")], table
    # What is NVIDIA's alone is not asked.
    assert len(table.splitlines()) <= 9, table


def test_without_a_device_it_says_why(ready: Path) -> None:
    code, told, table = run(ready, [], "devices")
    assert code == 1 and "FAILED devices: no device of CUDA or ROCm: " in told, told
    assert "libcuda.so.1" in table, table


def test_a_folder_that_others_may_write_to_is_told_in_one_line_with_what_to_do(ready: Path) -> None:
    ready.chmod(0o757)
    try:
        code, told, table = run(ready, over(), "devices")
    finally:
        ready.chmod(0o755)
    row = table.splitlines()[-1]
    assert code == 1 and row.startswith("| devices | no device of CUDA or ROCm: trust the plugin "), told
    assert f"try: chmod go-w '{ready}'" in row and row.endswith(" | **no** |"), told
