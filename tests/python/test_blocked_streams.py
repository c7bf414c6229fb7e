"""A sample of the calls behind a stream that is held, made in Python; `scripts/check campaign` makes all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import crossdock as xd
import pytest
from pythons import BUILT, why_not

CAMPAIGN = BUILT / "campaign"
PACKAGE = Path(xd.__file__).parents[1]


def campaign(*words: str) -> subprocess.CompletedProcess[str]:
    """The runner, with this Python and the package that this test sees."""
    if not CAMPAIGN.is_file():
        pytest.skip(f"{CAMPAIGN} is not built: cargo build -p crossdock-campaign")
    if reason := why_not(Path(sys.executable)):
        pytest.skip(reason)
    own = {"PYTHONPATH": str(PACKAGE), "CROSSDOCK_TEST_PYTHON": sys.executable}
    environment = {**os.environ, **own, "CROSSDOCK_COSTS": "off"}
    return subprocess.run(
        [CAMPAIGN, *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=BUILT.parents[1],
    )


def test_no_call_behind_a_held_stream_comes_early_or_hangs() -> None:
    done = campaign("--kind", "a", "--language", "python", "--part", "1/1500", "--shrinking", "20")
    assert done.returncode == 0, done.stderr
    assert "a blocked streams, python" in done.stderr


def test_every_function_with_a_stream_is_called_behind_one_that_is_held() -> None:
    done = campaign("--uncovered", "python")
    assert done.returncode == 0, done.stderr
