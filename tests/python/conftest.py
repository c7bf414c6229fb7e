"""What the tests share: the plugin that claims CUDA and ROCm, and Python in a child process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from accelerators import Accelerators, build

Child = Callable[[str], "subprocess.CompletedProcess[str]"]

# How often a test marked `ends` runs: what goes wrong where a process ends goes wrong by chance.
ENDS = 20 if os.environ.get("CROSSDOCK_LONG") == "1" else 2


def pytest_configure(config: pytest.Config) -> None:
    hear_signals()
    config.addinivalue_line("markers", f"ends: a process or a child runs to its real end, {ENDS} times")
    # NumPy's own tests parametrize by iterators.
    config.addinivalue_line("filterwarnings", "ignore:Passing a non-Collection iterable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With CROSSDOCK_TEST_SEED the files, and the tests of each, run in a random order."""
    if seed := os.environ.get("CROSSDOCK_TEST_SEED"):
        order = random.Random(seed)
        files = sorted({item.path for item in items})
        places = dict(zip(files, order.sample(range(len(files)), len(files)), strict=True))
        order.shuffle(items)
        items.sort(key=lambda item: places[item.path])


def hear_signals() -> None:
    """Lets programs that tests start end by signals, also where a shell or `nohup` has them ignored.

    What is ignored stays so in a program that is started, and what is handled begins as the default.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("ends"):
        metafunc.fixturenames.append("end")
        metafunc.parametrize("end", range(ENDS))


@pytest.fixture(scope="session")
def accelerators_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tests/plugins/accelerators.c`, compiled."""
    return build(tmp_path_factory.mktemp("plugins"))


@pytest.fixture(scope="module")
def _loaded(
    accelerators_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Accelerators]:
    """The plugin while the tests of one file run: a copy of its own for each file."""
    copy = tmp_path_factory.mktemp("plugins") / accelerators_library.name
    copy.write_bytes(accelerators_library.read_bytes())
    copy.chmod(0o755)
    loaded = Accelerators(copy)
    yield loaded
    loaded.plugin.retire()


@pytest.fixture
def accelerators(_loaded: Accelerators) -> Iterator[Accelerators]:
    """`cuda:0` to `cuda:2`, `rocm:0` and `rocm:1`, with an empty log and all switches off."""
    _loaded.reset()
    yield _loaded
    _loaded.reset()


@pytest.fixture
def child() -> Child:
    """Runs a program in a Python of its own, for what ends an interpreter or must not disturb."""

    def run(program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=Path(__file__).parent,
        )

    return run
