"""Every block of Python in the README and the guide runs, in order, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import crossdock as xd
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/python.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def blocks(document: Path) -> list[tuple[str, str]]:
    """The blocks of Python, each with what it prints, and at its line for tracebacks."""
    text = document.read_text()
    found = BLOCK.finditer(text)
    return [
        ("\n" * text.count("\n", 0, block.start(1)) + block[1], block[2] or "") for block in found
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_prints_what_the_document_says(document: Path) -> None:
    program: dict[str, Any] = {}
    assert blocks(document)
    for code, expected in blocks(document):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(document), "exec"), program)
        assert printed.getvalue() == expected, code.strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_is_typed(document: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(code.strip() for code, _ in blocks(document)))
    environment = {**os.environ, "MYPYPATH": str(Path(xd.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", program.name]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert checked.returncode == 0, checked.stdout
