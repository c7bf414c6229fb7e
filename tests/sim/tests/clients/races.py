"""Twelve races, rebuilt from what the threads of those say who met them: `races.py NAME [mended]`, or `races.py all SEEDS`.

Each is a few calls of public clients, with kernels replaced by copies and fills. `mended` is what the thread came to.
`all` runs each in both forms under so many seeds in one process, and prints what was reported as lines of JSON.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Callable

# Those of HIP need no device of CUDA's, and the others none of HIP's.
RACES = {
    "arrays_sent_before_they_are_ready": "waits",
    "weights_used_before_they_are_there": "waits",
    "a_tensor_whose_stream_is_still_at_work": "waits",
    "the_wrong_stream_waits": "waits",
    "a_capsule_that_waits_for_nothing": "waits",
    "a_stream_that_the_consumer_does_not_name": "waits",
    "memory_used_again_too_early": "lifetimes",
    "a_use_that_the_allocator_does_not_see": "lifetimes",
    "memory_released_before_it_is_used": "lifetimes",
    "memory_released_behind_the_launch": "lifetimes",
    "copies_read_as_they_were_before": "vendors",
    "staged_through_memory_of_both_vendors": "vendors",
}


def race(name: str) -> Callable[[bool], None]:
    found: Callable[[bool], None] = getattr(importlib.import_module(f"real_races.{RACES[name]}"), name)
    return found


def run_all(seeds: int) -> None:
    simulator = ctypes.CDLL("libcrossdock_sim.so")
    text = ctypes.create_string_buffer(1 << 20)
    for name in RACES:
        run = race(name)
        for seed in range(seeds):
            for is_mended in (False, True):
                simulator.crossdock_sim_seed(ctypes.c_uint64(seed))
                run(is_mended)
                simulator.crossdock_sim_take_reports(text, ctypes.c_size_t(len(text)))
                reports = [json.loads(line) for line in text.value.decode().splitlines()]
                print(json.dumps({"race": name, "seed": seed, "mended": is_mended, "reports": reports}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["all"]:
        run_all(int(sys.argv[2]))
    elif set(sys.argv[1:2]) & set(RACES):
        race(sys.argv[1])("mended" in sys.argv)
    else:
        sys.exit(f"races.py NAME [mended], behind `scripts/with-sim --`, where NAME is one of {', '.join(RACES)}")
