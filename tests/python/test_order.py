"""Each rule of order over the simulated drivers: kept it is quiet, and without its wait it fails.

`order/rules_of_order.py` has the rules, `order/frameworks.py` arrays that exchange as PyTorch's and CuPy's do, and
`order/rules_of_hip_python.py` hip-python's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().parent / "order/order.py"
LONG = os.environ.get("CROSSDOCK_LONG") == "1"
POLICIES = ["lazy", "seeded", "threads"]


def simulated(vendor: str, policy: str, *words: str) -> list[list[str]]:
    """The words of each line that the rules print."""
    options = [f"--{vendor}", "2", "--policy", policy]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPT), vendor, *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    return [line.split() for line in run.stdout.splitlines()]


def all_fail(lines: list[list[str]]) -> int:
    """How many rules there are, each of which was seen to fail."""
    rules, seen = set(), defaultdict(list)
    for name, *more in lines:
        rules.add(name)
        if len(more) > 1:
            seen[name].append(more)
    assert not {name for name in rules if not seen[name]}
    return len(rules)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_rule_of_order_holds_without_its_wait_on_cuda(policy: str) -> None:
    assert all_fail(simulated("cuda", policy)) >= 60


@pytest.mark.parametrize("policy", POLICIES)
def test_no_rule_of_order_holds_without_its_wait_on_rocm(policy: str) -> None:
    pytest.importorskip("hip", reason="skipped: hip-python is not installed")
    # Each policy has a third of the rules, and all of them where the slow tests run.
    part = [] if LONG else [f"{POLICIES.index(policy) + 1}/{len(POLICIES)}"]
    assert all_fail(simulated("rocm", policy, *part)) >= (60 if LONG else 20)
