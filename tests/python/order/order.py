"""Every rule of order that an exchange has, one function each: `order.py cuda|rocm [PART/OF | RULE ..]`.

Each is run as it is, when nothing may be reported. Then it is run once for each call by which a stream or the host
waits in it, with that call left out: the simulator drops it. What the rule is for must fail then, by a report or by
wrong bytes. Prints the name of each rule, and then which calls were left out and what was seen:
`RULE FUNCTION@NTH KIND ..`. PART/OF takes one rule of each OF.

`rules_of_order.py` has the rules of both vendors, whose calls are in `driver.py` of their folder.
"""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PYTHON / sys.argv[1]), str(PYTHON)]

import driver
from frameworks import CuPys, PyTorchs, PyTorchsByTable
from late import open_gate
from rules_of_order import OF_THE_HOST, RULES, Rule, is_all_given_back

if driver.NAME == "rocm":
    import rules_of_hip_python as _more

# A host that asks may do so for ever.
MOST = 8
TRIES = 4


def settle() -> None:
    """Ends what a rule left, so that the next run begins anew."""
    for library in (CuPys, PyTorchs, PyTorchsByTable):
        library.current = 0
    gc.collect()
    driver.end_all()
    # Threads of Crossdock's own give back what was in use, and their calls are none of the next run's.
    assert is_all_given_back(60)


def run(rule: Rule, left_out: str = "", nth: int = 0) -> tuple[bool, set[str]]:
    """Whether the call was made that is left out, by the exchange and not by those who look at its result; and
    what was seen."""
    driver.simulator.drop(left_out, nth)
    try:
        verify = rule()
        is_made = not driver.simulator.drop("", 0)
        open_gate()
        is_right = verify()
        del verify
    finally:
        driver.simulator.drop("", 0)
        open_gate()
        settle()
    seen = {report["kind"] for report in driver.taken_reports()}
    return is_made, seen if is_right else seen | {"WrongBytes"}


def without_each_wait(name: str, rule: Rule) -> None:
    for _ in range(2):
        # The first time makes what is kept.
        _, seen = run(rule)
        assert not seen, (name, seen)
    for function in driver.OF_STREAMS + driver.BY_THE_HOST * (name in OF_THE_HOST):
        for nth in range(1, MOST):
            # By the policy `threads` it depends on their pace what a run shows.
            for _ in range(TRIES):
                is_made, seen = run(rule, function, nth)
                if seen or not is_made:
                    break
            if not is_made:
                break
            print(name, f"{function}@{nth}", *sorted(seen))


def main() -> None:
    driver.start()
    wanted = sys.argv[2:] or list(RULES)
    if part := re.fullmatch(r"(\d+)/(\d+)", wanted[0]):
        wanted = list(RULES)[int(part[1]) - 1 :: int(part[2])]
    for name in wanted:
        print(name)
        without_each_wait(name, RULES[name])


main()
