"""Every rule and bug has a test that names it (`README.md` here says what the numbers are)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMED = re.compile(r"\b(rule|bug)s?((?:[ ,]|and|to|\d)+)", re.IGNORECASE)
IN_RUST = re.compile(r"fn [a-z_0-9]+?((?:_\d+(?:_to_\d+)?)+)\(")


def numbers(text: str) -> Iterator[int]:
    """`1 to 4, 8` is 1, 2, 3, 4, 8."""
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def named() -> Iterator[tuple[str, int]]:
    """What the names and docstrings of tests say, in Rust the numbers at a name's end."""
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                words = f"{node.name.replace('_', ' ')} . {ast.get_docstring(node) or ''}"
                for kind, found in NAMED.findall(words):
                    yield from ((kind.lower(), number) for number in numbers(found))
    for file in (HERE.parents[1] / "sdk").rglob("*.rs"):
        for found in IN_RUST.findall(file.read_text()):
            yield from (("rule", number) for number in numbers(found.replace("_", " ")))


@pytest.mark.parametrize(("kind", "last"), [("rule", 134), ("bug", 36)])
def test_every_number_is_named_by_a_test(kind: str, last: int) -> None:
    known = {number for of, number in named() if of == kind}
    assert [number for number in range(1, last + 1) if number not in known] == []
