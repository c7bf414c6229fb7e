"""What the simulator reports while a test runs, in this process and in those that the test started."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossdock_sim import control, recover, runs
from crossdock_sim.reports import Call, Report, different, in_folder, in_lines


# What somebody is to know who sees that a function is not simulated.
WHY = {
    "cuGetExportTable": "NVIDIA's private tables, without which its runtime library (cudart), often linked statically into "
    "others, does not start",
}


def unsupported_call(made: dict[str, Any]) -> str:
    """A call of what is not simulated."""
    call = Call.read(made["call"], None)
    why = WHY.get(call.function, "")
    if any(word in call.function for word in ("Launch", "Module", "Library", "Kernel")):
        why = "there are no kernels over the simulator"
    head = f"`{call.function}` is not simulated, and answered {made['answer']}" + f": {why}" * bool(why)
    return "\n".join([head, *(f"    {where}" for where in (*call.pythons, call.code) if where)])


def races_of(item: pytest.Item) -> tuple[int, str]:
    """How many places of a test are to race, and what is wrong with the mark that says so."""
    mark = item.get_closest_marker("xd_races")
    if mark is None:
        return 0, ""
    said = (*mark.args, *(mark.kwargs[name] for name in ("count",) if name in mark.kwargs))
    if len(said) != 1 or len(mark.args) + len(mark.kwargs) != 1 or type(said[0]) is not int or said[0] < 0:
        return 0, "crossdock-sim: the mark is xd_races(COUNT), the number of places in the test that race"
    return said[0], ""


class Watch:
    """The reports of one test after the other."""

    def __init__(self, worker: str | None, seed: int | None) -> None:
        words = control.words()
        self.policy = words.get("policy", runs.POLICY)
        self.seed = int(words.get("seed", runs.SEED)) if seed is None else seed
        self.folder = Path(os.environ["CROSSDOCK_SIM_DIR"])
        if worker is not None:
            # What the tests of one process start is no other's.
            self.folder /= worker
            self.folder.mkdir(exist_ok=True)
            os.environ["CROSSDOCK_SIM_DIR"] = str(self.folder)
        self.failed = self.folder / f"{os.getpid()}.failed"
        self.test = ""
        self.now = self.seed
        self.expected, self.wrong_mark = 0, ""
        self.found: list[Report] = []
        self.outside: list[Report] = []
        self.refused: list[str] = []
        # Whether the test failed, by itself or by them; whether they are told by that, and whether written down.
        self.is_judged = self.is_told = self.is_kept = False
        # Whether the test ran to its end, as far as is known, and what it was failed with.
        self.is_whole, self.wrong = True, ""

    def begin(self, item: pytest.Item, seed: int) -> None:
        """A test begins with a seed; what other code left behind is no part of it."""
        control.begin_anew(seed)
        self.test = ""
        self.keep_outside()
        list(control.take_refused())
        self.expected, self.wrong_mark = races_of(item)
        self.test, self.now, self.found = item.nodeid, seed, []
        self.refused = []
        self.is_judged = self.is_told = self.is_kept = False
        self.is_whole, self.wrong = True, ""

    def keep_outside(self) -> None:
        """Writes down what was reported before a test began: by code of modules, for one."""
        found = list(self.new())
        self.outside += found
        with self.failed.open("a") as file:
            file.writelines(json.dumps(report.object()) + "\n" for report in different(found))

    def new(self) -> Iterator[Report]:
        """What was reported since this was asked last."""
        made = list(control.take_reports())
        recover.recover_reports(self.folder)
        for file in sorted(self.folder.glob("*.reports")):
            # A process that goes on writes into a new one.
            taken = file.with_suffix(".taken")
            file.rename(taken)
            made += [report for report in in_lines(taken.read_text("utf-8", "surrogateescape")) if report not in made]
            taken.unlink()
        for report in made:
            yield Report.read(report | {"test": self.test}, self.now, self.policy)

    def look(self, phase: str, ended: str) -> str:
        """What is wrong with the reports of a test up to the end of a phase; nothing where all is as expected."""
        # Work that nobody waited for is a part of the test too.
        control.run_all()
        if phase == "teardown":
            control.begin_anew(self.now)
        self.found += self.new()
        self.refused += map(unsupported_call, control.take_refused())
        places = {report.calls[-1].place for report in self.found if report.is_unordered}
        others = [report for report in self.found if not report.is_unordered]
        # A test that was skipped did not come to all that it was to do.
        self.is_whole = self.is_whole and ended != "skipped"
        failed = ended == "failed"
        are_few = len(places) < self.expected and phase != "setup" and self.is_whole
        is_wrong = bool(others) or are_few or len(places) > self.expected
        if self.is_judged or not (is_wrong or failed):
            return ""
        self.is_judged, self.is_told = True, not failed
        self.wrong = "" if failed else self.text(len(places))
        return self.wrong

    def keep(self, is_known: bool) -> None:
        """Writes down what is not as expected, for files about the whole run: once, and not of a test known to fail."""
        if self.is_kept or not self.is_judged:
            return
        self.is_kept = True
        if is_known:
            return
        with self.failed.open("a") as file:
            file.writelines(json.dumps(report.object()) + "\n" for report in different(self.found))

    def text(self, places: int) -> str:
        """All that was reported in the test, and how it is repeated."""
        found = different(self.found)
        others = sum(not report.is_unordered for report in found)
        heads = [f"{others} report{'s' * (others != 1)} of another kind"] if others else []
        if places or self.expected or not others:
            expected = f", and xd_races says {self.expected}" if self.expected else ""
            heads.insert(0, f"{places} place{'s' * (places != 1)} in this test race{'s' * (places == 1)}{expected}")
        reports = [report.text() for report in found]
        head = f"crossdock-sim, seed {self.now}, policy {self.policy}: {'; '.join(heads)}"
        # Services show the first line.
        short = [report.short() for report in found[:1]]
        return "\n\n".join(["\n".join([*short, head]), *reports, self.repeat()])

    def repeat(self) -> str:
        """The line that runs the test again as it ran now."""
        words = control.words() | {"seed": str(self.now), "policy": self.policy}
        options = {"cuda": "sim-cuda", "rocm": "sim-rocm", "policy": "policy", "seed": "seed"}
        said = [f"--xd-{option} {words.pop(name)}" for name, option in options.items() if name in words]
        said += [f"--xd-set {shlex.quote(f'{name}={value}')}" for name, value in words.items()]
        # What ran before it in this process made choices too.
        alone = "" if self.policy == "lazy" else " (alone it may take another seed: --xd-seeds 20)"
        return f"repeat: pytest {' '.join(said)} {shlex.quote(self.test)}{alone}"

    def aside(self) -> str:
        """What is told beside a failure of the test's own, which may be of this seed alone."""
        if self.is_told:
            return "\n\n".join(self.refused)
        reports = [report.text() for report in different(self.found)]
        repeats = [self.repeat()] if reports or self.policy != "lazy" else []
        return "\n\n".join([*self.refused, *reports, *repeats])

    def told(self) -> list[Report]:
        """What failed tests, of all processes of this run."""
        return [Report.read(made, self.seed, self.policy) for made in in_folder(self.folder, "failed")]

    def end(self) -> None:
        """The tests are over: what follows is nobody's."""
        control.begin_anew(self.seed)
        list(self.new())
