"""Every block of Python, C and C++ in the README and the guides runs, in order, and prints what it says."""

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


def built_and_run(source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """What a program says, once it was built without a warning as the documents say."""
    program = source.with_suffix("")
    package = Path(xd.__file__).parent
    link = [str(package / "libcrossdock.so.1"), f"-Wl,-rpath,{package}", "-pthread"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    named = ("CC", "cc") if source.suffix == ".c" else ("CXX", "c++")
    command = [os.environ.get(*named), *flags, *warnings, f"-I{xd.get_include()}", source, *link]
    subprocess.run([*command, "-o", program], check=True)  # type: ignore[list-item]
    environment = {**os.environ, "CROSSDOCK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(package.parent)
    return subprocess.run([program], capture_output=True, text=True, check=True, env=environment)


def program_in_c(document: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the document's program in C says."""
    found = re.search(r"^```c\n(#include <crossdock/crossdock.h>.*?)^```", document, re.M | re.DOTALL)
    assert found
    source = folder / "program.c"
    source.write_text(found[1])
    return built_and_run(source, "-std=c99")


def programs_in_cpp(document: str) -> list[tuple[str, str, str]]:
    """Flags, text and output of each program in C++; blocks without a `main` are the body of one."""
    block = r"^```cpp( no-exceptions)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    flags = {"": "", " no-exceptions": "-fno-exceptions -fno-rtti -DCROSSDOCK_NO_EXCEPTIONS"}
    programs, body, printed = [], "", ""
    for flag, code, output in re.findall(block, document, re.M | re.DOTALL):
        if "int main" in code:
            programs.append((flags[flag], code, output))
        else:
            body, printed = body + code, printed + output
    if body:
        before = (
            "#include <crossdock/crossdock.hpp>\n#include <iostream>\n#include <map>\n"
            "#include <stdexcept>\nnamespace xd = crossdock;\n"
            "int main() { const auto runtime = xd::Runtime::open();\n"
        )
        programs.append(("", f"{before}{body}}}\n", printed))
    return programs


@pytest.mark.parametrize("page", ["docs/cpp.md", "README.md"])
@pytest.mark.parametrize("standard", ["-std=c++17", "-std=c++20", "-std=c++23"])
def test_the_programs_in_cpp_print_what_the_document_says(
    page: str, standard: str, tmp_path: Path
) -> None:
    programs = programs_in_cpp((ROOT / page).read_text())
    assert programs
    for number, (flags, code, printed) in enumerate(programs):
        source = tmp_path / f"program{number}.cpp"
        source.write_text(code)
        run = built_and_run(source, standard, *flags.split())
        assert printed in ("", run.stdout) and run.stderr == "", code


def test_the_program_in_c_names_the_devices(tmp_path: Path) -> None:
    run = program_in_c((ROOT / "docs/c.md").read_text(), tmp_path)
    assert run.stdout.splitlines()[0] == "cpu:0" and run.stderr == ""


@pytest.mark.parametrize("page", ["embedding-python", "order"])
def test_the_program_in_c_prints_what_the_document_says(page: str, tmp_path: Path) -> None:
    document = (ROOT / f"docs/{page}.md").read_text()
    said = re.search(r"^```text\n(.*?)^```", document, re.M | re.DOTALL)
    run = program_in_c(document, tmp_path)
    assert said and (run.stdout, run.stderr) == (said[1], "")
