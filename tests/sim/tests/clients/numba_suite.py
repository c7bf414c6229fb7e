"""The test suite of numba-cuda, which its wheel carries, over the simulated driver: what passes, and why the rest fails.

    scripts/sim-numba [-- WORD]

With WORD only modules with that in their names run. Most of the suite compiles kernels, for which there is no compiler
and no device: these modules are left out, and of the others the tests that need a kernel are counted. Exit code 1: a
test failed for another reason, or had a report.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numba_cuda
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

SUITE = Path(numba_cuda.__file__).parent / "numba/cuda/tests"
# Of `cudapy`, whose other modules are about kernels.
WITHOUT_KERNELS = [
    "cuda_array_interface",
    "device_array_capture",
    "ipc",
    "multigpu",
    "multiprocessing",
    "multithreads",
    "stream_api",
    "transpose",
]
MODULE = """
import numba.cuda.tests.{name} as suite
globals().update((name, value) for name, value in vars(suite).items() if not name.startswith("__"))
"""
KERNEL = "needs a kernel"
OWN = "fails on any driver"
# What a failure's text has in it, and what it is.
REASONS = [
    ("libnvvm", KERNEL),
    ("libnvrtc", KERNEL),
    ("there are no kernels over the simulator", KERNEL),
    # It reads a field that cuda-bindings 13 does not have.
    ("'cuda.bindings.driver.CUipcMemHandle' object has no attribute", OWN),
]
# These count what kernels did that threads of theirs compiled: the threads' failures are printed and lost.
IN_THREADS = ["test_concurrent_initialization", "test_concurrent_initialization_different_args"]


def modules(word: str) -> list[str]:
    """The modules that run, by their names in the suite."""
    files = sorted(SUITE.glob("cudadrv/test_*.py"))
    files += [SUITE / f"cudapy/test_{name}.py" for name in WITHOUT_KERNELS]
    names = [".".join(file.relative_to(SUITE).with_suffix("").parts) for file in files]
    return [name for name in names if word in name]


class Tally:
    """Counts how the tests of each module end."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.others: list[str] = []

    @pytest.fixture(scope="class")
    def initialize_from_pytest_config(self, request: pytest.FixtureRequest) -> None:
        """What the suite's own configuration would be; it does not come with the wheel."""
        request.cls._dump_failed_filechecks = False

    def count(self, report: Any, outcome: str) -> None:
        module = Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_").replace("__", ".")
        self.counts.setdefault(module, Counter())[outcome] += 1

    def why(self, report: Any) -> str:
        text = report.longreprtext + "".join(text for _, text in report.sections)
        name = report.nodeid.rpartition("::")[2]
        reason = KERNEL if name in IN_THREADS else None
        reason = reason or next((reason for mark, reason in REASONS if mark in text), None)
        if reason is None:
            self.others.append(f"{report.nodeid}\n{text}")
        return reason or "failed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test of many parts fails once for each of them, and passes if none does.
        if type(report).__name__ == "SubtestReport" and report.passed:
            return
        if report.failed:
            self.count(report, self.why(report))
        elif report.skipped or report.when == "call":
            self.count(report, report.outcome)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.count(report, self.why(report))

    def table(self) -> list[str]:
        columns = ["passed", "skipped", KERNEL, OWN, "failed"]
        total = sum(self.counts.values(), Counter())
        rows = [("module", *("skipped by itself" if column == "skipped" else column for column in columns))]
        for module, counts in [*sorted(self.counts.items()), ("all", total)]:
            rows.append((module, *(str(counts[column]) for column in columns)))
        return ["| " + " | ".join(row) + " |" for row in rows]


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    tally = Tally()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # Under these names the suite imports itself; under those of its files numba-cuda would be there twice.
        for name in modules(word):
            file = Path(folder) / f"test_{name.replace('.', '__')}.py"
            file.write_text(MODULE.format(name=name))
        options = ["-q", "--tb=short", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "crossdock_sim.plugin"]
        pytest.main([*options, "--rootdir", folder, "--continue-on-collection-errors", folder], plugins=[tally])
    print("\n".join(["", *tally.others, *tally.table()]))
    print(f"{time.monotonic() - start:.1f} seconds")
    return 1 if tally.others or not tally.counts else 0


if __name__ == "__main__":
    sys.exit(main())
