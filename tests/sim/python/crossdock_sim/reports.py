"""Reports of the simulator: as objects, as text, and which of them are the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Two uses that nothing orders.
UNORDERED = {"Race", "HostRace", "FreeInUse", "UseBeforeAllocation", "UseAfterFree"}


@dataclass(frozen=True)
class Call:
    """A call of the driver: which, on which stream, and where in the program."""

    function: str
    number: int
    stream: int | None
    python: dict[str, Any] | None
    # Where that is in an installed package: the line that it was called from, outside of those.
    program: dict[str, Any] | None
    native: dict[str, Any] | None

    @classmethod
    def read(cls, made: dict[str, Any], stream: int | None) -> Call:
        return cls(made["function"], made["number"], stream, made["python"], made["program"], made["native"])

    @property
    def pythons(self) -> list[str]:
        """The lines of Python: the innermost, and the program's where that is in a package."""
        return [f"{at['file']}:{at['line']} in {at['function']}" for at in (self.python, self.program) if at]

    @property
    def code(self) -> str | None:
        """The place in a library or program."""
        at = self.native
        if at is None:
            return None
        name = f" ({at['function']}+{at['behind']:#x})" if at.get("function") else ""
        return f"{at['module']}+{at['offset']:#x}{name}"

    @property
    def place(self) -> str:
        """The best of all, which is the same in each run."""
        return " for ".join(self.pythons) or self.code or "?"

    def lines(self) -> Iterator[str]:
        on = {None: "", 0: " by host code"}.get(self.stream, f" on stream {self.stream}")
        yield f"`{self.function}` (call {self.number}){on}"
        yield from (f"    {where}" for where in (*self.pythons, self.code) if where)


@dataclass(frozen=True)
class Report:
    """One report, with the seed and the policy that it came under."""

    kind: str
    first: Call
    second: Call | None
    address: int | None
    bytes: int | None
    detail: str
    seed: int
    policy: str
    # The test that it came in, where there is one.
    test: str | None = None
    raw: dict[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @classmethod
    def read(cls, made: dict[str, Any], seed: int, policy: str) -> Report:
        streams = made.get("streams") or [None, None]
        second = made["second"] and Call.read(made["second"], streams[1])
        first = Call.read(made["first"], streams[0])
        told = (made["kind"], first, second, made["address"], made["bytes"], made["detail"])
        return cls(*told, made.get("seed", seed), made.get("policy", policy), made.get("test"), made)

    @property
    def calls(self) -> list[Call]:
        return [self.first, *filter(None, [self.second])]

    @property
    def same(self) -> tuple[str, ...]:
        """What is equal for the same defect in another run."""
        return (self.kind, self.test or "", *(word for call in self.calls for word in (call.function, call.place)))

    @property
    def is_unordered(self) -> bool:
        return self.kind in UNORDERED

    @property
    def repeat(self) -> str:
        """The words that repeat it."""
        return f"--seed {self.seed} --policy {self.policy}"

    def object(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**self.raw, "seed": self.seed, "policy": self.policy, "test": self.test}

    def short(self) -> str:
        """The kind and both calls, in a line."""
        places = ((call, call.program or call.python) for call in self.calls)
        named = (f"`{call.function}`" + (f" ({Path(at['file']).name}:{at['line']})" if at else "") for call, at in places)
        return f"{self.kind}: {' and '.join(named)}"

    def text(self) -> str:
        """All of it for people."""
        lines = [f"{self.kind}: " + " and ".join(f"`{call.function}`" for call in self.calls)]
        for name, call in zip(("first ", "second"), self.calls):
            head, *rest = call.lines()
            lines += [f"  {name}  {head}", *(f"      {line}" for line in rest)]
        if self.address is not None and self.bytes is not None:
            lines.append(f"  bytes   {self.address:#x} to {self.address + self.bytes:#x} ({self.bytes} bytes)")
        edge = "missing" if self.is_unordered else "what   "
        return "\n".join([*lines, f"  {edge} {self.detail}"])


def in_lines(text: str) -> Iterator[dict[str, Any]]:
    """Objects of JSON, one a line."""
    # JSON's own lines alone: a path may have other characters that end a line.
    for line in filter(None, text.split("\n")):
        yield json.loads(line)


def in_folder(folder: Path, ending: str = "reports") -> Iterator[dict[str, Any]]:
    """What processes wrote there, and below."""
    for file in sorted(folder.rglob(f"*.{ending}")):
        yield from in_lines(file.read_text("utf-8", "surrogateescape"))


def different(reports: Iterable[Report]) -> list[Report]:
    """The first of each defect."""
    found: dict[tuple[str, ...], Report] = {}
    for report in reports:
        found.setdefault(report.same, report)
    return list(found.values())
