"""Right exchanges between clients that nobody here wrote, over the simulated drivers: nothing is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/sim/tests/clients/exchanges.py"
LONG = os.environ.get("CROSSDOCK_LONG") == "1"
SEEDS = 20 if LONG else 2
POLICIES = ["seeded", "lazy", "threads"] if LONG else ["seeded"]
COUNT = 200
OF_CUDA = ["cuda.core", "cuda.bindings", "numba-cuda"]
OF_BOTH = [*OF_CUDA, "hip-python"]

pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")
pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
pytest.importorskip("hip", reason="skipped: hip-python is not installed")


def simulated(policy: str, seeds: int, *words: str) -> list[Any]:
    """What the program says of each seed, which is all that is said."""
    devices = ["--cuda", "1", *(["--rocm", "1"] if "hip-python" in words else [])]
    command = [str(ROOT / "scripts/with-sim"), *devices, "--policy", policy, "--"]
    program = [sys.executable, str(PROGRAM), str(seeds), str(COUNT), *words]
    run = subprocess.run([*command, *program], capture_output=True, text=True, timeout=600)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(told) == seeds
    return told


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("clients", [OF_CUDA, OF_BOTH, [*OF_BOTH, "crossdock"]], ids=" ".join)
def test_right_exchanges_bring_all_bytes_and_no_report(clients: list[str], policy: str) -> None:
    for drawn in simulated(policy, SEEDS, *clients):
        assert sum(drawn.values()) == COUNT
        assert set(drawn) == {f"{giver} -> {taker}" for giver in clients for taker in clients if giver != taker}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_wait_that_is_left_out_of_them_is_reported(policy: str) -> None:
    waits, reported = map(sum, zip(*simulated(policy, SEEDS, *OF_BOTH, "without")))
    # A stream of the blocking kind is ordered with the default one without any wait.
    assert waits > 40 * SEEDS and reported > 0.9 * waits
