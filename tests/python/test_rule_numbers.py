"""Each number of a rule or bug that a test names has its text in `RULES.md`, and each text a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
HEADINGS = {"Rules": "rule", "Bugs": "bug", "Host bugs": "host_bug"}
# `rules_94_96`, `rules_1_to_4`, `Rules 121, 123 and 124`, `Host bug 13`.
NAMED = re.compile(
    r"(?<![a-z])(host[_ ]bug|rule|bug)s?[_ ](\d+(?:(?:_to_| to |_|, | and )\d+)*)", re.I
)


def named(text: str) -> set[tuple[str, int]]:
    """What a text names."""
    found = set()
    for kind, numbers in NAMED.findall(text):
        last = 0
        for join, number in re.findall(r"(to|)[_ ]?(?:and )?(\d+)", numbers):
            first = last + 1 if join else int(number)
            last = int(number)
            found |= {(kind.lower().replace(" ", "_"), each) for each in range(first, last + 1)}
    return found


def texts() -> set[tuple[str, int]]:
    """What `RULES.md` has."""
    found, kind = [], ""
    for line in (HERE / "RULES.md").read_text().splitlines():
        if heading := re.match(r"## (.*)", line):
            kind = HEADINGS[heading[1]]
        elif number := re.match(r"(\d+)\. \S", line):
            found.append((kind, int(number[1])))
    assert len(found) == len(set(found)), "a number has two texts"
    return set(found)


def by_tests() -> set[tuple[str, int]]:
    """What the names and docstrings of test functions name."""
    found = set()
    for file in HERE.glob("test_*.py"):
        if file == Path(__file__):
            continue
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found |= named(node.name) | named(ast.get_docstring(node) or "")
    return found


def test_names_are_read_in_all_their_forms() -> None:
    assert named("test_rules_1_to_3_x") == {("rule", 1), ("rule", 2), ("rule", 3)}
    assert named("test_rule_18_bug_29_y_2") == {("rule", 18), ("bug", 29)}
    assert named("Rules 121, 123 and 124") == {("rule", 121), ("rule", 123), ("rule", 124)}
    assert named("test_host_bug_13_z; bug 2") == {("host_bug", 13), ("bug", 2)}


def test_each_number_has_its_text_and_each_text_a_test() -> None:
    by, written = by_tests(), texts()
    assert by - written == set(), "numbers without a text in RULES.md"
    assert written - by == set(), "texts in RULES.md that no test names"
