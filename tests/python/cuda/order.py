"""Every rule of order that an exchange has, one function each: `order.py [RULE ..]`.

Each is run as it is, when nothing may be reported. Then it is run once for each call by which a stream or the host
waits in it, with that call left out: the simulator drops it. What the rule is for must fail then, by a report or by
wrong bytes. Prints the name of each rule, and then which calls were left out and what was seen:
`RULE FUNCTION@NTH KIND ..`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import driver
from frameworks import CuPys, PyTorchs, PyTorchsByTable
from rules_of_order import OF_THE_HOST, RULES, Rule, is_all_given_back

# By these a stream waits for another one, or the host.
OF_STREAMS = ["cuStreamWaitEvent"]
BY_THE_HOST = ["cuEventSynchronize", "cuStreamSynchronize", "cuEventQuery", "cuStreamQuery"]
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
    driver.drop(left_out, nth)
    try:
        verify = rule()
        is_made = not driver.drop("", 0)
        driver.open_gate()
        is_right = verify()
        del verify
    finally:
        driver.drop("", 0)
        driver.open_gate()
        settle()
    seen = {report["kind"] for report in driver.taken_reports()}
    return is_made, seen if is_right else seen | {"WrongBytes"}


def without_each_wait(name: str, rule: Rule) -> None:
    for _ in range(2):
        # The first time makes what is kept.
        _, seen = run(rule)
        assert not seen, (name, seen)
    for function in OF_STREAMS + BY_THE_HOST * (name in OF_THE_HOST):
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
    wanted = sys.argv[1:] or list(RULES)
    for name in wanted:
        print(name)
        without_each_wait(name, RULES[name])


main()
