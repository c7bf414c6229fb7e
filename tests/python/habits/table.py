"""What the campaign of habits came to: one line, then what the scripts did."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from .trial import Trial

# Lines of what a script said that are shown.
MOST_LINES = 40


@dataclass
class Row:
    """Counts of the scripts that ran."""

    programs: int = 0
    refused: int = 0
    found: int = 0
    took: float = 0.0
    habits: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    uncaught: Counter[str] = field(default_factory=Counter)
    # The first seed with each exception at the end.
    first: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seed: int, habits: list[str], trial: Trial) -> None:
        """Counts a script that ran."""
        with self.lock:
            self.programs += 1
            self.habits.update(habits)
            self.caught.update(trial.caught)
            if trial.uncaught:
                first = self.first.setdefault(trial.uncaught, seed)
                self.first[trial.uncaught] = min(first, seed)
                self.uncaught[trial.uncaught] += 1

    def table(self) -> str:
        """The line under its head, in the columns of the other campaigns, and the counts."""
        head = ["programs", "ops", "refused", "findings", "seconds"]
        refused = self.caught.total() + self.uncaught.total()
        cells = [self.programs, self.habits.total(), refused, self.found, f"{self.took:.1f}"]
        lines = [
            f"{'campaign':<26}" + "".join(f" {cell:>9}" for cell in head),
            f"{'e habits of Python':<26}" + "".join(f" {cell:>9}" for cell in cells),
        ]
        for title, counts in (
            ("habits", self.habits),
            ("exceptions that were caught", self.caught),
            ("exceptions at the end", self.uncaught),
        ):
            of = ", ".join(f"{self.named(name)} {times}" for name, times in counts.most_common())
            lines.append(f"e {title}: {of or 'none'}")
        return "\n".join(lines)

    def named(self, name: str) -> str:
        """An exception with its first seed."""
        return f"{name} (seed {self.first[name]})" if name in self.first else name


def last_lines(text: str) -> str:
    """The end of what a script said."""
    return "".join(f"    {line}\n" for line in text.splitlines()[-MOST_LINES:])
