"""A script of `crossdock run` and what it loads: one Python, one runtime, one package.

Of the bugs that embedding has had elsewhere, these tests and those beside them hold the ones that a
command line can have; the first is in `host/embed/tests`. 8 to 14, 17 to 19 and 23 of hosts that embed
Python are there too, and in the tests of hosts beside this file. 16 waits for modules that are loaded again, 24
for scripts in a process of their own, 25 for a host with another runtime of C++.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import crossdock as xd
import pytest
from pythons import COMMAND, PACKAGE, PYTHONS, inside, run, usable

ROOT = Path(__file__).parent.parent.parent

# What a C extension does that needs libcrossdock: it asks for the table and for who owns an address.
EXTENSION = """
#include <crossdock/crossdock.h>

const void *seen_table(void) { return xd_get_api(); }

int seen_owner(uint64_t address, uint64_t *host) {
    xd_runtime *runtime = NULL;
    xd_pointer_info info = {0};
    if (xd_runtime_default(&runtime) != NULL) return 1;
    if (xd_pointer_query(runtime, address, &info, NULL) != NULL) return 2;
    *host = info.host_pointer;
    xd_runtime_free(runtime);
    return 0;
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library that needs `libcrossdock.so.1`, and says nowhere where it lies."""
    folder = tmp_path_factory.mktemp("extension")
    (folder / "seen.c").write_text(EXTENSION)
    library = folder / "seen.so"
    include = [f"-I{ROOT / part / 'include'}" for part in ("host/capi", "sdk")]
    command = ["cc", "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", *include]
    command += [f"{folder}/seen.c", "-o", f"{library}", f"-L{PACKAGE}", "-l:libcrossdock.so.1"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("name", PYTHONS)
def test_host_module_and_extension_have_one_runtime(name: str, extension: Path) -> None:
    code = f"""
import ctypes, _crossdock_host
import crossdock as xd
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
seen = ctypes.CDLL({str(extension)!r})
seen.seen_table.restype = ctypes.c_void_p
assert seen.seen_table() == get(_crossdock_host.host_api, b"_crossdock_host.host_api")
tensor = xd.zeros((1024,), device="cpu")
host = ctypes.c_uint64()
assert seen.seen_owner(ctypes.c_uint64(tensor.data_ptr() + 8), ctypes.byref(host)) == 0
assert host.value == tensor.data_ptr() + 8
files = {{line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}}
print(sum("libcrossdock.so" in f or "libcrossdock_capi" in f for f in files))
print(sum("/libpython3." in f for f in files))
"""
    answer = inside(usable(name), "-c", code)
    assert answer.stdout == "1\n1\n", answer.stderr


def copied_package(folder: Path, version: str) -> Path:
    """Another copy of the package, installed with this version."""
    shutil.copytree(PACKAGE, folder / "crossdock", ignore=shutil.ignore_patterns("command"))
    info = folder / f"crossdock-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: crossdock\nVersion: {version}\n")
    return folder


@pytest.mark.parametrize("name", PYTHONS)
def test_host_bug_15_one_runtime_per_process(name: str, tmp_path: Path) -> None:
    python = usable(name)
    code = "import crossdock, crossdock._files as f; print(crossdock.__file__, f.__file__, sep='|')"

    def imported(version: str) -> "subprocess.CompletedProcess[str]":
        other = copied_package(tmp_path / version, version)
        return inside(python, "-c", code, extra={"PYTHONPATH": str(other)})

    here = f"{PACKAGE}/__init__.py|{PACKAGE}/_files.py\n"
    same = imported(xd.__version__)
    assert (same.stdout, same.stderr) == (here, "")
    newer = imported("1.999.0")
    assert newer.stdout == here
    assert newer.stderr.count("RuntimeWarning") == 1
    for text in (xd.__version__, "1.999.0", str(PACKAGE), str(tmp_path / "1.999.0/crossdock")):
        assert text in newer.stderr
    other = imported("999.0.0")
    assert (other.returncode, other.stdout) == (1, "")
    assert f"ImportError: crossdock {xd.__version__} of the program ({PACKAGE})" in other.stderr
    assert f"crossdock 999.0.0 of the environment ({tmp_path}/999.0.0/crossdock)" in other.stderr


def test_the_package_is_a_package_like_any_other() -> None:
    code = """
import importlib, importlib.metadata, importlib.resources, pkgutil, crossdock
print(crossdock.__spec__.name, crossdock.__spec__.origin == crossdock.__file__, crossdock.__path__)
print(importlib.reload(crossdock) is crossdock, crossdock.zeros((2,)).tolist())
print((importlib.resources.files("crossdock") / "py.typed").is_file())
print("_files" in [m.name for m in pkgutil.iter_modules(crossdock.__path__)])
from crossdock import _crossdock
import crossdock._memory
"""
    answer = inside(usable("venv"), "-c", code)
    expected = f"crossdock True ['{PACKAGE}']\nTrue [0.0, 0.0]\nTrue\nTrue\n"
    assert answer.stdout == expected, answer.stderr


def test_without_a_package_beside_the_command_the_environments_is_used(tmp_path: Path) -> None:
    shutil.copy(COMMAND, tmp_path / "crossdock")
    code = "import sys, crossdock as xd; print(xd.__file__, xd.asarray([1]).tolist());"
    code += "print('_crossdock_host' in sys.modules)"
    command: list[str | Path] = [tmp_path / "crossdock", "run", "--python", usable("venv"), "-c", code]
    answer = run(command)
    # There is no library beside it either, so its own copy hands out the table.
    assert answer.stdout == f"{PACKAGE}/__init__.py [1]\nTrue\n", answer.stderr


@pytest.mark.parametrize("layout", ["bin", "lib"])
def test_the_package_of_an_install_prefix_is_found(layout: str, tmp_path: Path) -> None:
    package = tmp_path / "lib/crossdock/python/crossdock"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("command", "*.so.1"))
    (tmp_path / "bin").mkdir()
    shutil.copy(COMMAND, tmp_path / "bin/crossdock")
    if layout == "lib":
        shutil.copy(PACKAGE / "libcrossdock.so.1", tmp_path / "lib")
    code = "import crossdock; print(crossdock.__file__)"
    command: list[str | Path] = [tmp_path / "bin/crossdock", "run"]
    command += ["--python", usable("venv"), "-c", code]
    answer = run(command, extra={"PYTHONPATH": ""})
    assert answer.stdout == f"{package}/__init__.py\n", answer.stderr


@pytest.mark.ends
@pytest.mark.parametrize("name", PYTHONS)
def test_host_bug_20_child_processes_are_python(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import concurrent.futures as c, multiprocessing as m, os, sys\n"
        "import crossdock as xd\n\n"
        "def f(x):\n"
        "    import crossdock as xd\n"
        "    mine = os.readlink('/proc/self/exe'), '_crossdock_host' in sys.builtin_module_names\n"
        "    return xd.asarray([x]).tolist(), *mine\n\n"
        "if __name__ == '__main__':\n"
        "    xd.zeros((2,))\n"
        "    with c.ProcessPoolExecutor(2, m.get_context('spawn')) as pool:\n"
        "        print(*pool.map(f, range(2)))\n"
    )
    python = usable(name)
    real = python.resolve()
    answer = inside(python, script)
    assert answer.stdout == f"([0], '{real}', False) ([1], '{real}', False)\n", answer.stderr


@pytest.mark.ends
def test_host_bug_21_fork_with_devices_open() -> None:
    code = """
import os, sys, crossdock as xd
device = xd.devices()[-1]
tensor = xd.asarray([1.0, 2.0]).to(device)
child = os.fork()
if child == 0:
    try:
        tensor.to(device, copy=True)
    except Exception as error:
        assert "fork" in str(error).lower(), error
        sys.exit(7)
    sys.exit(8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), tensor.to("cpu").tolist())
"""
    answer = inside(usable("venv"), "-c", code)
    assert answer.stdout == "7 [1.0, 2.0]\n", answer.stderr


@pytest.mark.parametrize("name", PYTHONS)
def test_host_bug_22_faulthandler_and_host_handlers(name: str) -> None:
    code = "import crossdock, ctypes; ctypes.string_at(0)"
    answer = inside(usable(name), "-c", code, extra={"PYTHONFAULTHANDLER": "1"})
    assert answer.returncode == -signal.SIGSEGV
    assert re.match(r"Fatal Python error: Segmentation fault\n", answer.stderr)
    assert 'File "<string>", line 1 in <module>' in answer.stderr


def test_host_bug_23_signals_are_left_alone() -> None:
    """What the package and others import changes no signal: the rest is `python`'s, as compared."""
    code = """
import signal
def handlers():
    return [(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())]
before = handlers()
import asyncio, importlib, numpy, crossdock as xd
xd.devices()
for heavy in ("matplotlib.pyplot", "torch", "jax"):
    try:
        importlib.import_module(heavy)
    except ModuleNotFoundError:
        pass
asyncio.run(asyncio.sleep(0))
print(handlers() == before)
"""
    python = usable("venv")
    answer = inside(python, "-c", code)
    assert answer.stdout == "True\n", answer.stderr


def test_the_log_of_the_scripts_runtime_is_the_commands() -> None:
    python, code = usable("venv"), "import crossdock as xd; xd.devices(); print(1)"
    # Something to warn of: only absolute folders are searched.
    wrong = {"CROSSDOCK_PLUGIN_PATH": "here"}
    answer = inside(python, "-c", code, extra=wrong | {"CROSSDOCK_LOG": "warn"})
    assert answer.stdout == "1\n"
    assert "WARN  crossdock::load" in answer.stderr
    assert "`here`" in answer.stderr


@pytest.mark.ends
def test_a_tensor_that_lives_to_the_end_changes_no_exit_code() -> None:
    code = """
import atexit, builtins, crossdock as xd, sys
builtins.kept = [xd.zeros((4,), device=device) for device in xd.devices()]
sys.exit(5)
"""
    answer = inside(usable("venv"), "-c", code)
    assert (answer.returncode, answer.stdout, answer.stderr) == (5, "", "")
