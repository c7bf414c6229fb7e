"""The simulator in this process: its functions for tests (`tests/sim/src/control.rs`)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crossdock_sim import libraries
from crossdock_sim.reports import in_lines

# More than any program has pending.
ALL = 1 << 62


def is_here() -> bool:
    """Whether programs of this process get the simulator."""
    return "CROSSDOCK_SIM" in os.environ and "CROSSDOCK_SIM_DIR" in os.environ


def words() -> dict[str, str]:
    """What was chosen."""
    return libraries.words_of(os.environ.get("CROSSDOCK_SIM", ""))


def loaded() -> ctypes.CDLL | None:
    """The core, once a client has loaded it: a question loads nothing."""
    try:
        found = ctypes.CDLL(libraries.CORE, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None
    for name in ("pending", "progress", "seed", "take_refused", "take_reports"):
        getattr(found, f"crossdock_sim_{name}").restype = ctypes.c_int64
    return found


def core() -> ctypes.CDLL | None:
    """The core, once a client has called a driver: a question begins nothing, which a child could not go on with."""
    found = loaded()
    return found if found is not None and found.crossdock_sim_pending() >= 0 else None


def refused_words(core: Path, words: str) -> str:
    """Why words of `CROSSDOCK_SIM` are not understood; nothing where they are."""
    refuse = ctypes.CDLL(str(core)).crossdock_sim_refuse_words
    refuse.restype = ctypes.c_int64
    made = in_lines(taken(lambda text, size: refuse(words.encode(), text, size)))
    return "".join(one["why"] for one in made)


def begin_anew(seed: int) -> None:
    """Lets all work end, and begins with this seed here and in processes that are started from now on."""
    os.environ["CROSSDOCK_SIM"] = libraries.text_of(words() | {"seed": str(seed)})
    found = core()
    if found is not None:
        found.crossdock_sim_seed(ctypes.c_uint64(seed))


def run_all() -> None:
    """Runs all work that can run. The host knows no more than before of what is over."""
    found = core()
    if found is not None:
        found.crossdock_sim_progress(ctypes.c_size_t(ALL))


def take_reports() -> Iterator[dict[str, Any]]:
    """What was reported in this process since this was asked last."""
    found = core()
    if found is not None:
        yield from in_lines(taken(found.crossdock_sim_take_reports))


def take_refused() -> Iterator[dict[str, Any]]:
    """The calls of what is not simulated since this was asked last, of this process."""
    found = loaded()
    if found is not None:
        yield from in_lines(taken(found.crossdock_sim_take_refused))


def taken(take: Any) -> str:
    """The lines that a function of the simulator gives."""
    size = take(None, ctypes.c_size_t(0))
    while size > 1:
        text = ctypes.create_string_buffer(size)
        needed = take(text, ctypes.c_size_t(size))
        if needed <= size:
            return text.value.decode("utf-8", "surrogateescape")
        size = needed
    return ""
