"""Plugin files that cannot be loaded: Python warns of them, since their devices are missing."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import crossdock as xd
import pytest

PACKAGE = Path(xd.__file__).parent
# What OpenCL needs; its cache is in HOME.
PASSED = ["PATH", "OCL_ICD_VENDORS", "OPENCL_DYLIB_PATH", "PYOPENCL_HOME", "LD_LIBRARY_PATH"]

CALLS = """
import os, warnings, crossdock as xd
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert xd.asarray([1]).tolist() == [1]
    assert xd.devices() and xd.plugins()
    child = os.fork()
    assert xd.devices()
    print(len(caught), *[f"{one.category.__name__}: {one.message}" for one in caught], flush=True)
    if child:
        os.waitpid(child, 0)
"""


def said(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CROSSDOCK_TRUST_PATHS"}
    environment |= {"CROSSDOCK_PLUGIN_PATH": str(folder), **variables}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def test_a_plugin_that_is_not_loaded_is_warned_of_once(tmp_path: Path) -> None:
    file = tmp_path / "libcrossdock_plugin_text.so"
    file.write_text("not a library")
    run = said(tmp_path, "-c", CALLS)
    assert run.returncode == 0, run.stderr
    # In the child of a fork the same files are refused again, and are warned of no more.
    lines = run.stdout.splitlines()
    assert [line for line in lines if "RuntimeWarning" in line or line == "0"] == [lines[0], lines[2]], run.stdout
    assert lines[0] == lines[2] == "1 RuntimeWarning: plugin files were not loaded, so their devices are missing:"
    assert str(file) in lines[1] and "a text" in lines[1] and "(try: " in lines[1]


def test_a_plugin_that_others_can_change_is_warned_of_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "libcrossdock_plugin_text.so"
    file.write_text("not a library")
    file.chmod(0o666)
    run = said(tmp_path, "-c", "import crossdock as xd; print(*xd.devices())")
    assert run.stdout.startswith("cpu:0"), run.stderr
    assert f"all users can write to `{file}` (its mode is 0666)" in run.stderr
    assert f"chmod go-w '{file}'" in run.stderr


def test_a_warning_that_is_an_error_leaves_the_runtime_usable(tmp_path: Path) -> None:
    (tmp_path / "libcrossdock_plugin_text.so").write_text("not a library")
    code = """
import crossdock as xd
try:
    xd.devices()
except RuntimeWarning:
    print(*xd.devices())
"""
    run = said(tmp_path, "-W", "error::RuntimeWarning", "-c", code)
    assert run.stdout.startswith("cpu:0"), run.stderr


def test_without_a_refused_file_no_warning_is_raised(tmp_path: Path) -> None:
    run = said(tmp_path, "-W", "error", "-c", "import crossdock as xd; print(*xd.devices())")
    assert run.stdout.startswith("cpu:0"), run.stderr


# Ways to be somebody: words in front of a command, and the owner of the package.
DAEMON = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
ROOTLESS = ["unshare", "--user", "--map-root-user"]
IDENTITIES = {
    "this user": ([], None),
    "rootless": (ROOTLESS, None),
    "daemon": (DAEMON, 1),
    "daemon, rootless": (DAEMON + ROOTLESS, 1),
}


def is_allowed(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def has_private_group(user: int) -> bool:
    try:
        account = pwd.getpwuid(user)
        group = grp.getgrgid(account.pw_gid)
    except KeyError:
        return False
    return account.pw_name == group.gr_name and not set(group.gr_mem) - {account.pw_name}


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    """A copy of the package, directly in /tmp so that all users reach it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        copied = Path(folder) / "site-packages/crossdock"
        shutil.copytree(PACKAGE, copied, symlinks=True, ignore=shutil.ignore_patterns("command", "__pycache__"))
        yield copied


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
@pytest.mark.parametrize("name", IDENTITIES)
def test_the_installed_package_has_the_same_devices_with_every_umask(package: Path, name: str, umask: int) -> None:
    prefix, owner = IDENTITIES[name]
    owner = os.geteuid() if owner is None else owner
    pythons = [sys.executable, "/usr/bin/python3"]
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    python = next((python for python in pythons if is_allowed(*prefix, python, "-c", check)), None)
    if python is None:
        pytest.skip(f"skipped: {name}: not allowed here, or no Python that this user can start")
    if umask == 0o002 and not has_private_group(owner):
        pytest.skip("skipped: the group of this user is not private")
    top = package.parent.parent
    for path in [top, *top.rglob("*")]:
        if owner != path.lstat().st_uid or owner != os.geteuid():
            os.chown(path, owner, pwd.getpwuid(owner).pw_gid, follow_symlinks=False)
        if not path.is_symlink():
            mode = 0o777 if path.is_dir() or path.stat().st_mode & 0o100 else 0o666
            path.chmod(mode & ~umask)
    code = "import crossdock as xd; print(*xd.devices())"
    environment = {"PYTHONPATH": str(package.parent), "CROSSDOCK_COSTS": "off", "HOME": str(top)}
    environment |= {name: os.environ[name] for name in PASSED if name in os.environ}
    run = subprocess.run([*prefix, python, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    here = {str(device).partition(":")[0] for device in xd.devices()} & {"cpu", "opencl"}
    assert {word.partition(":")[0] for word in run.stdout.split()} & {"cpu", "opencl"} == here, run.stdout
