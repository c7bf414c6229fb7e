"""What an exchange costs in Python, beside the peers that are installed and a type in plain C.

    PYTHONPATH=FOLDER python3 tests/peers/bench_exchange.py

FOLDER is what `scripts/python-package FOLDER release` made. Every figure is the median of nine
samples of at least 30 ms, in ns for one call; the sides of a row take turns, so that what else
runs on the machine slows all of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable

SAMPLES, SAMPLE_NS = 9, 30_000_000
HERE = pathlib.Path(__file__).parent
HEADERS = HERE.parent.parent / "host/capi/include/crossdock"


def optional(name: str):
    """The module, or `None` and a line that it was skipped."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name}: skipped: not installed")
        return None


def build_floor():
    """The C type, built for this Python."""
    folder = tempfile.mkdtemp(prefix="floor-")
    file = f"{folder}/floor.so"
    include = sysconfig.get_paths()["include"]
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", f"-I{HEADERS}"]
    try:
        subprocess.run([*command, str(HERE / "floor.c"), "-o", file], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"floor.c: skipped: {error}")
        return None
    spec = importlib.util.spec_from_file_location("floor", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(call: Callable[[], object], count: int) -> float:
    """ns for one call, over `count` of them."""
    loop = range(count)
    start = time.perf_counter_ns()
    for _ in loop:
        call()
    return (time.perf_counter_ns() - start) / count


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median of each call; the calls take turns."""
    counts = {}
    for name, call in calls.items():
        count = 100
        while (took := sample(call, count) * count) < SAMPLE_NS:
            count = max(count * 2, int(count * SAMPLE_NS * 1.1 / max(took, 1)))
        counts[name] = count
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        for name, call in calls.items():
            samples[name].append(sample(call, counts[name]))
    return {name: statistics.median(times) for name, times in samples.items()}


def show(title: str, calls: dict[str, Callable[[], object]]) -> None:
    """Prints a row: each side in ns and, but for ours, as a multiple of ours."""
    medians = measure(calls)
    ours = medians["crossdock"]
    cells = [
        f"{name} {value:.0f}" + ("" if name == "crossdock" else f" ({value / ours:.2f}x)")
        for name, value in medians.items()
    ]
    print(f"{title:32} " + "   ".join(cells), flush=True)


def main() -> None:
    import crossdock as xd

    numpy, torch, tvm = optional("numpy"), optional("torch"), optional("tvm_ffi")
    floor = build_floor()
    if numpy is None:
        return
    array = numpy.zeros((64, 64), numpy.float32)
    ours = xd.from_dlpack(array)
    consumers = {"crossdock": xd.from_dlpack, "numpy": numpy.from_dlpack}
    producers = {"numpy": array, "crossdock": ours}
    if torch:
        consumers["torch"] = torch.from_dlpack
        producers["torch"] = torch.zeros(64, 64)
    if tvm:
        consumers["tvm-ffi"] = tvm.from_dlpack
        producers["tvm-ffi"] = tvm.from_dlpack(numpy.zeros((64, 64), numpy.float32))
    if floor:
        consumers["floor"] = floor.take
        producers["floor"] = floor.Array()
    print("# from_dlpack(x), ns")
    for name, x in producers.items():
        # The C type knows no other version, and tvm-ffi asks for none at first.
        takers = {who: f for who, f in consumers.items() if (who, name) != ("tvm-ffi", "floor")}
        show(f"x of {name}", {who: (lambda f=f, x=x: f(x)) for who, f in takers.items()})
    print("# x.__dlpack__(max_version=(1, 3)), ns")
    version = (1, 3)
    order = {"crossdock": ours, **producers}
    show("__dlpack__", {n: (lambda x=x: x.__dlpack__(max_version=version)) for n, x in order.items()})
    show("__dlpack_device__", {n: (lambda x=x: x.__dlpack_device__()) for n, x in order.items()})
    for name in ("numpy", "torch"):
        if name in consumers:
            take = consumers[name]
            show(f"{name}.from_dlpack(of ..)", {n: (lambda x=x, f=take: f(x)) for n, x in order.items()})


if __name__ == "__main__":
    sys.exit(main())
