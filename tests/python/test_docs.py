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
README = DOCUMENTS[0].read_text()
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


def program_in_c(document: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the document's program in C says, once it was built without a warning."""
    found = re.search(r"^```c\n(#include <crossdock/crossdock.h>.*?)^```", document, re.M | re.DOTALL)
    assert found
    source, program = folder / "program.c", folder / "program"
    source.write_text(found[1])
    package = Path(xd.__file__).parent
    include = [f"-I{xd.get_include()}"]
    link = [str(package / "libcrossdock.so.1"), f"-Wl,-rpath,{package}"]
    compiler = [os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *include, str(source), *link, "-o", str(program)], check=True)
    named = {**os.environ, "CROSSDOCK_PYTHON": sys.executable}
    return subprocess.run([program], capture_output=True, text=True, check=True, env=named)


def test_the_program_in_c_names_the_devices(tmp_path: Path) -> None:
    run = program_in_c(README, tmp_path)
    assert run.stdout.splitlines()[0] == xd.device("cpu").name and run.stderr == ""


@pytest.mark.parametrize("page", ["embedding-python", "order"])
def test_the_program_in_c_prints_what_the_document_says(page: str, tmp_path: Path) -> None:
    document = (ROOT / f"docs/{page}.md").read_text()
    said = re.search(r"^```text\n(.*?)^```", document, re.M | re.DOTALL)
    run = program_in_c(document, tmp_path)
    assert said and (run.stdout, run.stderr) == (said[1], "")
