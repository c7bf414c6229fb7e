"""Makes a schedule small: leaves out choices that a failure or a report does not need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crossdock_sim import runs


@dataclass(frozen=True)
class Finding:
    """What is to stay: how the command fails, or else what is reported first."""

    ended: int
    report: tuple[str, ...]

    @classmethod
    def of(cls, run: runs.Run) -> Finding | None:
        """What a run found, if anything."""
        if run.status == 0:
            return None
        return cls(run.ended, run.reports[0].same if run.reports and not run.ended else ())

    def is_in(self, run: runs.Run) -> bool:
        """Whether another run found it too."""
        if self.ended or run.ended:
            return run.ended == self.ended
        return any(report.same == self.report for report in run.reports)

    def text(self) -> str:
        """It in words."""
        if self.ended:
            return f"exit code {self.ended}"
        return f"{self.report[0]} of " + " and ".join(f"`{name}`" for name in self.report[2::2])


def smallest(choices: list[str], holds: Callable[[list[str]], bool]) -> list[str]:
    """As few of the choices as it holds with: without any; else without parts, and then without single ones."""
    if not choices or holds([]):
        return []
    size = len(choices)
    while size > 1:
        size = (size + 1) // 2
        at = 0
        while at < len(choices):
            fewer = choices[:at] + choices[at + size :]
            if fewer and holds(fewer):
                choices = fewer
            else:
                at += size
    return choices


def shrink(command: list[str], words: Mapping[str, str]) -> dict[str, str] | None:
    """The words under which a command finds by the fewest choices what it finds with a seed; nothing if it finds none."""
    words = {**words, "policy": "seeded"}
    found = runs.run(command, {**words, "choices": "1"})
    finding = Finding.of(found)
    if finding is None:
        runs.tell_of_nothing([found], words)
        return None
    print(f"crossdock-sim: seed {found.seed} has {finding.text()} after {len(found.choices)} choices", file=sys.stderr)

    def holds(choices: list[str]) -> bool:
        run = runs.run(command, {**words, "schedule": ",".join(choices)})
        if run.is_interrupted:
            raise SystemExit(run.ended)
        there = finding.is_in(run)
        print(f"crossdock-sim: with {len(choices)} choices: {'still' if there else 'no longer'}", file=sys.stderr)
        return there

    if not holds(found.choices):
        print("crossdock-sim: the same choices do not repeat it: the program's calls differ from run to run", file=sys.stderr)
        return {**words, "seed": str(found.seed)}
    return {**words, "schedule": ",".join(smallest(found.choices, holds))}
