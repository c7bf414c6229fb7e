"""Makes a finding small: pieces go while it is found again."""

from __future__ import annotations

import time
from collections.abc import Callable

from .draw import MARK, pieces
from .trial import LIMIT, Trial, run

# How often a smaller script runs before it counts as one without the finding.
TRIES = 3
# Seconds for each smaller script of one that hangs. The smallest then runs once more with all of the time.
IMPATIENCE = 8.0


def smallest(script: str, what: str, end: float, attempt: Callable[[str, float], Trial] = run) -> str:
    """The smallest script that was met until `end` and has a finding of the same kind."""
    limit = IMPATIENCE if what == "Hang" else LIMIT

    def fails(parts: list[str]) -> bool:
        return any(
            time.monotonic() < end and attempt("".join(parts), limit).what == what for _ in range(TRIES)
        )

    kept = pieces(script)
    step = max(1, len(kept) // 2)
    while step and time.monotonic() < end:
        at, went = len(kept), False
        while at > 0 and time.monotonic() < end:
            at -= step
            part = kept[max(at, 0) : at + step]
            smaller = kept[: max(at, 0)] + [one for one in part if stays(one)] + kept[at + step :]
            if len(smaller) < len(kept) and fails(smaller):
                kept, went = smaller, True
        if not went or step > 1:
            step //= 2
    return "".join(kept)


def stays(piece: str) -> bool:
    """Whether a piece is one that every script has."""
    return not piece.lstrip().startswith(MARK) or piece.startswith(f"{MARK}main")
