"""Exchanges tensors for a long time, and sees that nothing is left behind.

    python soak.py [EXCHANGES]        in each direction; ten million if not said

Memory after the last tenth is within 1 MiB of that after the first, references are exact, and
threads that exchange the same tensors disturb nobody.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import crossdock as xd
import numpy as np

MOST_GROWTH = 1 << 20
VERSION = (1, 3)


class Pair:
    """An array and a tensor that share memory, and every way between them."""

    def __init__(self) -> None:
        self.array: Any = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        self.tensor = xd.from_dlpack(self.array)

    def into(self) -> None:
        """NumPy to us."""
        xd.from_dlpack(self.array)

    def out(self) -> None:
        """Us to NumPy."""
        np.from_dlpack(self.tensor)

    def round(self) -> None:
        """Us to NumPy to us, the first one dropped before the last."""
        array: Any = np.from_dlpack(self.tensor)
        tensor = xd.from_dlpack(array)
        del array
        tensor.__dlpack_device__()

    def unused(self) -> None:
        """Capsules of both kinds that nobody takes."""
        self.tensor.__dlpack__(max_version=VERSION)
        self.tensor.__dlpack__()

    def refused(self) -> None:
        """An import and an export that fail."""
        for call in (
            lambda: xd.from_dlpack(np.dtype),
            lambda: self.tensor.__dlpack__(max_version=VERSION, dl_device=(2, 99)),
        ):
            try:
                call()
            except (BufferError, TypeError, AttributeError):
                continue
            raise AssertionError("it was not refused")

    def references(self) -> tuple[int, int]:
        """References to both, which stay what they are."""
        gc.collect()
        return sys.getrefcount(self.array), sys.getrefcount(self.tensor)


def resident() -> int:
    """The bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(what: Callable[[], None], times: int) -> int:
    """By how many bytes the process grew between the first tenth and the last."""
    tenth = max(times // 10, 1)
    sizes = []
    for _ in range(10):
        for _ in range(tenth):
            what()
        gc.collect()
        sizes.append(resident())
    return sizes[-1] - sizes[0]


def together(pair: Pair, threads: int, times: int) -> None:
    """Threads that exchange the same tensors in all directions."""
    failures: list[BaseException] = []
    gate = threading.Barrier(threads)

    def work() -> None:
        try:
            gate.wait()
            for _ in range(times):
                pair.into()
                pair.out()
                pair.round()
                pair.unused()
        except BaseException as failure:
            failures.append(failure)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]


def main(times: int) -> None:
    pair = Pair()
    before = pair.references()
    shares = {pair.into: 1, pair.out: 1, pair.round: 10, pair.unused: 10, pair.refused: 100}
    for what, share in shares.items():
        start = time.perf_counter()
        grown = soak(what, times // share)
        took = time.perf_counter() - start
        print(f"{what.__name__:8} {times // share:>9}  grew {grown:>8} bytes  {took:6.1f} s")
        assert grown <= MOST_GROWTH, f"{what.__name__} leaks {grown} bytes"
        assert pair.references() == before, f"{what.__name__} leaks references"
    start = time.perf_counter()
    together(pair, 4, times // 100)
    grown = soak(lambda: together(pair, 4, times // 1000), 10)
    took = time.perf_counter() - start
    print(f"threads  {times // 50:>9}  grew {grown:>8} bytes  {took:6.1f} s")
    assert grown <= MOST_GROWTH, f"threads leak {grown} bytes"
    assert pair.references() == before, "threads leak references"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
