"""Crossdock's CUDA plugin between clients that nobody here wrote, over the simulated driver."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "cuda"
LONG = os.environ.get("CROSSDOCK_LONG") == "1"
SEEDS = range(20 if LONG else 2)
EXCHANGES = 200 if LONG else 30

pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")
pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")


def simulated(script: str, policy: str, seed: int, *words: str) -> subprocess.CompletedProcess[str]:
    options = ["--cuda", "2", "--policy", policy, "--seed", str(seed), "--set", "unrecorded=0"]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPTS / script), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_exchanges_with_clients_are_right_and_nothing_is_reported(policy: str) -> None:
    for seed in SEEDS:
        run = simulated("exchanges.py", policy, seed, str(seed), str(EXCHANGES))
        assert run.returncode == 0, (seed, run.stdout + run.stderr)


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_every_number_of_a_stream_means_what_the_protocols_say(policy: str) -> None:
    run = simulated("rules.py", policy, 1)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_a_consumer_that_asks_for_no_order_is_reported(policy: str) -> None:
    for seed in SEEDS:
        run = simulated("unordered.py", policy, seed)
        assert run.returncode == 3 and "Race: " in run.stderr, run.stdout + run.stderr
        # Both places: the line of the package that submitted the fill, and the client's own.
        assert re.search(r"`cuMemsetD8Async` \(call \d+, \S+_values.py:\d+ in fill", run.stderr), run.stderr
        assert re.search(r"`cuMemcpyAsync` \(call \d+, \S+unordered.py:\d+ in <module>", run.stderr), run.stderr
        mended = simulated("unordered.py", policy, seed, "mended")
        assert (mended.returncode, mended.stderr) == (0, ""), mended.stdout + mended.stderr
