"""Runs a script in a process of its own, and judges its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# Seconds that a script has.
LIMIT = 20.0
# Seconds for the last words of one that hangs.
DYING = 5.0

# What no process of a script prints that ends as a program in Python may, and what kind of finding it is.
WORDS = {
    "Fatal Python error": "Signal",
    "terminate called": "Signal",
    "exception not rethrown": "Signal",
    "double free": "Signal",
    "panicked": "Panic",
    "wrong value": "WrongByte",
    "a child ended with": "Code",
}


@dataclass
class Trial:
    """What became of a script; `what` is the kind of finding, empty where nothing is wrong."""

    what: str
    text: str
    said: str
    seconds: float
    # Exceptions that were caught, and that were not.
    caught: Counter[str] = field(default_factory=Counter)
    uncaught: str = ""

    @property
    def sort(self) -> str:
        """Findings of one sort are told once: alike but for numbers, at the same place."""
        words = [word for word in self.text.split() if not any(map(str.isdigit, word))]
        return f"{self.what} {' '.join(words[:8])}"


def run(script: str, limit: float = LIMIT) -> Trial:
    """Runs a script in a process to its real end, and to that of all processes that it forked."""
    with tempfile.TemporaryDirectory(prefix="habits-") as folder:
        file, said = Path(folder) / "script.py", Path(folder) / "said"
        file.write_text(script)
        # The temporary files of a script go with it, also those of one that was killed.
        environment = {**os.environ, "TMPDIR": folder, "PYTHONFAULTHANDLER": "1"}
        begun = time.monotonic()
        with open(said, "wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        hangs = waited(process, begun + limit)
        text = said.read_text(errors="replace")
    trial = judged(script, process.returncode, text, hangs)
    trial.seconds = time.monotonic() - begun
    return trial


def waited(process: subprocess.Popen[bytes], end: float) -> str:
    """Waits for a process and for all that it forked; says who is still there, and ends them."""
    hangs = ""
    try:
        process.wait(max(0.0, end - time.monotonic()))
        # The time of a script is also that of the processes that it left.
        while is_there(process.pid) and time.monotonic() < end:
            time.sleep(0.02)
        if is_there(process.pid):
            hangs = "a process that the script forked does not end"
    except subprocess.TimeoutExpired:
        hangs = "the script does not end"
    if hangs:
        # By faulthandler, each thread of each process prints where it is.
        tell(process.pid, signal.SIGABRT)
        end = time.monotonic() + DYING
        while is_there(process.pid) and time.monotonic() < end:
            process.poll()
            time.sleep(0.1)
    tell(process.pid, signal.SIGKILL)
    process.wait()
    return hangs


def is_there(group: int) -> bool:
    """Whether a process of the group is there that is no zombie."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text().rpartition(") ")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            return True
    return False


def tell(group: int, number: signal.Signals) -> None:
    """Sends a signal to the processes left of a group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def judged(script: str, code: int, said: str, hangs: str) -> Trial:
    """What the code and the words of a script mean."""
    caught = Counter(re.findall(r"^caught (\w+)", said, re.MULTILINE))
    uncaught = raised(script, said) if code == 1 else ""
    what = text = ""
    if hangs:
        what, text = "Hang", hangs
    elif code < 0:
        what, text = "Signal", f"ended by {signal.Signals(-code).name}"
    for words, kind in WORDS.items():
        line = re.search(rf"^.*{words}.*$", said, re.MULTILINE)
        if not what and line:
            what, text = kind, line[0]
    if not what and code not in asked(script, said):
        what, text = "Code", f"ended with {code}"
    return Trial(what, text, said, 0.0, caught, uncaught)


def raised(script: str, said: str) -> str:
    """The last exception that nobody caught, and the habit that it ended."""
    tracebacks = said.split("Traceback (most recent call last)")[1:]
    kind = re.findall(r"^([\w.]+)(?=:|$)", tracebacks[-1], re.MULTILINE) if tracebacks else []
    at = re.search(r'script\.py", line (\d+), in <module>', tracebacks[-1]) if tracebacks else None
    lines = script.splitlines()[: int(at[1])] if at else []
    names = [line.partition("# -- ")[2] for line in lines if "# -- " in line]
    return f"{kind[0] if kind else 'text'} in {names[-1]!r}" if names else ""


def asked(script: str, said: str) -> set[int]:
    """The codes with which a script may end."""
    codes = {0, *map(int, re.findall(r"sys\.exit\((\d+)\)", script))}
    if "Traceback (most recent call last)" in said or re.search(r"sys\.exit\(\"", script):
        codes.add(1)
    return codes
