"""Each rule of order over the simulated driver: kept it is quiet, and without its wait it fails.

`cuda/rules_of_order.py` has the rules, `cuda/frameworks.py` arrays that exchange as PyTorch's and CuPy's do.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().parent / "cuda/order.py"


def simulated(policy: str) -> list[list[str]]:
    """The words of each line that all rules print."""
    options = ["--cuda", "2", "--policy", policy]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPT)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    return [line.split() for line in run.stdout.splitlines()]


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_no_rule_of_order_holds_without_its_wait(policy: str) -> None:
    rules, seen = set(), defaultdict(list)
    for name, *more in simulated(policy):
        rules.add(name)
        if len(more) > 1:
            seen[name].append(more)
    assert len(rules) >= 60
    assert not {name for name in rules if not seen[name]}
