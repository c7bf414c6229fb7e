"""What an exchange costs in Python, beside the peers that are installed and a type in plain C.

    PYTHONPATH=FOLDER python3 tests/peers/bench_exchange.py [SECTION ..]

FOLDER is what `scripts/python-package FOLDER release` made. The sections are `take`, `export`,
`give`, `tables` and `import`; without an argument all of them. Behind each ns stands how many
times the cost of that side ours is; what is asked of it is in the rows for `scripts/bench`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from exchange_peers import HERE, Peers, built, optional, peers
from exchange_timing import OURS, Repeat, repeated, show

VERSION = (1, 3)
IMPORTS = 9
Call = Callable[[], object]
# What a new interpreter prints for one import: ns, and the top-level modules that came with it.
IMPORT = """
import sys, time
known = set(sys.modules)
start = time.perf_counter_ns()
import {name}
took = time.perf_counter_ns() - start
more = {{module.partition(".")[0] for module in set(sys.modules) - known}}
print(took, *sorted(more - set(sys.stdlib_module_names)))
"""


def working(calls: dict[str, Call]) -> dict[str, Repeat]:
    """Those that raise nothing; the others are named."""
    works = {}
    for name, call in calls.items():
        try:
            call()
            works[name] = repeated(call)
        except Exception as error:
            print(f"# {name} refuses: {type(error).__name__}: {error}")
    return works


def handed(f: Callable[[Any], object], x: Any) -> Call:
    """`f` of `x`."""
    return lambda: f(x)


def exported(x: Any) -> Call:
    """Its capsule, as a consumer of today asks for it."""
    return lambda: x.__dlpack__(max_version=VERSION)


def told(x: Any) -> Call:
    """Its device."""
    return lambda: x.__dlpack_device__()


def may_take(taker: str, giver: str) -> bool:
    """tvm-ffi asks for no version at first, and the C type would then end the process."""
    return (taker, giver) != ("tvm-ffi", "floor")


def take(found: Peers) -> None:
    """Every taker on one tensor."""
    for giver, x in found.givers.items():
        takers = {name: f for name, f in found.takers.items() if may_take(name, giver)}
        rivals = [name for name in takers if name not in (OURS, "floor") and giver != "floor"]
        calls = {name: handed(f, x) for name, f in takers.items()}
        show(f"from_dlpack(x of {giver})", working(calls), dict.fromkeys(rivals, "< 1"))


def export(found: Peers) -> None:
    """The methods that a taker calls, on every tensor."""
    calls = {name: exported(x) for name, x in found.givers.items()}
    show("x.__dlpack__(max_version=(1, 3))", working(calls), {"floor": "<= 1.15"})
    calls = {name: told(x) for name, x in found.givers.items()}
    show("x.__dlpack_device__()", working(calls))


def give(found: Peers) -> None:
    """One taker on every tensor."""
    for taker, f in found.takers.items():
        if taker in (OURS, "floor"):
            continue
        givers = {name: x for name, x in found.givers.items() if may_take(taker, name)}
        rivals = [name for name in givers if name not in (OURS, "floor")]
        asked = dict.fromkeys(rivals if taker in ("numpy", "torch") else [], "<= 1")
        calls = {name: handed(f, x) for name, x in givers.items()}
        show(f"{taker}.from_dlpack(of ..)", working(calls), asked)


def driven(driver: Any, what: str, x: Any) -> Repeat:
    """`what` by the table of `x`."""
    return lambda count: driver.run(what, x, count)


def tables(found: Peers) -> None:
    """The C exchange tables, driven from C."""
    driver = built("exchange_tables", [HERE / "exchange_tables.c"])
    if driver is None:
        return
    for what in ("export", "export and wrap", "view", "allocate", "stream"):
        sides = {}
        for name, x in found.tables.items():
            try:
                driver.run(what, x, 1)
            except LookupError:
                continue
            sides[name] = driven(driver, what, x)
        show(f"C exchange table: {what}", sides, {"tvm-ffi": "<= 1.6"} if what == "export" else {})


def imports(_found: Peers) -> None:
    """Imports, each in new interpreters."""
    times: dict[str, list[int]] = {"crossdock": [], "numpy": []}
    brought: dict[str, list[str]] = {}
    for _ in range(IMPORTS):
        for name, taken in times.items():
            code = [sys.executable, "-c", IMPORT.format(name=name)]
            printed = subprocess.run(code, check=True, capture_output=True, text=True).stdout
            took, *brought[name] = printed.split()
            taken.append(int(took))
    ours, numpy = (statistics.median(taken) / 1e6 for taken in times.values())
    more = " ".join(brought["crossdock"])
    print(f"{'import':34} crossdock {ours:.1f} ms (brings {more})   numpy {numpy:.1f} ms")
    print(f"row\timport\t{ours:.1f} ms\tnumpy {numpy:.1f} ms\t{ours / numpy:.2f}\t<= 0.25")


SECTIONS = {"take": take, "export": export, "give": give, "tables": tables, "import": imports}


def main(names: list[str]) -> int:
    """Runs the sections of these names."""
    if not set(names) <= set(SECTIONS):
        print(__doc__, file=sys.stderr)
        return 2
    import crossdock

    numpy = optional("numpy", "NumPy")
    if numpy is None:
        return 0
    found = peers(numpy, crossdock.from_dlpack(numpy.zeros((64, 64), numpy.float32)))
    for name in names or SECTIONS:
        SECTIONS[name](found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
