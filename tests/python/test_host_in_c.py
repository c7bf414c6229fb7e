"""A host in C that starts Python itself and shares tensors with its scripts, with every Python here."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from pythons import PACKAGE, PYTHONS, explain, run, usable

HERE = Path(__file__).parent
INCLUDE = [f"-I{HERE.parent.parent / part / 'include'}" for part in ("host/capi", "sdk")]

# What an extension module does that was linked with libcrossdock: it asks for the runtime.
EXTENSION = """
#include <crossdock/crossdock.h>

const void *seen_runtime(void) {
    xd_runtime *runtime = NULL;
    if (xd_runtime_default(&runtime) != NULL) return NULL;
    xd_runtime_free(runtime);
    return runtime;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host, linked with the package's library, and an extension that needs it by its name."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "seen.c").write_text(EXTENSION)
    compiler = ["cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread"]
    compiler += ["-Wall", "-Wextra", "-Werror", *INCLUDE]
    library = [f"-L{PACKAGE}", "-l:libcrossdock.so.1"]
    for name, version in {"restarts": "c99", "many": "c11"}.items():
        more = [f"-std={version}", f"{HERE}/{name}_in_c.c", "-o", f"{folder}/{name}", "-ldl"]
        subprocess.run([*compiler, *more, *library, f"-Wl,-rpath,{PACKAGE}"], check=True)
    seen = [*compiler, "-shared", "-fPIC", f"{folder}/seen.c", "-o", f"{folder}/seen.so", *library]
    host = [*compiler, f"{HERE}/host_in_c.c", "-o", f"{folder}/host", *library]
    subprocess.run(seen, check=True)
    subprocess.run([*host, f"-Wl,-rpath,{PACKAGE}"], check=True)
    return folder


@pytest.mark.parametrize("name", PYTHONS)
def test_a_host_and_its_scripts_share_memory(name: str, built: Path) -> None:
    has_torch = name == "venv" and find_spec("torch") is not None
    more = ["PyTorch"] if has_torch else []
    done = run([built / "host", usable(name), built / "seen.so", *more])
    assert (done.returncode, done.stderr) == (0, "")
    if name == "venv":
        assert done.stdout == "all\n"


@pytest.mark.parametrize("name", PYTHONS)
def test_host_bug_12_a_host_ends_its_own_python_and_starts_it_again(name: str, built: Path) -> None:
    """Exit functions of scripts run with the Python that others started, and `sys.exit` in them ends nothing."""
    python = usable(name)
    told = explain(python).stdout
    library = next(line.split()[1] for line in told.splitlines() if "library " in line)
    done = run([built / "restarts", library])
    assert (done.returncode, done.stdout, done.stderr) == (0, "SystemExit\nat exit\n", "")


@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("name", ["venv", "3.12", "3.13"])
def test_many_threads_ask_everything_at_random(name: str, seed: str, built: Path) -> None:
    """Nobody waits for ever, and no tensor of the host's stays with its scripts."""
    calls = "3000" if os.environ.get("CROSSDOCK_LONG") == "1" else "60"
    done = run([built / "many", usable(name), calls, seed])
    assert done.returncode == 0, done.stderr
