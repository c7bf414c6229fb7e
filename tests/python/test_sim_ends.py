"""How processes and tests end over the simulator: what they reported is found, by the package's command and by pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_sim_package import RACY, Command, installed, python, simulated, verdicts

__all__ = ["installed", "simulated"]


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_what_a_process_reported_is_told_however_it_ended(simulated: Command, tmp_path: Path, policy: str) -> None:
    ends = {
        "_exit": "import os; os._exit(0)",
        "exec": "import os; os.execv(sys.executable, [sys.executable, '-c', ''])",
        "exit": "",
    }
    for how, end in ends.items():
        run = simulated("run", "--policy", policy, "--json", "told.json", "--", *python(f"{RACY}\n{end}"))
        assert run.returncode == 3 and run.stderr.count("Race: `cuMemsetD8Async`") >= 1, f"{how}: {run.stderr}"
        (one,) = json.loads((tmp_path / "told.json").read_text())["runs"]
        assert [report["kind"] for report in one["reports"]] == ["Race"], how
    # The driver begins in the child.
    forks = f"import multiprocessing\ndef race(): exec({RACY!r}, {{}})\n"
    forks += "child = multiprocessing.get_context('fork').Process(target=race); child.start(); child.join()"
    run = simulated("run", "--policy", policy, "--", *python(forks))
    assert run.returncode == 3 and "Race: `cuMemsetD8Async` and `cuMemsetD8Async`" in run.stderr, run.stderr


CHILDREN = f"""
import multiprocessing, os, subprocess, sys, time
import pytest

RACY = {RACY!r}

def race():
    exec(RACY, {{}})

def race_and_wait(raced, end):
    race()
    raced.set()
    end.wait()

FORK = multiprocessing.get_context("fork")

def test_before(): pass

def test_child():
    child = FORK.Process(target=race)
    child.start()
    child.join()
    assert child.exitcode == 0

def test_between(): pass

@pytest.mark.xd_races(1)
def test_killed():
    child = subprocess.run([sys.executable, "-c", RACY + "import os; os.kill(os.getpid(), 9)"])
    assert child.returncode == -9

def test_after(): pass

RACED, END = FORK.Event(), FORK.Event()
CHILDREN = []

def test_child_that_goes_on():
    CHILDREN.append(FORK.Process(target=race_and_wait, args=(RACED, END)))
    CHILDREN[0].start()
    assert RACED.wait(60)

def test_its_end():
    END.set()
    CHILDREN[0].join()
"""


def ran(folder: Path, installed: Path, tests: str, *options: str) -> tuple[dict[str, str], str]:
    """What each of some tests fails by, and what pytest said."""
    (folder / "test_own.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--xd-sim-cuda", "1", "--junitxml=junit.xml", *options]
    environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
    return verdicts(folder / "junit.xml"), run.stdout + run.stderr


def test_what_children_reported_fails_the_test_in_which_they_ended(installed: Path, tmp_path: Path) -> None:
    found, told = ran(tmp_path, installed, CHILDREN)
    # A child that goes on may still tell of its reports by itself.
    assert [name for name, why in found.items() if why] == ["test_child", "test_its_end"], told
    assert "Race: `cuMemsetD8Async`" in found["test_child"] and "Race: `cuMemsetD8Async`" in found["test_its_end"]


SKIPS = f"""
import unittest
import pytest
{RACY}
def race():
    for stream in streams:
        assert driver.cuMemsetD8Async(memory, 1, 64, stream) == 0
    assert driver.cuCtxSynchronize() == 0

def test_races_and_skips():
    race()
    pytest.skip("late")

def test_skips():
    pytest.skip("at once")

@pytest.mark.xd_races(1)
def test_skips_before_its_race():
    pytest.skip("at once")

@pytest.mark.xd_races(1)
def test_skips_behind_its_race():
    race()
    pytest.skip("late")

@pytest.fixture
def racy():
    race()
    pytest.skip("late")

def test_fixture(racy): pass

class Test(unittest.TestCase):
    def test_unittest(self):
        race()
        self.skipTest("late")

    def test_unittest_skips(self):
        self.skipTest("at once")
"""


def test_a_race_before_a_skip_fails_the_test(installed: Path, tmp_path: Path) -> None:
    found, told = ran(tmp_path, installed, SKIPS, "--xd-json=told.json")
    wrong = ["test_races_and_skips", "test_fixture", "test_unittest"]
    assert sorted(name for name, why in found.items() if why) == sorted(wrong), told
    assert all("Race: `cuMemsetD8Async`" in found[name] for name in wrong), told
    assert "2 failed, 4 skipped, 1 error" in told
    (one,) = json.loads((tmp_path / "told.json").read_text())["runs"]
    named = [str(report["test"]).rpartition("::")[2] for report in one["reports"]]
    # The module itself races as it is read.
    assert named == ["None", *wrong] or named == ["", *wrong]


OWN = RACY + """
import os

def test_by_a_seed():
    assert "seed=6" not in os.environ["CROSSDOCK_SIM"]
"""


def test_a_failure_of_the_test_alone_says_by_which_seed_it_came(installed: Path, tmp_path: Path) -> None:
    options = ["--xd-policy", "seeded", "--xd-seeds", "4", "--xd-seed", "5"]
    found, told = ran(tmp_path, installed, OWN, *options)
    assert "--xd-policy seeded --xd-seed 6 " in found["test_by_a_seed"], told
