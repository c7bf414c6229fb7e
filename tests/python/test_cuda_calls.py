"""How many calls of CUDA's driver an exchange takes, over the simulator, which counts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().parent / "cuda/calls.py"
# The thread's context and its mode of captures, which are asked without the device.
OF_THE_THREAD = {
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuThreadExchangeStreamCaptureMode",
}


def calls(what: str) -> dict[str, int]:
    """What one exchange calls."""
    options = ["--cuda", "2", "--policy", "lazy"]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPT), what]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    called: dict[str, int] = json.loads(run.stdout)
    return called


def besides_the_threads(called: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in called.items() if name not in OF_THE_THREAD}


@pytest.mark.parametrize("when", ["untouched", "started"])
def test_an_array_of_numpys_is_taken_without_a_call(when: str) -> None:
    assert calls(when) == {}


def test_where_cuda_is_open_it_is_asked_once_for_each_claim_of_the_host() -> None:
    # `from_numpy` there reads two arrays with elements: what is called the host's may be the device's.
    assert calls("opened") == {"cuPointerGetAttributes": 2}


def test_cuda_works_in_the_child_of_a_fork_behind_an_exchange() -> None:
    assert calls("forked") == {}


def test_an_import_of_a_foreign_tensor_and_its_drop_takes_three_calls() -> None:
    called = besides_the_threads(calls("dlpack"))
    assert called == {"cuEventRecord": 1, "cuPointerGetAttributes": 1, "cuStreamIsCapturing": 1}


def test_a_foreign_array_on_a_stream_that_is_named_takes_four() -> None:
    # The interface does not say which device it is: one question tells that, and checks the address.
    called = besides_the_threads(calls("interface"))
    assert called == {"cuEventRecord": 1, "cuPointerGetAttributes": 1, "cuStreamGetCtx": 1, "cuStreamIsCapturing": 1}
