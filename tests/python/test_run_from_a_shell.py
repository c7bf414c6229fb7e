"""`crossdock run` beside `python` as shells start them: redirections, names, signals, environments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import COMMAND, PYTHONS, environment, inside, masked, run, usable

FILES = {
    "streams.py": "import sys\nprint(sys.stdin, sys.stdout, sys.stderr, sys.argv)\n",
    "both.py": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n",
    "signals.py": "import signal\nprint([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())],"
    " signal.pthread_sigmask(0, []))\n",
    "interrupts.py": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('on')\n",
    "process.py": "import os, resource\nprint(sorted(os.listdir('/proc/self/fd')), os.getpriority(0, 0),"
    " resource.getrlimit(resource.RLIMIT_STACK), os.sched_getaffinity(0), sorted(os.environ))\n",
    "names.py": "import sys\nprint(ascii([sys.argv, sys.path[0], __file__]))\n",
}

# What a shell runs; `"$@"` is `python`, or `crossdock run` with it.
LINES = {
    "no output": '"$@" both.py >&-',
    "a full disk": '"$@" both.py >/dev/full',
    "a full disk for what goes wrong": '"$@" both.py 2>/dev/full',
    "the file for standard input": '"$@" <streams.py',
    "a folder for standard input": '"$@" </',
    "another descriptor": '"$@" process.py 5</dev/null',
    "a script in a descriptor": '"$@" /dev/fd/5 a 5<streams.py',
    "a script in a pipe": 'mkfifo pipe-$$; (cat streams.py >pipe-$$ &) ; "$@" pipe-$$ | sed s/$$//',
    "a reader that leaves": '"$@" -c "for i in range(100000): print(i)" | head -1',
    "an interrupt that is ignored": "trap '' INT; \"$@\" interrupts.py",
    "signals that are ignored": "trap '' INT TERM HUP PIPE CHLD; \"$@\" signals.py",
    "a terminal that hangs up": 'nohup "$@" signals.py',
    "in the background": '"$@" interrupts.py & wait $!',
    "a small stack": 'ulimit -s 1024; "$@" process.py',
    "few descriptors": 'ulimit -n 20; "$@" process.py',
    "no variables": 'env -i "$@" process.py',
    "a folder that is gone": 'mkdir gone-$$; cd gone-$$; rmdir ../gone-$$; "$@" -c "import sys; print(sys.path[0])"',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the lines."""
    root = tmp_path_factory.mktemp("scripts")
    for name, text in FILES.items():
        (root / name).write_text(text)
    return root


def said(line: str, words: list[str | Path], folder: Path) -> tuple[str, str, int]:
    done = run(["bash", "-c", line, "bash", *words], cwd=folder)
    return masked(done.stdout), masked(done.stderr), done.returncode


@pytest.mark.parametrize("name", ["venv", "3.13"])
@pytest.mark.parametrize("line", LINES)
def test_a_shell_sees_no_difference(name: str, line: str, folder: Path) -> None:
    python = usable(name)
    ours = said(LINES[line], [COMMAND, "run", "--python", python], folder)
    assert ours == said(LINES[line], [python], folder)


def test_these_tests_may_run_where_signals_are_ignored() -> None:
    """A shell without job control ignores interrupts for what it runs in the background, and `nohup` hangups."""
    line = "trap '' INT QUIT HUP; exec \"$@\""
    chosen = f"{Path(__file__).with_name('test_run.py')}::test_ctrl_c_on_a_terminal_ends_a_run_as_it_ends_python[venv]"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen]
    # No terminal is to be left behind that waits for an interrupt.
    done = run(["timeout", "-k", "1", "60", "bash", "-c", line, "bash", *words])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("name", PYTHONS)
def test_names_may_be_any_bytes(name: str, locale: str, tmp_path: Path) -> None:
    """A path with spaces and bytes that are no text, and arguments that are none."""
    python = usable(name)
    path = os.fsencode(tmp_path) + b"/a b \xff\xe9/names \xfe.py"
    os.mkdir(os.path.dirname(path))
    with open(path, "w") as file:
        file.write(FILES["names.py"])
    extra = {"LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    def named(*command: str | Path) -> tuple[bytes, bytes, int]:
        words = [*map(os.fsencode, command), path, b"", b"\xff \xfe", b"--python"]
        done = subprocess.run(words, capture_output=True, env=environment(extra))
        return done.stdout, done.stderr, done.returncode

    ours = named(COMMAND, "run", "--python", python)
    assert ours[2] == 0
    assert ours == named(python)


@pytest.mark.parametrize("name", PYTHONS)
def test_an_environment_is_made_and_used(name: str, tmp_path: Path) -> None:
    """`-m venv` makes links to the Python, not to this command, and what it makes runs here too."""
    python = usable(name)
    made = inside(python, "-m", "venv", "--without-pip", tmp_path / "env")
    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / "env/bin/python").resolve() == python.resolve()
    code = "import sys; print(sys.prefix, sys.base_prefix)"
    ours = inside(tmp_path / "env", "-c", code)
    assert ours.stdout == run([tmp_path / "env/bin/python", "-c", code]).stdout
    assert ours.stdout.startswith(f"{tmp_path}/env ")
