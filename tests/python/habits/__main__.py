"""The campaign of habits: scripts of seeds, a table, and what was found as files that can be run by hand.

    python -m habits [--seeds N | --seed N] [--minutes M] [--only NAME] [--part K/N] [--at-once N] [--limit SECONDS]
                     [--shrinking SECONDS] [--folder FOLDER] [--replay FILE] [--shrink FILE]

Ends with 0 when nothing was found, 1 with findings, 2 when an argument is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .draw import script
from .present import Here, present
from .small import smallest
from .table import Row, last_lines
from .trial import LIMIT, Trial, run

# Seconds for a script that seemed to hang: it counts as a finding when it hangs alone too, with more time.
PATIENCE = 40.0
# How often a file is tried until something is found.
REPLAYS = 8


def arguments() -> argparse.Namespace:
    """Those of the command line."""
    parser = argparse.ArgumentParser(prog="habits", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="the seeds from 0 to N (200)")
    parser.add_argument("--seed", type=int, metavar="N", help="this seed alone")
    parser.add_argument("--minutes", type=float, metavar="M", help="the time of the search")
    parser.add_argument("--only", metavar="NAME", help="scripts that have a habit with this in its name")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="one part of the seeds")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="scripts at the same time (2)")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for a script (20)")
    parser.add_argument("--shrinking", type=float, default=120, metavar="SECONDS", help="for each finding")
    parser.add_argument("--folder", type=Path, default=Path("target/campaign"), help="for findings")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="runs a file")
    parser.add_argument("--shrink", type=Path, metavar="FILE", help="makes the script of a file smaller")
    read = parser.parse_args()
    try:
        part, parts = map(int, read.part.split("/"))
        if not 0 < part <= parts:
            raise ValueError
    except ValueError:
        parser.error(f"--part {read.part}: it is K/N, from 1/N to N/N")
    read.seeds = range(read.seed, read.seed + 1) if read.seed is not None else range(read.seeds)
    read.seeds = read.seeds[part - 1 :: parts]
    return read


def confirmed(text: str, trial: Trial, limit: float) -> Trial:
    """The trial, or another one where the script may only have been slow beside others."""
    return run(text, max(PATIENCE, 2 * limit)) if trial.what == "Hang" else trial


def written(name: str, text: str, trial: Trial, read: argparse.Namespace, small: bool = True) -> str:
    """Makes a finding small if that is asked, writes it down, and describes it."""
    end = time.monotonic() + read.shrinking
    least = smallest(text, trial.what, end) if small else text
    # One that hung for a while may only have been slow.
    if trial.what == "Hang" and least != text and not run(least, PATIENCE).what:
        least = text
    read.folder.mkdir(parents=True, exist_ok=True)
    file = read.folder / f"{name}.py"
    file.write_text(least)
    file.with_suffix(".txt").write_text(trial.said)
    if least != text:
        (read.folder / f"{name}-whole.py").write_text(text)
    return (
        f"{trial.what}: {trial.text}\n  {name}\n{least.partition('# -- main')[2]}  said at last:\n"
        f"{last_lines(trial.said)}  replay: scripts/check campaign --replay {file}\n"
    )


def again(file: Path, read: argparse.Namespace) -> int:
    """Runs the script of a file, and makes it small if that was asked."""
    text = file.read_text()
    for time_ in range(1, REPLAYS + 1):
        trial = run(text)
        if trial.what:
            told = f"{trial.what}: {trial.text}\n{last_lines(trial.said)}"
            print(written(f"{file.stem}-small", text, trial, read) if read.shrink else told)
            print(f"  found the {time_}. time; another replay may do something else: threads of the system")
            return 1
    print(f"nothing was found {REPLAYS} times")
    return 0


def searched(read: argparse.Namespace, here: Here, row: Row) -> list[tuple[int, str, Trial]]:
    """Runs the scripts that were chosen until the time is over; those in which something is wrong."""
    begun = time.monotonic()

    def one(seed: int) -> tuple[int, str, Trial] | None:
        if read.minutes is not None and time.monotonic() - begun > 60 * read.minutes:
            return None
        text, habits = script(seed, here.devices, here.modules)
        if read.only is not None and not any(read.only in name for name in habits):
            return None
        trial = run(text, read.limit)
        row.add(seed, habits, trial)
        return (seed, text, trial) if trial.what else None

    with ThreadPoolExecutor(read.at_once) as pool:
        return [found for found in pool.map(one, read.seeds) if found]


def main() -> int:
    """Runs what was asked."""
    read = arguments()
    if read.replay or read.shrink:
        return again(read.replay or read.shrink, read)
    here, row, begun = present(), Row(), time.monotonic()
    sorts: Counter[str] = Counter()
    for seed, text, first in searched(read, here, row):
        trial = confirmed(text, first, read.limit)
        if not trial.what:
            print(f"seed {seed} took longer than {read.limit:.0f} s beside others, and ends alone")
            continue
        row.found += 1
        sorts[trial.sort] += 1
        name = f"habits-seed-{seed}"
        # Each sort is made small once.
        small = sorts[trial.sort] == 1
        told = written(name, text, trial, read, small)
        if small:
            print(told, flush=True)
    for sort, times in sorts.items():
        print(f"{times} times: {sort}")
    row.took = time.monotonic() - begun
    print(f"habits: devices: {', '.join(here.devices)}; packages: {', '.join(['numpy', *sorted(here.modules)])}")
    if read.only is not None and not row.programs:
        print(f"habits: --only {read.only}: no script that was chosen has a habit with this in its name")
    print(row.table())
    return 1 if row.found else 0


if __name__ == "__main__":
    sys.exit(main())
