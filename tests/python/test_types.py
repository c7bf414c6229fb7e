"""The typed stubs say what the module has, and programs that use it pass `mypy --strict`."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import crossdock as xd
from crossdock import _crossdock as native

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# What stubtest may find: the module makes its list of names itself, and the package has the one
# that people read; Python 3.11 does not show who has buffers; Python modules are their own stubs.
ALLOWED = [
    r"crossdock\._crossdock\.__all__",
    r"crossdock\._crossdock\.Tensor\.__buffer__",
    # Its type alone has it, and only for NumPy before 2.4.
    r"crossdock\._crossdock\.Tensor\.__array_function__",
    r"crossdock\._(?!crossdock).*",
]
PACKAGES = Path(xd.__file__).parents[1]


def mypy(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": f"{PACKAGES}:{HERE}"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_the_stubs_agree_with_the_module(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("\n".join(ALLOWED))
    allow = ["--ignore-unused-allowlist", "--allowlist", str(allowed)]
    checked = mypy(tmp_path, "mypy.stubtest", "crossdock", *allow)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_examples_the_tests_and_the_package_are_typed(tmp_path: Path) -> None:
    folders = [HERE.glob("*.py"), HERE.glob("habits/*.py"), ROOT.glob("examples/python/*.py"), PACKAGES.glob("crossdock/*.py")]
    files = itertools.chain.from_iterable(folders)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    checked = mypy(tmp_path, "mypy", "--strict", cache, *map(str, sorted(files)))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_list_of_names_is_whole() -> None:
    public = {name for name in native.__dict__ if not name.startswith("_")}
    assert sorted(xd.__all__) == xd.__all__
    assert public <= set(xd.__all__) <= set(xd.__dict__)


def test_what_is_public_says_what_it_is() -> None:
    for name in xd.__all__:
        thing = getattr(xd, name)
        assert isinstance(thing, (str, xd.Dtype)) or thing.__doc__, f"{name} has no docstring"
        for inner, member in vars(thing).items() if isinstance(thing, type) else ():
            if not inner.startswith("_"):
                assert member.__doc__, f"{name}.{inner} has no docstring"
