"""How the sides of a benchmark are timed: in turns, so that what else runs slows all of them.

A figure is the median of nine samples of at least 30 ms, in ns for one call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

SAMPLES, SAMPLE_NS = 9, 30_000_000
OURS = "crossdock"

# Does the same thing that many times.
Repeat = Callable[[int], object]


def repeated(call: Callable[[], object]) -> Repeat:
    """A loop around a call of Python."""

    def repeat(count: int) -> None:
        for _ in range(count):
            call()

    return repeat


def sample(repeat: Repeat, count: int) -> float:
    """ns for one of `count`."""
    start = time.perf_counter_ns()
    repeat(count)
    return (time.perf_counter_ns() - start) / count


def enough(repeat: Repeat) -> int:
    """How many fill a sample."""
    count = 100
    while (took := sample(repeat, count) * count) < SAMPLE_NS:
        count = max(count * 2, int(count * SAMPLE_NS * 1.1 / max(took, 1)))
    return count


def measure(sides: dict[str, Repeat]) -> dict[str, float]:
    """The median of each side."""
    counts = {name: enough(repeat) for name, repeat in sides.items()}
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(SAMPLES):
        for name, repeat in sides.items():
            samples[name].append(sample(repeat, counts[name]))
    return {name: statistics.median(times) for name, times in samples.items()}


def show(title: str, sides: dict[str, Repeat], asked: dict[str, str] | None = None) -> None:
    """Prints each side and how many times its cost ours is; then a row for `scripts/bench-table` of
    each side that something is `asked` of (`<= 1.15`)."""
    medians = measure(sides)
    ours = medians[OURS]
    cells = [
        f"{name} {ns:.0f}" + ("" if name == OURS else f" ({ours / ns:.2f})")
        for name, ns in medians.items()
    ]
    print(f"{title:34} " + "   ".join(cells), flush=True)
    for name, limit in (asked or {}).items():
        if name in medians:
            cost = f"{ours:.0f} ns\t{name} {medians[name]:.0f} ns\t{ours / medians[name]:.2f}"
            print(f"row\t{title}\t{cost}\t{limit}", flush=True)
