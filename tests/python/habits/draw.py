"""Draws a script: habits that fit what the script has by then, in an order of the seed."""

from __future__ import annotations

import random
import re
import string
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from . import partners, processes, tensors  # noqa: F401
from .habit import ALL, Habit

# What stands before a piece of a script; those at the margin are kept by all that comes behind them.
MARK = "# -- "

HEAD = '''\
"""{title}"""
import array, asyncio, atexit, builtins, copy, gc, json, mmap, multiprocessing, os, pickle, queue, signal
import subprocess, sys, tempfile, threading, time, _thread, weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory
from pathlib import Path

import crossdock as xd
import numpy as np

# A shell ignores interrupts for what it runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

def check(what, want):
    got = what.to("cpu").numpy() if isinstance(what, xd.Tensor) else np.asarray(what)
    if not np.array_equal(got, want):
        text = f"wrong value: {{got.ravel()[:4]}} of {{got.shape}}, and not {{want.ravel()[:4]}} of {{want.shape}}"
        print(text, file=sys.stderr, flush=True)
        raise AssertionError(text)

def tried(call):
    try:
        call()
    except Exception as error:
        print("caught", type(error).__name__, flush=True)

def quiet():
    for device in xd.devices():
        device.synchronize()

def ended(pid, code=0):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != code:
        print(f"a child ended with {{status}}, and not {{code}}", file=sys.stderr, flush=True)
'''

MAIN = """
# -- main
if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
"""

SHAPES = ["(6,)", "(2, 3)", "(64,)", "(33, 5)", "(1000,)", "(3, 1, 4)", "(2, 100_000)"]
DTYPES = ["float32", "float64", "int32", "int64", "uint8", "float16", "complex64"]


@dataclass
class Memory:
    """What several variables share: whether somebody may write it, and whether its values are known."""

    writable: bool = True
    exact: bool = True


@dataclass
class Variable:
    """A variable of the script: `array`, `tensor`, ..., its device, its dtype and its memory."""

    name: str
    words: set[str]
    memory: Memory
    readonly: bool = False

    def fits(self, needs: set[str]) -> bool:
        """Whether all words of a need hold."""
        has = self.words | ({"exact"} if self.memory.exact else set())
        has |= {"writable"} if self.memory.writable and not self.readonly else set()
        has |= {"readonly"} if self.readonly else set()
        return needs <= has


@dataclass
class Script:
    """A script while it is drawn."""

    chance: random.Random
    devices: Sequence[str]
    variables: list[Variable] = field(default_factory=list)
    tops: dict[str, str] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    habits: list[str] = field(default_factory=list)
    barred: list[str] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def found(self, habit: Habit) -> dict[str, Variable] | None:
        """A variable for each need of a habit, if there are and nothing bars it."""
        if any(words in habit.body for words in self.barred) or self.tops.keys() & habit.never_with:
            return None
        taken: dict[str, Variable] = {}
        for name, needs in habit.needs.items():
            free = [one for one in self.variables if one.fits(needs) and one not in taken.values()]
            if not free:
                return None
            # One of the last: else the first ones would be in everything.
            taken[name] = self.chance.choice(free[-6:])
        return taken

    def made(self, name: str, words: Sequence[str], of: dict[str, Variable], drawn: dict[str, str]) -> Variable:
        """A variable by the words of what a habit makes, which `habit.py` explains."""
        left = [drawn.get(word.removeprefix("$"), word) for word in words]
        source = of[left[left.index("of") + 1]] if "of" in left else None
        left = [word for at, word in enumerate(left) if word != "of" and left[at - 1 : at] != ["of"]]
        flags = {"new", "readonly", "frozen", "view", "like"} & set(left)
        kinds = set(left) - flags
        memory = Memory()
        if source is not None:
            dtypes = source.words & {*DTYPES}
            kinds |= dtypes
            if "view" in flags or "like" in flags:
                kinds |= source.words - {"whole"}
            memory = Memory(exact=source.memory.exact) if "new" in flags else source.memory
            if "frozen" in flags:
                memory.writable = False
        kinds |= set() if "view" in flags else {"whole"}
        readonly = "readonly" in flags or ("new" not in flags and source is not None and source.readonly)
        return Variable(name, kinds, memory, readonly)

    def add(self, habit: Habit, of: dict[str, Variable]) -> None:
        """Writes a habit down, and what it does to the variables."""
        device = self.chance.choice(self.devices)
        drawn = {
            "device": device,
            "place": device.partition(":")[0],
            "shape": self.chance.choice(SHAPES),
            "dtype": self.chance.choice(DTYPES),
            "n": str(self.chance.choice([1, 2, 3, 5, 20, 100])),
            "moment": self.chance.choice(["0", "0.001", "0.01", "0.05"]),
            "value": str(self.chance.randrange(2, 100)),
        }
        names = {name: variable.name for name, variable in of.items()}
        names |= {name: f"{name}{next(self.numbers)}" for name in habit.makes}
        names["new"] = f"n{next(self.numbers)}"
        body = habit.body
        if habit.mistakes:
            body = body.replace("$mistake", self.chance.choice(habit.mistakes))
        body = string.Template(body).substitute(drawn | names)
        self.pieces.append(f"{MARK}{habit.name}\n{body}")
        self.habits.append(habit.name)
        for top in habit.tops:
            self.tops.setdefault(top, ALL.tops[top])
        self.variables += [
            self.made(names[name], words, of, drawn) for name, words in habit.makes.items()
        ]
        self.barred += habit.bars
        for name in habit.drops:
            self.variables.remove(of[name])
        for name in habit.blurs:
            of[name].memory.exact = False
        for name in habit.freezes:
            of[name].memory.writable = False

    def text(self, title: str) -> str:
        """The whole of it."""
        tops = "".join(f"\n{MARK}top {name}\n{text}" for name, text in self.tops.items())
        body = "".join(textwrap.indent(piece, "    ") for piece in self.pieces)
        return HEAD.format(title=title) + tops + MAIN + body


def script(seed: int, devices: Sequence[str], modules: frozenset[str]) -> tuple[str, list[str]]:
    """The script of a seed for what is here, and its habits."""
    chance = random.Random(seed)
    out = Script(chance, devices)
    usable = [habit for habit in ALL.habits if habit.uses <= {*modules, *(d.partition(":")[0] for d in devices)}]
    inner = [habit for habit in usable if not habit.is_end]
    # A script has a few themes, so that rare habits meet.
    themes = chance.sample(sorted({habit.theme for habit in inner}), 3) + ["tensors"]
    length = chance.choice([4, 8, 12, 20])
    weights = [habit.weight * (4 if habit.theme in themes else 1) for habit in inner]
    while len(out.pieces) < length:
        habit = chance.choices(inner, weights)[0]
        of = out.found(habit)
        # Processes that are spawned take seconds.
        if of is not None and not (habit.is_slow and habit.name in out.habits):
            out.add(habit, of)
    for habit in chance.sample([habit for habit in usable if habit.is_end], chance.choice([0, 1, 1, 2])):
        of = out.found(habit)
        if of is not None:
            out.add(habit, of)
    return out.text(f"Random habits, seed {seed}."), out.habits


def pieces(text: str) -> list[str]:
    """A script by its marks; the first piece and that of `main` stay in every smaller one."""
    return re.split(rf"^(?= *{MARK})", text, flags=re.MULTILINE)
