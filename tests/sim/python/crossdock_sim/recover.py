"""What processes left that ended by `_exit`, a signal or `exec`: `PID.N.open` has their reports (`src/journal.rs`).

A process holds a lock of its file while it goes on, and removes the file where it tells of its reports by itself.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from crossdock_sim.reports import Report, in_lines


def recover_reports(folder: Path) -> list[tuple[int, str]]:
    """Makes it reports as those of any other process: of each process what is new of it, as lines."""
    recovered = []
    for file in sorted(folder.rglob("*.open")):
        process = int(file.name.partition(".")[0])
        # Not our own: to close any descriptor of a file gives up every lock that this process has on it.
        text = left_in(file) if process != os.getpid() else ""
        if not text:
            continue
        told = file.with_name(f"{process}.reports")
        known = told.read_text("utf-8", "surrogateescape").split("\n") if told.exists() else []
        # What was told before it ended is in both.
        new = "".join(f"{line}\n" for line in text.split("\n") if line and line not in known)
        with told.open("a", encoding="utf-8", errors="surrogateescape") as add:
            add.write(new)
        file.unlink()
        if new:
            recovered.append((process, new))
    return recovered


def left_in(file: Path) -> str:
    """The whole lines of a file that no process has open any more."""
    try:
        with file.open("r+", encoding="utf-8", errors="surrogateescape") as opened:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = opened.read()
            return text[: text.rfind("\n") + 1]
    except (BlockingIOError, PermissionError, FileNotFoundError):
        # Its process goes on, or has told all in between.
        return ""


def main(folder: str) -> None:
    """Tells of it, for `scripts/with-sim`."""
    for process, lines in recover_reports(Path(folder)):
        print(f"crossdock-sim: process {process} ended by _exit, a signal or exec, and had reported:", file=sys.stderr)
        for made in in_lines(lines):
            print(Report.read(made, 0, "").text(), file=sys.stderr)
