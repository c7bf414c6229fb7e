"""The simulated CUDA driver under clients that nobody here wrote (`docs/simulator.md`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests/sim/tests/clients"
# Each takes a second: all twenty where the slow tests run.
SEEDS = range(20 if os.environ.get("CROSSDOCK_LONG") == "1" else 3)

pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")


def simulated(client: str, policy: str, seed: int, *words: str) -> subprocess.CompletedProcess[str]:
    options = ["--policy", policy, "--seed", str(seed)]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(CLIENTS / client), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_a_missing_wait_between_nvidias_own_streams_is_reported(policy: str) -> None:
    run = simulated("cuda_core.py", policy, 1)
    assert run.returncode == 3, run.stdout + run.stderr
    assert "`cuMemcpyAsync`" in run.stderr and "on stream 2" in run.stderr
    mended = simulated("cuda_core.py", policy, 1, "mended")
    assert (mended.returncode, mended.stdout, mended.stderr) == (0, "", "")


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_numbas_arrays_work(policy: str) -> None:
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    run = simulated("numba_arrays.py", policy, 1)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def line_of(client: str, text: str) -> int:
    lines = (CLIENTS / client).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if text in line)
    return number


@pytest.mark.parametrize("lock", ["held", "free"])
def test_lines_are_told_whoever_holds_pythons_lock_and_until_the_interpreter_ends(lock: str) -> None:
    run = simulated("callers.py", "lazy", 1, lock)
    assert run.returncode == 3 and run.stderr.count("DoubleFree: ") == 1, run.stdout + run.stderr
    report, wait = map(json.loads, run.stdout.splitlines())
    lines = [line_of("callers.py", text) for text in ("# the first", "# the second")]
    assert [report[call]["python"]["line"] for call in ("first", "second")] == lines
    assert report["first"]["python"]["function"] == "Memory.free_twice"
    assert (wait["function"], wait["python"]["line"]) == ("cuMemFree_v2", lines[0])
    assert Path(report["first"]["python"]["file"]) == CLIENTS / "callers.py"
    # That is no package, so there is no other line to tell.
    assert report["first"]["program"] is None
    assert report["first"]["native"]["module"] and report["first"]["native"]["offset"] > 0
    for _ in SEEDS:
        ended = simulated("callers.py", "lazy", 1, lock, "thread")
        assert (ended.returncode, ended.stderr) == (0, "")
