"""A stream of one plugin waits for another library's CUDA stream, whose context ends by the documented steps.

`bridges.py DEVICE`, with a device of another plugin than CUDA's, which waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cuda")]
import driver

import crossdock as xd

BYTES = 1 << 16


def main() -> None:
    driver.start(1)
    for is_synchronized_first in (False, True) * 10:
        context = driver.made("cuCtxCreate_v2", 0, 0)
        raw, memory = driver.stream(), driver.allocate(BYTES)
        driver.fill(memory, 3, BYTES, raw)
        driver.on(0)
        waiting = xd.Stream(sys.argv[1])
        theirs = xd.Stream("cuda:0", native=raw)
        waiting.wait(theirs.record())
        written = xd.zeros(BYTES, dtype="uint8", device=waiting.device)
        written.fill(7, stream=waiting)
        if is_synchronized_first:
            driver.synchronize(raw)
        # What docs/cuda.md asks for before the context ends; the event is gone already.
        del theirs
        xd.wait_for_releases(20)
        driver.call("cuCtxPushCurrent_v2", driver.U64(context))
        driver.synchronize(raw)
        driver.call("cuMemFree_v2", driver.U64(memory))
        driver.call("cuStreamDestroy_v2", driver.U64(raw))
        driver.call("cuCtxDestroy_v2", driver.U64(context))
        driver.on(0)
        waiting.synchronize(20)
        assert set(written.tolist()) == {7}


main()
