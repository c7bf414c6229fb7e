"""The calls whose instructions `scripts/bench counts` counts, each in windows of known rounds.

    PYTHONPATH=FOLDER python3 tests/peers/count_exchange.py WINDOW_LIBRARY

WINDOW_LIBRARY is `count_window.c`, built as a library: its function lets callgrind write what it
counted. A line of output names the call whose windows come next.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Callable

import crossdock as xd
import numpy as np

# Rounds of the windows, after some that warm up. What surrounds a window falls out of differences.
WINDOWS = (100, 200, 100, 200)
WARM_UP = 50
# Floats of four bytes: 4 KiB.
LENGTH = 1024
VERSION = (1, 3)
# What a pointer query costs depends on what else lies in the address's page of the table (1 MiB) and
# in its region (256 MiB): NumPy's memory gets a region of its own, ours the start of a page.
FAR, PAGE = 1 << 37, 1 << 20


def far_array() -> np.ndarray:
    """NumPy's view of memory far from all other."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if libc.mmap(FAR, 4 * LENGTH, access, flags, -1, 0) != FAR:
        raise MemoryError(f"the address {FAR:#x} was not to be had")
    return np.frombuffer((ctypes.c_float * LENGTH).from_address(FAR), np.float32)


def page_begun() -> list[np.ndarray]:
    """Fills the heap up to the start of a page."""
    filled = [np.empty(4096, np.uint8)]
    while not PAGE // 64 <= filled[-1].ctypes.data % PAGE < PAGE // 8 and len(filled) < 4096:
        filled.append(np.empty(4096, np.uint8))
    return filled


def calls() -> dict[str, Callable[[], object]]:
    """Every call by its name."""
    array = far_array()
    theirs = xd.from_dlpack(array)
    ours = theirs.to("cpu", copy=True)
    address, strange = ours.data_ptr(), array.ctypes.data
    return {
        "from_dlpack(NumPy's)": lambda: xd.from_dlpack(array),
        "from_dlpack(ours)": lambda: xd.from_dlpack(ours),
        "ours.__dlpack__()": lambda: ours.__dlpack__(max_version=VERSION),
        "np.from_dlpack(ours)": lambda: np.from_dlpack(ours),
        "np.from_dlpack(theirs)": lambda: np.from_dlpack(theirs),
        "pointer_info(ours)": lambda: xd.pointer_info(address),
        "pointer_info(NumPy's)": lambda: xd.pointer_info(strange),
        "to of 4 KiB, ours": lambda: ours.to("cpu", copy=True),
        "to of 4 KiB, NumPy's": lambda: theirs.to("cpu", copy=True),
    }


def main(arguments: list[str]) -> int:
    """Runs every call in its windows."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    window_ends = ctypes.CDLL(arguments[0]).crossdock_window_ends
    # A collection in one window and not in the other would count as work of ours.
    gc.collect()
    gc.disable()
    filled = page_begun()
    print(f"with\tPython {sys.version_info[0]}.{sys.version_info[1]}, NumPy {np.__version__}")
    for name, call in calls().items():
        print(f"windows\t{name}")
        for rounds in (WARM_UP, *WINDOWS):
            for _ in range(rounds):
                call()
            window_ends(rounds)
    del filled
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
