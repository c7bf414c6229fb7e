"""Memory that is called another device's, or another kind, while it is being written: `claimed_order.py VENDOR`.

A producer numbers devices in another way than Crossdock does, and orders its work as DLPack asks: the stream that it is
told waits for it. By the pointer the memory is found where it is, and its content has to be awaited there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / sys.argv[1])]
from handmade import Forged, Producer

import crossdock as xd

driver: Any = importlib.import_module("driver")
BYTES = 1 << 16
MANAGED = 13


class Ordered(Producer):
    """What was put on a stream writes its memory; `is_deaf` says whether a stream that it is told is ignored."""

    def __init__(self, given: Forged, device: int, writer: int, is_deaf: bool) -> None:
        super().__init__(given)
        self.device, self.writer, self.is_deaf = device, writer, is_deaf

    def __dlpack__(self, **keywords: object) -> object:
        stream: Any = keywords.get("stream")
        if not self.is_deaf:
            driver.on(self.device)
            if stream is None:
                driver.synchronize(self.writer)
            else:
                driver.wait_for(stream, self.writer)
        return super().__dlpack__(**keywords)


def claims(real: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Memory of the device, and what it is called: by DLPack's numbers, of this vendor."""
    driver.on(real)
    for number in (0, 1):
        yield driver.allocate(BYTES), (driver.TYPE, number)
        yield driver.allocate_pinned(BYTES), (driver.TYPE, number)
    if driver.MANAGED_TYPE == MANAGED:
        yield driver.allocate_pinned(BYTES), (MANAGED, 0)


def value_of(tensor: xd.Tensor) -> set[Any]:
    return set(tensor.to("cpu", copy=True).tolist())


def main() -> None:
    driver.start()
    expected = 0
    for real in (0, 1):
        for address, claim in list(claims(real)):
            for is_deaf in (False, True):
                driver.on(real)
                writer, expected = driver.stream(), expected + 1
                driver.fill(address, expected, BYTES, writer)
                given = Forged((BYTES,), dtype=(1, 8, 1), device=claim, data=address, size=1)
                producer = Ordered(given, real, writer, is_deaf)
                if is_deaf:
                    # Who writes on a stream of their own makes it the current one, of the device that it is on.
                    with xd.Stream(f"{driver.NAME}:{real}", native=writer):
                        tensor = xd.from_dlpack(producer)
                else:
                    tensor = xd.from_dlpack(producer)
                found = value_of(tensor)
                assert found == {expected}, (real, claim, is_deaf, str(tensor.device), found)
                del tensor
                driver.end_all()


main()
