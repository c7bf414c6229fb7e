"""Crossdock's ROCm plugin beside a client that nobody here wrote, over the simulated runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "rocm"
LONG = os.environ.get("CROSSDOCK_LONG") == "1"
SEEDS = range(20 if LONG else 2)
EXCHANGES = 200 if LONG else 30

pytest.importorskip("hip", reason="skipped: hip-python is not installed")


@pytest.mark.parametrize("hip", ["7.0", "6.4"])
@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_exchanges_with_hip_python_are_right_and_nothing_is_reported(policy: str, hip: str) -> None:
    for seed in SEEDS:
        options = ["--rocm", "2", "--policy", policy, "--seed", str(seed), "--set", f"hip={hip}"]
        words = [sys.executable, str(SCRIPTS / "exchanges.py"), str(seed), str(EXCHANGES)]
        command = [str(ROOT / "scripts/with-sim"), *options, "--", *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert (run.returncode, run.stderr) == (0, ""), (seed, run.stdout + run.stderr)
