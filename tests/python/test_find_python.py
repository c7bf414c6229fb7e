"""Which Python `crossdock run` takes, and what it says of those that it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from pythons import COMMAND, PYTHONS, explain, inside, run, usable

SAYS = "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep='|')"


def venv(folder: Path, python: Path | str = sys.executable, changed: str = "") -> Path:
    """An environment; `changed` is what its Python says otherwise when it is asked."""
    made = [python, "-m", "venv", "--without-pip", "--symlinks", folder]
    subprocess.run(made, check=True, capture_output=True)
    if changed:
        packages = next(folder.glob("lib/python3.*/site-packages"))
        (packages / "sitecustomize.py").write_text(f"import sys, sysconfig\n{changed}\n")
    return folder


def alone(
    *arguments: str | Path, extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`crossdock run` where no Python is to be found but those that the test names."""
    return run([COMMAND, "run", *arguments], extra={"PATH": ""} | dict(extra or {}), cwd=cwd)


def test_host_bug_2_starts_without_python(tmp_path: Path) -> None:
    answer = alone("-c", "pass", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    what, why, hint = answer.stderr.splitlines()
    assert what == "error: find a Python"
    assert "no python3 is on PATH" in why
    assert "CROSSDOCK_PYTHON" in hint
    gone = tmp_path / "gone/bin/python3"
    answer = alone("-c", "pass", extra={"CROSSDOCK_PYTHON": str(gone)})
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"`{gone}` (`CROSSDOCK_PYTHON` is set): there is no such file" in answer.stderr


def test_a_name_that_is_not_on_path_says_that_path_was_searched(tmp_path: Path) -> None:
    for named, extra in (
        (["--python", "python9"], {}),
        ([], {"CROSSDOCK_PYTHON": "python9"}),
    ):
        answer = alone(*named, "-c", "pass", extra=extra, cwd=tmp_path)
        assert (answer.returncode, answer.stdout) == (1, "")
        assert "and no folder of `PATH` has it): there is no such file" in answer.stderr
    answer = alone("--python", "./python9", "-c", "pass", cwd=tmp_path)
    assert "there is no such file" in answer.stderr and "PATH" not in answer.stderr


def test_every_place_that_was_tried_is_told(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "python3").write_text("#!/bin/sh\necho not today >&2\nexit 3\n")
        (folder / "python3").chmod(0o755)
    extra = {"PATH": f"{one}:{two}", "VIRTUAL_ENV": str(tmp_path / "gone")}
    answer = alone("-c", "pass", extra=extra, cwd=tmp_path)
    assert answer.returncode == 1
    for place in (one / "python3", two / "python3", tmp_path / "gone/bin/python3"):
        assert f"`{place}`" in answer.stderr
    assert 'it said "not today"' in answer.stderr


def test_the_order_of_the_search(tmp_path: Path) -> None:
    (tmp_path / "work/here").mkdir(parents=True)
    on_path = venv(tmp_path / "path")
    places = {name: venv(tmp_path / name) for name in ("conda", "active", "named", "option")}
    project = venv(tmp_path / "work/.venv")
    extra = {"PATH": str(on_path / "bin")}

    def chosen(*arguments: str) -> str:
        answer = alone(*arguments, "-c", SAYS, extra=extra, cwd=tmp_path / "work/here")
        assert answer.stderr == ""
        return answer.stdout.split("|")[1]

    assert chosen() == str(project)
    extra["CONDA_PREFIX"] = str(places["conda"])
    assert chosen() == str(places["conda"])
    extra["CONDA_DEFAULT_ENV"] = "base"
    assert chosen() == str(project), "conda's base is always active"
    extra["VIRTUAL_ENV"] = str(places["active"])
    assert chosen() == str(places["active"])
    extra["CROSSDOCK_PYTHON"] = str(places["named"])
    assert chosen() == str(places["named"])
    assert chosen("--python", str(places["option"] / "bin/python")) == str(places["option"])
    project.rename(tmp_path / "away")
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV", "CROSSDOCK_PYTHON"):
        del extra[name]
    assert chosen() == str(on_path)


def test_the_command_of_an_environment_runs_that_environments_python(tmp_path: Path) -> None:
    usable("venv")
    made, other = venv(tmp_path / "env"), venv(tmp_path / "other")
    package = next(made.glob("lib/python3.*/site-packages")) / "crossdock"
    package.mkdir()
    command = shutil.copy(COMMAND, package)
    extra = {"PATH": str(other / "bin"), "VIRTUAL_ENV": str(other)}
    told = run([command, "run", "--explain"], extra=extra, cwd=tmp_path)
    assert "because this command is installed in its environment" in told.stdout
    assert f"environment  {made}\n" in told.stdout


def test_a_name_is_looked_up_on_the_path(tmp_path: Path) -> None:
    made = venv(tmp_path / "env")
    (made / "bin/mine").symlink_to("python3")
    answer = alone("--python", "mine", "-c", SAYS, extra={"PATH": str(made / "bin")})
    assert answer.stdout.split("|")[1] == str(made), answer.stderr


def test_host_bug_3_mismatched_environment_is_refused(tmp_path: Path) -> None:
    older, newer = usable("3.11"), usable("3.12")
    changed = (
        f"v = sysconfig.get_config_vars()\nv['LIBDIR'] = {str(older.parent.parent / 'lib')!r}\n"
        "v['INSTSONAME'] = 'libpython3.11.so.1.0'"
    )
    made = venv(tmp_path / "env", newer, changed)
    answer = inside(made, "-c", "import sys; print(sys.path)")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "it is 3.12.1, and its library" in answer.stderr
    assert "is 3.11.7" in answer.stderr


@pytest.mark.parametrize("name", PYTHONS)
def test_host_bug_4_home_is_never_the_venv(name: str, tmp_path: Path) -> None:
    python = usable(name)
    made = venv(tmp_path / "env", python)
    code = (
        "import encodings, os, subprocess, sys; print(sys.prefix, sys.prefix != sys.base_prefix);"
        "print('PYTHONHOME' in os.environ, subprocess.run([sys.executable, '-c',"
        "'import os, sys; print(sys.prefix, os.environ.get(\"PYTHONHOME\"))'],"
        "capture_output=True, text=True).stdout)"
    )
    answer = inside(made, "-c", code)
    assert answer.stdout == f"{made} True\nFalse {made} None\n\n", answer.stderr


def test_host_bug_5_shim_is_seen_through(tmp_path: Path) -> None:
    real = usable("venv")
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    shim.chmod(0o755)
    code = (
        "import subprocess, sys; print(sys.executable); print(sys.version.split()[0]);"
        "print(subprocess.run([sys.executable, '-V'], capture_output=True, text=True).stdout)"
    )
    answer = alone("-c", code, extra={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path)
    executable, version, child, _ = answer.stdout.split("\n", 3)
    assert Path(executable).parent == real.parent
    assert child == f"Python {version}"


def test_host_bug_6_static_python_says_so(tmp_path: Path) -> None:
    usable("venv")
    changed = "sysconfig.get_config_vars()['INSTSONAME'] = 'libpython3.11.a'"
    made = venv(tmp_path / "env", changed=changed)
    told = explain(made)
    assert "library      none: its executable is started instead" in told.stdout
    # The script sees no difference: what can be done without the library is done.
    code = "import sys; print(sys.prefix, sys.argv, '_crossdock_host' in sys.builtin_module_names)"
    answer = inside(made, "-c", code, "a")
    assert answer.stdout == f"{made} ['-c', 'a'] False\n"
    assert inside(made, "-c", "raise SystemExit(9)").returncode == 9


def test_host_bug_7_relocated_python_is_found(tmp_path: Path) -> None:
    python = usable("3.12" if PYTHONS["3.12"].is_file() else "3.11")
    changed = "sysconfig.get_config_vars()['LIBDIR'] = '/install/lib'"
    made = venv(tmp_path / "env", python, changed)
    told = explain(made)
    assert f"library      {python.parent.parent / 'lib'}/libpython3." in told.stdout, told.stderr
    assert inside(made, "-c", "print(1)").stdout == "1\n"


@pytest.mark.parametrize("layout", ["lib", "lib/{}", "lib64"])
def test_host_bug_7_the_library_of_a_moved_prefix_is_found(layout: str, tmp_path: Path) -> None:
    """As packages of distributions lay it out, unpacked somewhere else: also in a folder by the processor."""
    usable("venv")
    get = sysconfig.get_config_var
    file = Path(get("LIBDIR")) / get("INSTSONAME")
    library = tmp_path / "prefix" / layout.format(get("MULTIARCH")) / file.name
    library.parent.mkdir(parents=True)
    library.symlink_to(file)
    changed = (
        "sysconfig.get_config_vars()['LIBDIR'] = '/install/lib'\n"
        f"sys.base_prefix = {str(tmp_path / 'prefix')!r}"
    )
    made = venv(tmp_path / "env", changed=changed)
    told = explain(made)
    assert f"library      {library}\n" in told.stdout, told.stdout + told.stderr
    assert inside(made, "-c", "print(1)").stdout == "1\n"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("sys.implementation.name = 'pypy'", "it is pypy, and only CPython runs inside a program"),
        ("sys.version = '3.10.1 (x)'", "it is 3.10.1, and 3.11 is the oldest that works"),
        ("sysconfig.get_config_vars()\nsys.abiflags = 'd'", "it is a debug build"),
        ("sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1", "it is a free-threaded"),
        (
            "sysconfig.get_config_vars()['SOABI'] = 'cpython-311-x86_64-linux-musl'",
            "it uses another C library than this program",
        ),
        (
            "v = sysconfig.get_config_vars()\nv['INSTSONAME'] = 'other.so'\nv['LIBDIR'] = FOLDER",
            "is for another processor",
        ),
    ],
)
def test_a_python_that_cannot_run_here_says_why(changed: str, reason: str, tmp_path: Path) -> None:
    usable("venv")
    head = b"\x7fELF\x01\x01" + bytes(12) + b"\x28\x00"
    (tmp_path / "other.so").write_bytes(head)
    made = venv(tmp_path / "env", changed=changed.replace("FOLDER", repr(str(tmp_path))))
    answer = inside(made, "-c", "print(1)")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert reason in answer.stderr


def test_a_python_is_asked_once_until_it_changes(tmp_path: Path) -> None:
    usable("venv")
    asked = tmp_path / "asked"
    made = venv(tmp_path / "env", changed=f"open({str(asked)!r}, 'a').write('x')")
    cache = tmp_path / "cache"

    def times() -> int:
        asked.unlink(missing_ok=True)
        extra = {"XDG_CACHE_HOME": str(cache)}
        told = run([COMMAND, "run", "--python", made, "--explain"], extra=extra)
        assert f"environment  {made}\n" in told.stdout
        return len(asked.read_text()) if asked.exists() else 0

    assert (times(), times()) == (1, 0)
    (made / "pyvenv.cfg").touch()
    assert (times(), times()) == (1, 0)
    # What others could have written is not believed.
    (cache / "crossdock/pythons").chmod(0o777)
    assert (times(), times()) == (1, 1)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("exec >&- 2>&-\nexec sleep 600", "it is no usable Python"),
        ("exec cat /dev/zero", "it is no usable Python"),
        ("trap '' PIPE\nwhile :; do echo y; done", "it is no usable Python"),
        ("kill -9 $$", "it is no usable Python"),
    ],
)
def test_what_is_no_python_keeps_nobody_waiting(program: str, reason: str, tmp_path: Path) -> None:
    odd = tmp_path / "python3"
    odd.write_text(f"#!/bin/sh\n{program}\n")
    odd.chmod(0o755)
    limit = "ulimit -v 2000000; exec timeout 5 \"$@\""
    answer = run(["bash", "-c", limit, "bash", COMMAND, "run", "--python", odd, "-c", "print(1)"])
    assert (answer.returncode, answer.stdout) == (1, "")
    assert reason in answer.stderr


def test_a_shim_is_asked_every_time(tmp_path: Path) -> None:
    one, two = venv(tmp_path / "one"), venv(tmp_path / "two")
    shim = tmp_path / "python"
    for made in (one, two):
        shim.write_text(f'#!/bin/sh\nexec {made}/bin/python "$@"\n')
        shim.chmod(0o755)
        assert f"environment  {made}\n" in explain(shim).stdout


def test_a_script_says_what_it_needs(tmp_path: Path) -> None:
    usable("venv")
    made = venv(tmp_path / "env")
    script = tmp_path / "script.py"
    script.write_text(
        '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "absent-one>=2",\n'
        '#   "Absent.Two[x]",\n#   "crossdock",\n#   "never; python_version < \'3\'",\n# ]\n# ///\n'
        "print('ran')\n"
    )
    answer = inside(made, script)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"`{made}` lacks absent-one>=2, Absent.Two[x]\n" in answer.stderr
    assert "-m pip install 'absent-one>=2' 'Absent.Two[x]'\n" in answer.stderr
    packages = next(made.glob("lib/python3.*/site-packages"))
    for name in ("absent_one", "absent_two"):
        info = packages / f"{name}-2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2\n")
    answer = inside(made, script)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "ran\n", "")


def installed(environment: Path, name: str, version: str) -> None:
    packages = next(environment.glob("lib/python3.*/site-packages"))
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def needing(script: Path, python: str, *wanted: str) -> Path:
    lines = [f'requires-python = "{python}"', "dependencies = [", *(f"  {w!r}," for w in wanted), "]"]
    block = "".join(f"# {line}\n" for line in lines)
    script.write_text(f"# /// script\n{block}# ///\nprint('ran')\n")
    return script


def test_versions_and_conditions_count_where_packaging_is_there(tmp_path: Path) -> None:
    usable("venv")
    made = venv(tmp_path / "env")
    wanted = "one>=2,<3", "two==1.*", "three>1; python_version < '3'", "four[x]~=1.2", "five @ file:///five"
    script = needing(tmp_path / "a script.py", ">=3.11", *wanted)
    for name, version in {"one": "1.9", "two": "1.4", "four": "1.2rc1", "five": "0"}.items():
        installed(made, name, version)
    assert inside(made, script).stdout == "ran\n", "names alone count without it"
    packaging = pytest.importorskip("packaging")
    packages = next(made.glob("lib/python3.*/site-packages"))
    (packages / "packaging").symlink_to(Path(packaging.__file__).parent)
    answer = inside(made, "-u", "-X", "dev", "-Wignore", script)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "lacks one>=2,<3 (1.9 is installed), four[x]~=1.2 (1.2rc1 is installed)\n" in answer.stderr
    assert "-m pip install 'one>=2,<3' 'four[x]~=1.2'\n" in answer.stderr
    installed(made, "one", "2.5")
    installed(made, "four", "1.3")
    for old in ("one-1.9", "four-1.2rc1"):
        shutil.rmtree(packages / f"{old}.dist-info")
    assert inside(made, script).stdout == "ran\n"
    # It is the script that is looked at, and no other word.
    assert inside(made, "-c", "print(1)", script).stdout == "1\n"
    answer = inside(made, needing(tmp_path / "old.py", "<3.11", "absent"))
    assert (answer.returncode, answer.stdout) == (1, "")
    number = ".".join(map(str, sys.version_info[:3]))
    assert f"it needs Python <3.11, and `{made}/bin/python3` is {number}\n" in answer.stderr


def test_an_active_environment_that_is_not_used_is_told(tmp_path: Path) -> None:
    usable("venv")
    made = venv(tmp_path / "env", changed="sys.version = '3.9.1 (x)'")
    extra = {"PATH": str(Path(sys.executable).parent), "VIRTUAL_ENV": str(made)}
    answer = alone("-c", "print(1)", extra=extra, cwd=tmp_path)
    assert answer.stdout == "1\n"
    assert answer.stderr == (
        f"not `{made}/bin/python3` (`VIRTUAL_ENV` is set): "
        "it is 3.9.1, and 3.11 is the oldest that works\n"
    )


def test_an_environment_whose_python_is_gone_is_to_be_recreated(tmp_path: Path) -> None:
    usable("venv")
    made = venv(tmp_path / "env")
    settings = made / "pyvenv.cfg"
    lines = settings.read_text().splitlines()
    settings.write_text("\n".join("home = /gone" if x.startswith("home") else x for x in lines))
    answer = inside(made, "-c", "print(1)")
    assert answer.returncode == 1
    assert "the Python that the environment was made from is gone (`/gone`)" in answer.stderr
    assert "recreate the venv" in answer.stderr


def test_a_folder_that_others_may_change_is_refused(tmp_path: Path) -> None:
    if os.environ.get("CROSSDOCK_TRUST_PATHS") == "1":
        pytest.skip("the checkout of these tests is not held to the rule")
    usable("venv")
    made = venv(tmp_path / "env")
    for mode in (0o777, 0o775) if os.geteuid() == 0 else (0o777,):
        if mode == 0o775:
            os.chown(made / "bin", -1, 12345)
        (made / "bin").chmod(mode)
        answer = inside(made, "-c", "print(1)")
        assert answer.returncode == 1
        assert f"can write to `{made}/bin`" in answer.stderr
        assert f"chmod go-w '{made}/bin'" in answer.stderr
    trusted = inside(made, "-c", "print(1)", extra={"CROSSDOCK_TRUST_PATHS": "1"})
    assert trusted.stdout == "1\n", trusted.stderr


def test_a_privileged_process_looks_beside_itself_only(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a program another user's rights")
    program = tmp_path / "crossdock"
    shutil.copy(COMMAND, program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    extra = {"CROSSDOCK_PYTHON": sys.executable, "VIRTUAL_ENV": str(Path(sys.prefix))}
    answer = run([program, "run", "--explain"], extra=extra)
    assert "no Python was found" in answer.stdout
    assert sys.executable not in answer.stdout


def test_the_explanation_names_the_choice_and_what_was_passed_over(tmp_path: Path) -> None:
    python = usable("venv")
    extra = {"VIRTUAL_ENV": str(tmp_path), "PATH": str(python.parent)}
    told = alone("--explain", extra=extra, cwd=tmp_path)
    assert told.returncode == 0
    first, second, *_ = told.stdout.splitlines()
    assert first == (
        f"not `{tmp_path}/bin/python3` (`VIRTUAL_ENV` is set): there is no such file"
    )
    assert second == f"{python.parent}/python3, because `python3` is on `PATH`"
