"""Exchanges tensors for a long time, and sees that nothing is left behind.

    python soak.py [EXCHANGES]          in each direction; ten million if not said
    python soak.py threads [SECONDS]    threads that exchange the same tensors; a minute if not said

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

    def used(self) -> None:
        """NumPy to us, and used: only then the runtime has a tensor."""
        assert xd.from_dlpack(self.array).ndim == 3

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
        no_producer: Any = np.dtype
        for call in (
            lambda: xd.from_dlpack(no_producer),
            lambda: self.tensor.__dlpack__(max_version=VERSION, dl_device=(2, 99)),
        ):
            try:
                call()
            except (BufferError, TypeError, AttributeError):
                continue
            raise AssertionError("it was not refused")

    def views(self) -> None:
        """Views of the tensor, by every protocol of the host, and what is written through them."""
        part: Any = self.tensor[1, :, 1:]
        with memoryview(part) as view:
            assert view.shape == (3, 3)
        assert np.asarray(part)[2, 2] == 23 and xd.asarray(part)[2, 2].item() == 23
        assert xd.asarray(memoryview(self.array)).shape == (2, 3, 4)

    def devices(self) -> None:
        """To every device and back."""
        for device in xd.devices():
            assert self.tensor.to(device).to("cpu")[1, 2, 3].item() == 23

    def references(self) -> tuple[int, int]:
        """References to both, which stay what they are."""
        gc.collect()
        return sys.getrefcount(self.array), sys.getrefcount(self.tensor)


def resident() -> int:
    """The bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(what: Callable[[], object], times: int) -> int:
    """By how many bytes the process grew between the first tenth and the last."""
    tenth = max(times // 10, 1)
    sizes = []
    for _ in range(10):
        for _ in range(tenth):
            what()
        gc.collect()
        sizes.append(resident())
    return sizes[-1] - sizes[0]


def together(pair: Pair, threads: int, goes_on: Callable[[int], bool]) -> int:
    """How often threads exchanged the same tensors in all directions, while each `goes_on`."""
    failures: list[BaseException] = []
    turns: list[int] = []
    gate = threading.Barrier(threads)

    def work() -> None:
        turn = 0
        try:
            gate.wait()
            while goes_on(turn) and not failures:
                pair.into()
                pair.used()
                pair.out()
                pair.round()
                pair.unused()
                if turn % 50 == 0:
                    pair.views()
                    pair.devices()
                turn += 1
        except BaseException as failure:
            failures.append(failure)
        turns.append(turn)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]
    return sum(turns)


def minute(seconds: float) -> None:
    """Threads that exchange the same tensors for some time, in ten parts."""
    pair, sizes, turns = Pair(), [], 0
    before = pair.references()
    for _ in range(10):
        end = time.monotonic() + seconds / 10
        turns += together(pair, 8, lambda _, end=end: time.monotonic() < end)  # type: ignore[misc]
        gc.collect()
        sizes.append(resident())
    grown = sizes[-1] - sizes[0]
    print(f"threads  {turns:>9} turns of 8 threads in {seconds:.0f} s  grew {grown:>8} bytes")
    assert grown <= MOST_GROWTH, f"threads leak {grown} bytes"
    assert pair.references() == before, "threads leak references"
    assert pair.tensor.tolist() == np.arange(24.0).reshape(2, 3, 4).tolist()


def main(times: int) -> None:
    pair = Pair()
    before = pair.references()
    shares = {pair.into: 1, pair.used: 1, pair.out: 1, pair.round: 10, pair.unused: 10}
    shares[pair.refused] = 100
    for what, share in shares.items():
        start = time.perf_counter()
        grown = soak(what, times // share)
        took = time.perf_counter() - start
        print(f"{what.__name__:8} {times // share:>9}  grew {grown:>8} bytes  {took:6.1f} s")
        assert grown <= MOST_GROWTH, f"{what.__name__} leaks {grown} bytes"
        assert pair.references() == before, f"{what.__name__} leaks references"
    start = time.perf_counter()
    together(pair, 4, lambda turn: turn < times // 100)
    grown = soak(lambda: together(pair, 4, lambda turn: turn < times // 1000), 10)
    took = time.perf_counter() - start
    print(f"threads  {times // 50:>9}  grew {grown:>8} bytes  {took:6.1f} s")
    assert grown <= MOST_GROWTH, f"threads leak {grown} bytes"
    assert pair.references() == before, "threads leak references"


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["threads"]:
        minute(float(words[1]) if words[1:] else 60)
    else:
        main(int(words[0]) if words else 10_000_000)
