"""`crossdock run` beside `python`: the same words in, the same output and the same end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pythons import COMMAND, PYTHONS, environment, inside, masked, run, usable

SCRIPT = """
import sys
print(__name__, __file__, __spec__, __package__)
print(sys.argv, sys.path[0], sys.orig_argv[1:], sys.flags, sys.warnoptions, sys._xoptions)
print(sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable, sys.path)
print(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, sys.getfilesystemencoding())
print(sys.stdout.isatty(), sys.stdout.line_buffering, repr(sys.stdin.read()))
"""

FILES = {
    "script.py": SCRIPT,
    "package/__init__.py": "",
    "package/__main__.py": SCRIPT,
    "folder/__main__.py": SCRIPT,
    "folder/beside.py": "",
    "empty/readme": "",
    "text.py": "raise SystemExit('text')",
    "raises.py": "def f():\n    1 / 0\n\ntry:\n    f()\nexcept ZeroDivisionError as e:\n    raise ValueError from e\n",
    "wrong.py": "def f(:\n    pass\n",
    "interrupts.py": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass\n",
    "warns.py": "import warnings\nwarnings.warn('mind')\nwarnings.warn('old', DeprecationWarning)\n",
    "crashes.py": "import ctypes\nctypes.string_at(0)\n",
    "overflows.py": "import ctypes, sys\nsys.setrecursionlimit(10**9)\n"
    "def f(x): return sorted([x], key=f)\nf(0)\n",
    "spawns.py": "import multiprocessing as m, sys\n\ndef f(x):\n    return x, sys.executable\n\n"
    "if __name__ == '__main__':\n    m.set_start_method('spawn')\n"
    "    with m.Pool(2) as pool:\n        print(pool.map(f, range(3)))\n",
    "children.py": "import subprocess, sys\nask = 'import signal, sys; print(sys.version, sys.prefix,"
    " [signal.getsignal(s) for s in sorted(signal.valid_signals())])'\n"
    "print(subprocess.run([sys.executable, '-c', ask], capture_output=True, text=True))\n",
    "signals.py": "import signal\nprint([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())])\n",
    "again.py": "import os, sys\nif len(sys.argv) < 2:\n    os.execv(sys.executable, [sys.executable, __file__, 'again'])\n"
    "print(sys.argv, sys.executable, sys.prefix)\n",
    "threads.py": "import threading, time\nthreading.Thread(target=lambda: print('thread')).start()\n"
    "import atexit\natexit.register(print, 'at exit')\n",
    "test_one.py": "def test_one():\n    assert True\n\ndef test_two():\n    assert False\n",
    "pipe.py": "import sys\nfor _ in range(10**6): print('x' * 100)\n",
    "recursion.py": "def f(n): return f(n + 1)\nf(0)\n",
    "nested.py": "import json\njson.loads('[' * 200000)\n",
    "tokens.py": "eval('-' * 200000 + '1')\n",
    "ends.py": "import os, sys, time\nprint('in')\nos.kill(os.getpid(), int(sys.argv[1]))\ntime.sleep(60)\n",
    "exits.py": "import ast, sys\nsys.exit(ast.literal_eval(sys.argv[1]))\n",
    "leaves.py": "import atexit, sys, threading\natexit.register(sys.exit, 9)\n"
    "thread = threading.Thread(target=sys.exit, args=(4,))\nthread.start()\nthread.join()\nprint('on')\n",
    "thread.py": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()\n",
    "dies.py": "class A:\n    def __del__(self): 1 / 0\nA()\nx = A()\n",
    "tasks.py": "import asyncio\n\nasync def main():\n    task = asyncio.create_task(asyncio.sleep(60))\n"
    "    await asyncio.sleep(0)\n    raise ValueError(task)\n\nasyncio.run(main())\n",
    "forks.py": "import os, sys\nif pid := os.fork(): print(os.waitpid(pid, 0)[1])\nelse: sys.exit(3)\n",
    "pools.py": "import multiprocessing as m, sys\n\ndef f(x):\n    return x * 2\n\nif __name__ == '__main__':\n"
    "    m.set_start_method(sys.argv[1])\n    with m.Pool(2) as pool:\n        print(pool.map(f, range(3)))\n",
    "test_unit.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    "    def test_b(self): self.fail('x')\n",
    "example.py": '"""\n>>> 1 + 1\n3\n"""\n',
    "locales.py": "import locale, sys\nprint(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(),"
    " sys.flags.utf8_mode)\n",
    "broken.zip": "PK\3\4 and nothing else",
    "lines.py": "print(1)\r\n1 / 0\r\n",
    "nul.py": "print(1)\0\n",
}

# What a text of UTF-8 cannot be.
BYTES = {
    "latin.py": b"# coding: latin-1\nprint(ascii('\xe9'))\n",
    "wrong_bytes.py": b"print('\xe9')\n",
    "mark.py": b"\xef\xbb\xbfprint('mark')\n",
}

# Two Pythons of one version say the same; the order of names must not change between runs.
OF_TABLE = [name for name in PYTHONS if name != "3.11"]

# name: (arguments of Python, what is on stdin, variables)
CASES: dict[str, tuple[list[str], str, dict[str, str]]] = {
    "a script with arguments": (["script.py", "-q", "--python", "x", "--", "-h"], "in", {}),
    "a module": (["-m", "package", "-x", "--explain"], "", {}),
    "a module of the library": (["-m", "json.tool"], '{"a": [1]}', {}),
    "code": (["-c", "import sys; print(sys.argv, sys.path[0])", "a", "-b"], "", {}),
    "a script on stdin": (["-", "a"], SCRIPT.replace("sys.stdin.read()", "0"), {}),
    "a script on stdin without a word": ([], "import sys; print(sys.argv)", {}),
    "a folder": (["folder", "a"], "", {}),
    "a folder without a main": (["empty"], "", {}),
    "an archive": (["archive.zip", "a"], "", {}),
    "a missing file": (["absent.py"], "", {}),
    "a missing module": (["-m", "absent"], "", {}),
    "an exit with a text": (["text.py"], "", {}),
    "an exit with a number": (["-c", "raise SystemExit(7)"], "", {}),
    "an exit with a large number": (["-c", "raise SystemExit(259)"], "", {}),
    "an exception with its cause": (["raises.py"], "", {}),
    "an exception of code": (["-c", "raise KeyError('x')"], "", {}),
    "a syntax error": (["wrong.py"], "", {}),
    "an interrupt": (["interrupts.py"], "", {}),
    "warnings": (["warns.py"], "", {}),
    "warnings as errors": (["-W", "error", "warns.py"], "", {}),
    "warnings by a variable": (["warns.py"], "", {"PYTHONWARNINGS": "ignore"}),
    "an isolated script": (["-I", "script.py"], "", {}),
    "no site": (["-S", "-E", "script.py"], "", {}),
    "an unbuffered end without teardown": (["-u", "-c", "import os; print(1); os._exit(3)"], "", {}),
    "a buffered end without teardown": (["-c", "import os; print(1); os._exit(3)"], "", {}),
    "the version": (["-V"], "", {}),
    "the version with its build": (["-VV"], "", {}),
    "Python's help": (["--help-env"], "", {}),
    "an option that Python does not have": (["-Z"], "", {}),
    "a quiet prompt": (["-q", "-i"], "print(1)\n1/0\n", {}),
    "a prompt after a script": (["-i", "text.py"], "print(2)\nexit(4)\n", {}),
    "optimised code": (["-OO", "-X", "utf8", "-c", "import sys; assert 0; print(sys.flags)"], "", {}),
    "development mode": (["-X", "dev", "-c", "import sys; print(sys.flags)"], "", {}),
    "import times": (["-X", "importtime", "-c", "import json"], "", {}),
    "another encoding": (["script.py"], "\u00e9", {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1:replace"}),
    "no locale": (["script.py", "\u00e9"], "", {"LC_ALL": "POSIX"}),
    "the site": (["-m", "site"], "", {}),
    "timeit": (["-m", "timeit", "-n", "3", "-r", "1", "pass"], "", {}),
    "pip": (["-m", "pip", "--version"], "", {}),
    "a crash": (["crashes.py"], "", {}),
    "a crash under faulthandler": (["-X", "faulthandler", "crashes.py"], "", {}),
    "processes that are spawned": (["spawns.py"], "", {}),
    "signals": (["signals.py"], "", {}),
    "signals of children": (["children.py"], "", {}),
    "a script that starts again": (["again.py"], "", {}),
    "threads and an exit function": (["threads.py"], "", {}),
    "a trace of its imports by a variable": (["-c", "print(__debug__)"], "", {"PYTHONOPTIMIZE": "1"}),
    "a long integer's limit": (["-X", "int_max_str_digits=640", "-c", "print(int('9' * 641))"], "", {}),
    "a safe path": (["-P", "script.py"], "", {}),
    "a safe path by a variable": (["script.py"], "", {"PYTHONSAFEPATH": "1"}),
    "a search path by a variable": (["script.py"], "", {"PYTHONPATH": "/a:/b::"}),
    "no variables": (["-E", "-c", "import sys; print(sys.flags)"], "", {"PYTHONOPTIMIZE": "2"}),
    "no packages of the user": (["-s", "script.py"], "", {}),
    "bytes beside text": (["-bb", "-c", "print(b'a' == 'a')"], "", {}),
    "no bytecode": (["-B", "-c", "import sys; print(sys.flags)"], "", {}),
    "another folder for bytecode": (
        ["-X", "pycache_prefix=/x", "-c", "import sys; print(sys.pycache_prefix)"], "", {}
    ),
    "allocations that are traced": (
        ["-X", "tracemalloc", "-c", "import tracemalloc as t; print(t.is_tracing())"], "", {}
    ),
    "encodings that nobody named": (["-X", "warn_default_encoding", "-c", "open('script.py')"], "", {}),
    "an option with a wrong value": (["-X", "utf8=7", "-c", "1"], "", {}),
    "an option without its value": (["-c"], "", {}),
    "a warning that there is not": (["-W", "nonsense", "-c", "1"], "", {}),
    "a seed that is none": (["-c", "1"], "", {"PYTHONHASHSEED": "x"}),
    "a home that is not there": (["-c", "1"], "", {"PYTHONHOME": "/nowhere"}),
    "development mode by a variable": (["-c", "open('/dev/null')"], "", {"PYTHONDEVMODE": "1"}),
    "memory that is checked": (["-c", "print(1)"], "", {"PYTHONMALLOC": "debug"}),
    "import times by a variable": (["-c", "1"], "", {"PYTHONPROFILEIMPORTTIME": "1"}),
    "a locale that is coerced": (
        ["locales.py"], "", {"PYTHONCOERCECLOCALE": "warn", "LC_ALL": "", "LANG": "C"}
    ),
    "a locale that is not": (["locales.py"], "", {"PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}),
    "a start file of the prompt": (["-i"], "print(3)\n", {"PYTHONSTARTUP": "script.py"}),
    "a prompt by a variable": (["raises.py"], "print(f)\n", {"PYTHONINSPECT": "1"}),
    "errors at the prompt": (["-i"], "def f():\n  1/0\n\nf()\nx = (\n", {}),
    "input that ends": (["-c", "print(input('? ')); input()"], "a\n", {}),
    "the debugger": (["-m", "pdb", "script.py"], "n\nn\nq\n", {}),
    "the debugger after an exception": (["-m", "pdb", "-c", "continue", "raises.py"], "q\n", {}),
    "a breakpoint": (["-c", "breakpoint()"], "p 1\nc\n", {}),
    "no breakpoints": (["-c", "breakpoint()"], "", {"PYTHONBREAKPOINT": "0"}),
    "unittest": (["-m", "unittest", "test_unit"], "", {}),
    "doctest": (["-m", "doctest", "example.py"], "", {}),
    "a module that is a file of a package": (["-m", "package.__main__"], "", {}),
    "a module whose name is a path": (["-m", "package/__main__"], "", {}),
    "a program of zipapp": (["program.pyz", "-x"], "", {}),
    "an archive that is none": (["broken.zip"], "", {}),
    "a name that is empty": (["", "a"], "", {}),
    "arguments that shells treat": (["script.py", "", " ", "*", "\n", "\udcff"], "", {}),
    "too many calls": (["recursion.py"], "", {}),
    "too many levels of a text": (["nested.py"], "", {}),
    "too many levels of code": (["tokens.py"], "", {}),
    "too much memory": (["-c", "bytearray(1 << 60)"], "", {}),
    "an exit below zero": (["exits.py", "-1"], "", {}),
    "an exit with more than 32 bits": (["exits.py", str(2**32 + 5)], "", {}),
    "an exit with more than 64 bits": (["exits.py", "-" + "9" * 30], "", {}),
    "an exit with nothing": (["exits.py", "None"], "", {}),
    "an exit with the truth": (["exits.py", "True"], "", {}),
    "an exit with something else": (["exits.py", "(1, b'x')"], "", {}),
    "exits of a thread and of an exit function": (["leaves.py"], "", {}),
    "an exception in a thread": (["thread.py"], "", {}),
    "exceptions that nobody can catch": (["dies.py"], "", {}),
    "tasks": (["tasks.py"], "", {}),
    "a fork": (["forks.py"], "", {}),
    "processes that are forked": (["pools.py", "fork"], "", {}),
    "processes that a server forks": (["pools.py", "forkserver"], "", {}),
    "an abort": (["-c", "import os; os.abort()"], "", {}),
    "the signal that ends programs": (["ends.py", str(int(signal.SIGTERM))], "", {}),
    "a signal of the user": (["-u", "ends.py", str(int(signal.SIGUSR1))], "", {}),
    "a signal that is ignored": (["-c", "import os; os.kill(os.getpid(), 13); print(1)"], "", {}),
    "a mark at the beginning": (["mark.py"], "", {}),
    "a source with its encoding": (["latin.py"], "", {}),
    "a source in no encoding": (["wrong_bytes.py"], "", {}),
    "a source with a NUL": (["nul.py"], "", {}),
    "a source of Windows": (["lines.py"], "", {}),
}

# What only the tests' own environment has.
OF_VENV: dict[str, tuple[list[str], str, dict[str, str]]] = {
    "NumPy": (["-c", "import numpy as n; print(n.__file__, n.arange(6).reshape(2, 3) @ n.ones(3))"], "", {}),
    "pytest": (["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py"], "", {}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the cases."""
    root = tmp_path_factory.mktemp("scripts")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    for name, content in BYTES.items():
        (root / name).write_bytes(content)
    with zipfile.ZipFile(root / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SCRIPT)
    program = b"#!/usr/bin/env python3\n" + (root / "archive.zip").read_bytes()
    (root / "program.pyz").write_bytes(program)
    return root


def compare(python: Path, case: tuple[list[str], str, dict[str, str]], folder: Path) -> None:
    arguments, stdin, extra = case
    # No cache may be written by one and read by the other.
    extra = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"} | extra
    commands = [[python, *arguments], [COMMAND, "run", "--python", python, *arguments]]
    with ThreadPoolExecutor(len(commands)) as pool:
        theirs, ours = pool.map(lambda command: run(command, stdin, extra, folder), commands)
    assert masked(ours.stdout) == masked(theirs.stdout)
    assert masked(ours.stderr) == masked(theirs.stderr)
    assert ours.returncode == theirs.returncode


@pytest.mark.parametrize("name", OF_TABLE)
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_as_python_runs_it(name: str, case: str, folder: Path) -> None:
    compare(usable(name), CASES[case], folder)


@pytest.mark.parametrize("case", OF_VENV)
def test_a_run_in_an_environment_has_its_packages(case: str, folder: Path) -> None:
    compare(usable("venv"), OF_VENV[case], folder)


def interrupted(command: list[str | Path]) -> tuple[list[bytes], int]:
    """What a program says on a terminal of its own, and how it ends, after Ctrl-C."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], [os.fspath(word) for word in command], environment())
    # The terminal drops what is under way after Ctrl-C, which may be what the program says then.
    settings = termios.tcgetattr(terminal)
    # And it writes `^C` whenever it comes to it.
    settings[3] = (settings[3] | termios.NOFLSH) & ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    said = b""
    while b"ready\r\n" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    try:
        while part := os.read(terminal, 1024):
            said += part
    except OSError:
        # A terminal whose program has ended reads as an error.
        pass
    # Where in its line the program was, is not ours to say.
    lines = [line for line in said.splitlines() if not line.startswith(b"  ")]
    return lines, os.waitpid(child, 0)[1]


@pytest.mark.parametrize("name", PYTHONS)
def test_ctrl_c_on_a_terminal_ends_a_run_as_it_ends_python(name: str) -> None:
    python = usable(name)
    # Many short waits: a signal just before a wait does not end it.
    code = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)"
    theirs = interrupted([python, "-c", code])
    ours = interrupted([COMMAND, "run", "--python", python, "-c", code])
    assert ours == theirs
    assert os.WTERMSIG(ours[1]) == signal.SIGINT, "a shell shows 130"


@pytest.mark.parametrize("name", PYTHONS)
def test_a_closed_pipe_ends_a_run_as_it_ends_python(name: str, folder: Path) -> None:
    python = usable(name)

    def piped(command: list[str | Path]) -> tuple[bytes, int]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=folder
        )
        assert process.stdout and process.stderr
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        return said, process.wait()

    assert piped([COMMAND, "run", "--python", python, "pipe.py"]) == piped([python, "pipe.py"])


@pytest.mark.parametrize("name", PYTHONS)
def test_the_package_works_in_every_version(name: str) -> None:
    code = "import crossdock as xd; print(xd.asarray([1, 2]).tolist(), xd.device('cpu'))"
    answer = inside(usable(name), "-c", code)
    assert (answer.stdout, answer.stderr, answer.returncode) == ("[1, 2] cpu:0\n", "", 0)


def test_the_entry_point_of_the_package_runs_scripts() -> None:
    python = usable("venv")
    entry = "import sys; from crossdock._command import main; sys.argv[0] = 'crossdock'; main()"
    answer = run([python, "-c", entry, "run", "--python", python, "-c", "print(40 + 2)"])
    assert (answer.stdout, answer.stderr, answer.returncode) == ("42\n", "", 0)


def test_a_plugin_that_is_named_must_load_before_the_script_runs(tmp_path: Path) -> None:
    python = usable("venv")
    absent = tmp_path / "libcrossdock_plugin_absent.so"
    answer = run([COMMAND, "run", "--plugin", absent, "--python", python, "-c", "print(1)"])
    assert (answer.returncode, answer.stdout) == (1, "")
    assert str(absent) in answer.stderr


def test_a_device_that_is_required_must_be_there_before_the_script_runs() -> None:
    python = usable("venv")
    answer = run([COMMAND, "--require", "hexagon", "run", "--python", python, "-c", "print(1)"])
    assert (answer.returncode, answer.stdout) == (1, "")
    answer = run([COMMAND, "run", "--require", "cpu", "--python", python, "-c", "print(1)"])
    assert (answer.returncode, answer.stdout) == (0, "1\n")


def test_a_plugin_of_the_command_line_is_the_scripts(accelerators_library: Path) -> None:
    python = usable("venv")
    code = "import crossdock as xd; print(*xd.devices())"
    answer = run(
        [COMMAND, "run", "--plugin", accelerators_library, "--python", python, "-c", code]
    )
    assert "cuda:2" in answer.stdout, answer.stderr
