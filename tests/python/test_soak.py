"""Short runs of the soak; `soak.py` alone takes ten million exchanges in each direction."""

from __future__ import annotations

from pathlib import Path

from conftest import Child


def test_fifty_thousand_exchanges_leave_nothing_behind(child: Child) -> None:
    assert Path(__file__).with_name("soak.py").is_file()
    run = child("import soak; soak.main(50_000)")
    assert run.returncode == 0, run.stdout + run.stderr


def test_threads_exchange_the_same_tensors(child: Child) -> None:
    """Rule 35; for a minute by hand: `soak.py threads`."""
    run = child("import soak; soak.minute(2)")
    assert run.returncode == 0, run.stdout + run.stderr
