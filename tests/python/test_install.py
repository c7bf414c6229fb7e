"""What is installed, by `scripts/install` and in the package, builds programs wherever it was moved to."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import crossdock as xd
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(xd.__file__).parent
INSTALL = ROOT / "scripts/install"
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
DEVICES = [str(device) for device in xd.devices()]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where Crossdock is installed, and which libraries there are."""

    root: Path
    libraries: tuple[str, ...]

    @property
    def plugins(self) -> Path:
        return next(self.root.glob("**/crossdock/plugins"))

    @property
    def command(self) -> Path:
        found = [self.root / "bin/crossdock", self.root / "command"]
        return next(path for path in found if path.is_file())


def installed(*words: object, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """What `scripts/install` says; a build that is here already is taken."""
    command = [sys.executable, str(INSTALL), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", umask=umask)


def files(folder: Path) -> dict[str, int]:
    """The files of a folder, and their modes."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path.relative_to(folder)): path.lstat().st_mode & 0o777 for path in found}


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A prefix with everything, which was moved after it was filled."""
    first = tmp_path_factory.mktemp("first") / "made/here"
    run = installed(first, "--static", "--profile", "dev", umask=0o002)
    assert run.returncode == 0, run.stderr
    assert str(first) in run.stdout and "warning" not in run.stderr
    for name in files(first):
        assert bytes(first) not in (first / name).read_bytes(), f"{name} names its place"
    moved = first.rename(tmp_path_factory.mktemp("second") / "moved")
    yield moved
    # Builds for debugging are large, and pytest keeps its folders.
    shutil.rmtree(moved)


@pytest.fixture(params=["prefix", "package"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "package":
        return Place(PACKAGE, ("shared",))
    return Place(request.getfixturevalue("prefix"), ("shared", "static"))


@pytest.fixture(params=COMPILERS)
def compilers(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A compiler for C and one for C++."""
    names = COMPILERS[request.param]
    if missing := [name for name in names if not shutil.which(name)]:
        pytest.skip(f"{' and '.join(missing)} not installed")
    return names


def needs(tool: str) -> str:
    found = shutil.which(tool, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return found or pytest.skip(f"{tool} is not installed")


def block(document: str, kind: str, number: int = 0) -> str:
    """A block of a document."""
    text = (ROOT / document).read_text()
    return str(re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.DOTALL)[number])


def project(folder: Path) -> None:
    """The programs of the documents, as a person saves them."""
    folder.mkdir(exist_ok=True)
    (folder / "devices.cpp").write_text(block("README.md", "cpp"))
    (folder / "devices.c").write_text(block("docs/c.md", "c"))
    (folder / "CMakeLists.txt").write_text(block("README.md", "cmake"))


def call(*command: object, **variables: str) -> str:
    """What a command prints that works; it knows of no plugins but those that variables name."""
    kept = {name: value for name, value in os.environ.items() if name != "CROSSDOCK_PLUGIN_PATH"}
    words = [str(word) for word in command]
    run = subprocess.run(words, capture_output=True, text=True, env=kept | variables)
    assert run.returncode == 0, f"{words}\n{run.stdout}{run.stderr}"
    return run.stdout


def names_all_devices(program: Path, place: Place, library: str) -> None:
    """The program finds the plugins that are installed, and the library that was meant."""
    variables = {"CROSSDOCK_PLUGIN_PATH": str(place.plugins)} if library == "static" else {}
    said = call(program, **variables).splitlines()
    assert [line.removesuffix(": 4") for line in said] == DEVICES
    needed = re.findall(r"libcrossdock\S* => (\S+)", call("ldd", program))
    if library == "static":
        assert not needed
    else:
        (path,) = needed
        assert place.root.resolve() in Path(path).resolve().parents


@pytest.mark.parametrize("language", ["C", "CXX"])
def test_cmake_finds_it(
    place: Place, compilers: tuple[str, str], language: str, tmp_path: Path
) -> None:
    cmake = needs("cmake")
    project(tmp_path)
    lists = block("README.md", "cmake")
    if language == "C":
        lists = lists.replace("CXX", "C").replace("devices.cpp", "devices.c")
    # The targets ask for what the headers need.
    lists = lists.replace("\nfind_package", "\nset(CMAKE_CXX_STANDARD 14)\nfind_package", 1)
    if "static" in place.libraries:
        lists = lists.replace(" REQUIRED)", " REQUIRED COMPONENTS static)")
        more = [line for line in lists.splitlines() if "devices" in line and "project" not in line]
        more = [re.sub(r"\(devices\b", "(devices_static", line) for line in more]
        lists += "\n".join(more).replace("::crossdock)", "::crossdock_static)")
    (tmp_path / "CMakeLists.txt").write_text(lists)
    here = [cmake, "-S", tmp_path, "-B", tmp_path / "build"]
    named = dict(zip(("CC", "CXX"), compilers))
    call(*here, f"-DCMAKE_PREFIX_PATH={place.root}", **named)
    call(cmake, "--build", tmp_path / "build")
    for library in place.libraries:
        suffix = "_static" * (library == "static")
        names_all_devices(tmp_path / f"build/devices{suffix}", place, library)


@pytest.mark.parametrize("example", ["picture", "server"])
def test_cmake_builds_the_examples(prefix: Path, example: str, tmp_path: Path) -> None:
    cmake = needs("cmake")
    source = ROOT / "examples/cpp" / example
    call(cmake, "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    call(cmake, "--build", tmp_path)
    assert str(prefix.resolve()) in call("ldd", tmp_path / example)


@pytest.mark.parametrize(
    ("asked", "told"),
    [("2", r"version: 1\.0\.0"), ("1.99", r"version: 1\.0\.0"), ("1 COMPONENTS dynamic", "there are shared and, after")],
)
def test_cmake_says_what_is_not_there(asked: str, told: str, tmp_path: Path) -> None:
    cmake = needs("cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(Crossdock {asked} REQUIRED)\n"
    )
    command = [cmake, "-S", tmp_path, "-B", tmp_path / "b", f"-DCrossdock_DIR={xd.get_cmake_dir()}"]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert run.returncode != 0 and re.search(told, " ".join(run.stderr.split()))


@pytest.mark.parametrize("standard", ["c99", "c11", "c++17", "c++20"])
def test_pkg_config_finds_it(
    place: Place, compilers: tuple[str, str], standard: str, tmp_path: Path
) -> None:
    tool = needs("pkg-config")
    project(tmp_path)
    cpp = "++" in standard
    source, program = tmp_path / f"devices.{'cpp' if cpp else 'c'}", tmp_path / "devices"
    variables = {"PKG_CONFIG_PATH": str(place.root / "lib/pkgconfig")}
    for library in place.libraries:
        name = "crossdock-static" if library == "static" else "crossdock"
        flags = call(tool, "--cflags", "--libs", name, **variables).split()
        if library == "shared":
            folder = call(tool, "--variable=libdir", name, **variables).strip()
            flags.append(f"-Wl,-rpath,{folder}")
        command = [compilers[cpp], f"-std={standard}", *WARNINGS, source, "-o", program]
        call(*command, *flags)
        names_all_devices(program, place, library)


def test_pkg_config_lists_what_the_static_library_needs(prefix: Path, tmp_path: Path) -> None:
    tool = needs("pkg-config")
    project(tmp_path)
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = call(tool, "--static", "--cflags", "--libs", "crossdock", **variables).split()
    flags[flags.index("-lcrossdock")] = "-l:libcrossdock.a"
    program = tmp_path / "devices"
    call("cc", tmp_path / "devices.c", "-o", program, *flags)
    names_all_devices(program, Place(prefix, ()), "static")


def test_pkg_config_takes_a_folder_with_a_space(place: Place, tmp_path: Path) -> None:
    tool, moved = needs("pkg-config"), tmp_path / "a folder"
    shutil.copytree(place.root / "lib/pkgconfig", moved / "lib/pkgconfig")
    variables = {"PKG_CONFIG_PATH": str(moved / "lib/pkgconfig")}
    flags = shlex.split(call(tool, "--cflags", "--libs", "crossdock", **variables))
    paths = [Path(os.path.normpath(flag[2:])) for flag in flags if flag.startswith(("-I", "-L"))]
    assert paths == [moved / "include", moved if place.root == PACKAGE else moved / "lib"]


def test_scripts_run_in_a_static_program(prefix: Path, tmp_path: Path) -> None:
    tool = needs("pkg-config")
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = call(tool, "--cflags", "--libs", "crossdock-static", **variables).split()
    # In the prefix it finds the package by itself.
    source, program = tmp_path / "program.c", prefix / "bin/program"
    source.write_text(block("docs/embedding-python.md", "c"))
    call("cc", "-std=c99", source, "-o", program, *flags)
    environment = {"CROSSDOCK_PYTHON": sys.executable, "PYTHONPATH": ""}
    assert call(program, **environment) == block("docs/embedding-python.md", "text")
    program.unlink()


@pytest.mark.parametrize("standard", ["c99", "c11", "c++17", "c++20"])
def test_headers_are_silent_with_dlpacks_and_without(
    compilers: tuple[str, str], standard: str, tmp_path: Path
) -> None:
    dlpack = os.environ.get("CROSSDOCK_DLPACK_HEADER_DIR")
    if dlpack is None:
        pytest.skip("CROSSDOCK_DLPACK_HEADER_DIR names no folder with dlpack/dlpack.h")
    cpp = "++" in standard
    ours = ["crossdock.hpp"] if cpp else []
    ours += ["crossdock.h", "dlpack.h", "plugin.h", "plugin_support.h"]
    lines = [f"#include <crossdock/{name}>" for name in ours]
    theirs = ["#include <dlpack/dlpack.h>"]
    uses = ["int main(void) { DLTensor tensor; tensor.ndim = 0; return tensor.ndim; }"]
    for name, order in {"without": lines, "before": theirs + lines, "after": lines + theirs}.items():
        source = tmp_path / f"{name}.{'cpp' if cpp else 'c'}"
        source.write_text("\n".join([*order, *uses, ""]))
        command = [compilers[cpp], f"-std={standard}", *WARNINGS, "-fsyntax-only", source]
        call(*command, "-I", xd.get_include(), "-isystem", dlpack)


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., str]:
    """Runs a block of commands in a folder with the programs of the documents."""
    for tool in ("cmake", "pkg-config"):
        needs(tool)
    project(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)

    def run(commands: str, **variables: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        commands = f"cd {shlex.quote(str(tmp_path))}\n{commands}"
        return call("bash", "-euc", commands, **{"PATH": path, **variables})

    return run


def test_the_commands_of_the_readme_build_its_program(
    shell: Callable[..., str], tmp_path: Path
) -> None:
    (commands,) = re.findall(
        r"^```sh\n(crossdock=.*?)^```", (ROOT / "README.md").read_text(), re.M | re.DOTALL
    )
    shell(commands, PYTHONPATH=str(PACKAGE.parent))
    for program in ("build/devices", "devices"):
        names_all_devices(tmp_path / program, Place(PACKAGE, ()), "shared")


def test_the_commands_of_the_documents_build_programs(
    prefix: Path, shell: Callable[..., str], tmp_path: Path
) -> None:
    for number, program in [(2, "build/devices"), (3, "devices"), (4, "devices")]:
        shell(block("docs/install.md", "sh", number), PREFIX=str(prefix))
        library = "static" if number == 4 else "shared"
        names_all_devices(tmp_path / program, Place(prefix, ()), library)
    shell(block("docs/c.md", "sh"), PYTHONPATH=str(PACKAGE.parent))
    names_all_devices(tmp_path / "devices", Place(PACKAGE, ()), "shared")


def test_a_program_is_shipped_with_all_of_it(
    prefix: Path, shell: Callable[..., str], tmp_path: Path
) -> None:
    commands = block("docs/install.md", "sh", 3).replace('"$library"', "'$ORIGIN'")
    shell(commands, PREFIX=str(prefix))
    app = tmp_path / "app"
    shutil.copytree(prefix / "lib/crossdock", app / "crossdock", symlinks=True)
    for file in (tmp_path / "devices", prefix / "lib/libcrossdock.so.1"):
        shutil.copy(file, app)
    names_all_devices(app / "devices", Place(app, ()), "shared")
    shutil.rmtree(app)


def test_command_package_and_scripts_find_each_other(prefix: Path) -> None:
    command, package = prefix / "bin/crossdock", prefix / "lib/crossdock/python"
    assert "opencl" in call(command, "doctor", "--json")
    program = """if True:
        import pathlib, crossdock as xd
        xd.devices()
        paths = [xd.__file__, xd.get_include(), xd.get_cmake_dir(), *(p.path for p in xd.plugins())]
        print(*(pathlib.Path(path).resolve() for path in paths if path), sep="\\n")
    """
    environment = {"CROSSDOCK_PYTHON": sys.executable, "PYTHONPATH": ""}
    by_command = call(command, "run", "-c", program, **environment)
    by_python = call(sys.executable, "-c", program, PYTHONPATH=str(package))
    here = prefix.resolve()
    assert by_command.splitlines() == by_python.splitlines() == [
        str(here / name)
        for name in (
            "lib/crossdock/python/crossdock/__init__.py",
            "include",
            "lib/cmake/Crossdock",
            "lib/crossdock/plugins/libcrossdock_plugin_cuda.so",
            "lib/crossdock/plugins/libcrossdock_plugin_opencl.so",
            "lib/crossdock/plugins/libcrossdock_plugin_rocm.so",
        )
    ]
    started = call(sys.executable, "-c", "from crossdock._command import main; main()", "--version",
                   PYTHONPATH=str(package))  # fmt: skip
    assert xd.__version__ in started


def test_the_folders_of_the_package_have_what_they_are_for() -> None:
    assert (Path(xd.get_include()) / "crossdock/crossdock.hpp").is_file()
    assert (Path(xd.get_cmake_dir()) / "CrossdockConfig.cmake").is_file()
    assert (Path(xd.get_cmake_dir()) / "../../pkgconfig/crossdock.pc").is_file()


@pytest.mark.parametrize("name", ["a b#c", "a$b'c\"d", "a:b;c", "a%b,c&d", "\u00e4\u2020", "link"])
def test_an_installation_works_in_any_folder(prefix: Path, name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    if name == "link":
        place.symlink_to(prefix)
    else:
        shutil.copytree(prefix, place, symlinks=True, copy_function=os.link)
    plugins = json.loads(call(place / "bin/crossdock", "doctor", "--json"))["plugins"]
    assert {plugin["state"] for plugin in plugins} <= {"ready", "absent"}
    package = place / "lib/crossdock/python"
    lists = f"import sys; sys.path.insert(0, {str(package)!r}); import crossdock as xd; print(*xd.devices())"
    assert call(sys.executable, "-c", lists, PYTHONPATH="").split() == DEVICES
    # pkg-config and the loader split their search paths at some signs, and the loader expands another.
    if not set(name) & set(":;$"):
        project(tmp_path)
        variables = {"PKG_CONFIG_PATH": str(place / "lib/pkgconfig")}
        flags = shlex.join([needs("pkg-config"), "--cflags", "--libs", "crossdock"])
        build = f"eval c++ -std=c++17 devices.cpp -o devices $({flags})"
        call("bash", "-c", f"cd {shlex.quote(str(tmp_path))} && {build}", **variables)
        assert "cpu:0: 4" in call(tmp_path / "devices", LD_LIBRARY_PATH=str(place / "lib"))


@pytest.mark.parametrize("name", ["a b", "-a", "a#b;c:d", "$HOME", "it's", "\u00e4"])
def test_a_relative_prefix_of_any_name_is_installed_to(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(INSTALL), f"./{name}/x/..", "--profile=dev", "--no-build"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    # The message has the words of a shell.
    at = shlex.quote(str(tmp_path / name))
    assert f"put {at}/bin on PATH" in run.stdout
    assert (tmp_path / name / "bin/crossdock").is_file()
    shutil.rmtree(tmp_path / name)


def test_the_hook_of_pyinstaller_names_existing_files(place: Place) -> None:
    (hook,) = place.root.glob("**/_pyinstaller/hook-crossdock.py")
    program = f"import json, runpy; print(json.dumps(runpy.run_path({str(hook)!r})['binaries']))"
    told = call(sys.executable, "-c", program, PYTHONPATH=str(hook.parents[2]))
    (library, beside), (plugins, below) = json.loads(told)
    assert Path(library).is_file() and beside == "crossdock"
    assert set(Path(plugins).parent.glob(Path(plugins).name)) == set(place.plugins.resolve().iterdir())
    assert below == "crossdock/crossdock/plugins"


@pytest.mark.parametrize("language", ["c", "rust"])
def test_a_new_plugin_passes_with_no_edits(place: Place, language: str, tmp_path: Path) -> None:
    words = ["--c"] if language == "c" else []
    call(place.command, "new-plugin", "my_dev", "--into", tmp_path, *words)
    project = tmp_path / "my_dev"
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "new-plugin"
    variables = {
        "CROSSDOCK": str(place.command),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": str(target),
    }
    if language == "c":
        told = call("make", "-C", project, "check", "CFLAGS=-O1 -g -Werror", **variables)
        assert "unit: 6 passed" in told and " 0 failed" in told
        return
    # The versions that are here, for a build without a network.
    shutil.copy(ROOT / "Cargo.lock", project)
    manifest = project / "Cargo.toml"
    assert f'"{place.root.resolve() / "share/crossdock/sdk"}"' in manifest.read_text()
    told = call("cargo", "test", "--quiet", "--manifest-path", manifest, **variables)
    assert told.count("test result: ok. 1 passed") == 1


def test_files_are_everybodys_to_read_and_the_owners_to_write(prefix: Path) -> None:
    modes = files(prefix)
    programs = {name for name, mode in modes.items() if mode == 0o755}
    links = {name for name in modes if (prefix / name).is_symlink()}
    assert all(modes[name] == 0o644 for name in modes.keys() - programs - links)
    assert programs - links == {
        "bin/crossdock",
        "lib/libcrossdock.so.1.0.0",
        "lib/crossdock/plugins/libcrossdock_plugin_cuda.so",
        "lib/crossdock/plugins/libcrossdock_plugin_opencl.so",
        "lib/crossdock/plugins/libcrossdock_plugin_rocm.so",
        "lib/crossdock/python/crossdock/_crossdock.abi3.so",
    }
    for folder in [prefix, *(path for path in prefix.rglob("*") if path.is_dir())]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755, folder
    listed = (prefix / "share/crossdock/installed-files.txt").read_text().splitlines()
    assert sorted(listed) == sorted(modes)


def test_a_second_installation_replaces_the_first(prefix: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(prefix, again, symlinks=True)
    (again / "lib/mine.txt").write_text("another's")
    (again / "include/crossdock/crossdock.h").write_text("old")
    listed = again / "share/crossdock/installed-files.txt"
    listed.write_text(listed.read_text() + "include/crossdock/gone/old.h\n../outside\n/etc/hosts\n")
    (again / "include/crossdock/gone").mkdir()
    (again / "include/crossdock/gone/old.h").write_text("of an older version")
    (tmp_path / "outside").write_text("")
    run = installed(again, "--profile=dev")
    assert run.returncode == 0, run.stderr
    whole, static = set(files(prefix)), {name for name in files(prefix) if "atic" in name}
    static.add("lib/libcrossdock.a")
    assert len(static) == 3
    assert set(files(again)) == (whole - static) | {"lib/mine.txt"}
    assert not (again / "include/crossdock/gone").exists() and (tmp_path / "outside").exists()
    assert (again / "include/crossdock/crossdock.h").read_bytes() == (
        prefix / "include/crossdock/crossdock.h"
    ).read_bytes()
    shutil.rmtree(again)


def test_wrong_words_and_places_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    taken = tmp_path / "taken"
    (taken / "bin/crossdock").mkdir(parents=True)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "include").write_text("")
    for words, code, told in [
        ((), 2, "needs one PREFIX"),
        ((tmp_path / "a", tmp_path / "b"), 2, "needs one PREFIX"),
        ((tmp_path / "a", "--shared"), 2, "unknown option --shared (known: --static --profile --no-build)"),
        ((tmp_path / "a", "--profile"), 2, "--profile needs a name"),
        ((tmp_path / "a", "--profile", "fastest"), 1, "failed; nothing was changed"),
        ((file, "--profile=dev"), 1, f"{file} is a file, and not a folder"),
        ((file / "below", "--profile=dev"), 1, f"{file} is a file, and not a folder"),
        ((taken, "--profile=dev"), 1, f"{taken}/bin/crossdock is a folder where a file belongs"),
        ((blocked, "--profile=dev"), 1, f"{blocked}/include is a file where a folder belongs"),
    ]:
        run = installed(*words)
        assert run.returncode == code and told in run.stderr, run.stderr
        assert "Traceback" not in run.stderr and run.stdout == ""
    assert sorted(files(tmp_path)) == ["blocked/include", "file"]
    assert not (tmp_path / "a").exists() and not list(taken.rglob(".*"))


def test_without_cargo_an_earlier_build_is_installed(prefix: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(INSTALL), str(tmp_path / "prefix"), *words]
        environment = {**os.environ, "PATH": str(tools)}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    refused = run("--profile=dev")
    assert refused.returncode == 1 and "cargo is not on PATH; install to" in refused.stderr
    refused = run("--profile=never", "--no-build")
    assert refused.returncode == 1 and "libcrossdock_capi.so is not built" in refused.stderr
    done = run("--profile=dev", "--no-build", "--static")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "prefix") == files(prefix)
    shutil.rmtree(tmp_path / "prefix")


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    # Root may write to every folder but to those that are no files of a disk.
    folder = Path("/proc") if os.geteuid() == 0 else tmp_path
    folder.chmod(0o555)
    run = installed(folder / "crossdock", "--profile=dev")
    assert run.returncode == 1 and "nothing was changed" in run.stderr, run.stderr
    assert "no permission" in run.stderr or os.geteuid() == 0
    assert "Traceback" not in run.stderr


def test_an_installation_that_others_can_change_has_its_plugins(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    prefix = tmp_path / "prefix"
    run = installed(prefix, "--profile=dev")
    assert run.returncode == 0, run.stderr
    command = [str(prefix / "bin/crossdock"), "devices", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert report["refused"] == [], report
    shutil.rmtree(prefix)


@pytest.fixture(scope="module")
def put_in_place() -> ModuleType:
    """The script's module."""
    spec = importlib.util.spec_from_file_location("put_in_place", ROOT / "scripts/put_in_place.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filled(text: str, *names: str) -> Callable[[Path], None]:
    """Writes these files, as an installation does."""

    def fill(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    return fill


# One file goes, two are replaced, one is new, and the list is replaced.
OLD = filled("old", "a/one", "b/two", "c/three")
NEW = filled("new", "a/one", "b/two", "d/four")
STEPS = [("link", 4), ("unlink", 1), ("replace", 4)]


@pytest.mark.parametrize(("step", "at"), [(step, at) for step, count in STEPS for at in range(1, count + 1)])
def test_what_fails_on_the_way_changes_nothing(
    put_in_place: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    prefix = tmp_path / "prefix"
    put_in_place.install(prefix, OLD)
    before = {name: (prefix / name).read_text() for name in files(prefix)}
    call, calls = getattr(os, step), itertools.count(1)

    def failing(*words: object, **named: object) -> None:
        # A file system without links is no failure.
        if next(calls) == at:
            raise KeyboardInterrupt if step == "link" else OSError(28, "no space")
        call(*words, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, step, failing)
        with pytest.raises((KeyboardInterrupt, OSError)):
            put_in_place.install(prefix, NEW)
    assert {name: (prefix / name).read_text() for name in files(prefix)} == before
    assert sorted(path.name for path in prefix.iterdir()) == ["a", "b", "c", "share"]
    put_in_place.install(prefix, NEW)
    assert_new(put_in_place, prefix)


def assert_new(put_in_place: ModuleType, prefix: Path) -> None:
    assert sorted(files(prefix)) == ["a/one", "b/two", "d/four", put_in_place.LIST]
    assert (prefix / "a/one").read_text() == "new" and not (prefix / "c").exists()


def test_readers_find_every_file_at_every_moment(put_in_place: ModuleType, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    put_in_place.install(prefix, OLD)
    missing: list[str] = []

    # Called around each call of a function, those of the system included.
    def look(*_: object) -> None:
        missing.extend(name for name in ("a/one", "b/two") if not os.access(prefix / name, os.R_OK))

    sys.setprofile(look)
    try:
        put_in_place.install(prefix, NEW)
    finally:
        sys.setprofile(None)
    assert missing == []
    assert_new(put_in_place, prefix)


ENDED = """
import os, signal, sys
from pathlib import Path
import put_in_place

def write(text, *names):
    def fill(folder):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            if text == "new" and sys.argv[2] == "0":
                os.kill(os.getpid(), int(sys.argv[3]))
    return fill

prefix, left = Path(sys.argv[1]), int(sys.argv[2])
put_in_place.install(prefix, write("old", "a/one", "b/two", "c/three"))
def ended(call):
    def called(*words, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), int(sys.argv[3]))
        return call(*words, **named)
    return called
os.replace, os.rename, os.link = ended(os.replace), ended(os.rename), ended(os.link)
put_in_place.install(prefix, write("new", "a/one", "b/two", "d/four"))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("at", range(12))
def test_an_ended_installation_is_whole(put_in_place: ModuleType, tmp_path: Path, at: int, number: int) -> None:
    prefix = tmp_path / "prefix"
    command = [sys.executable, "-c", ENDED, str(prefix), str(at), str(int(number))]
    run = subprocess.run(command, cwd=ROOT / "scripts", env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True)
    assert run.returncode in (128 + number, -number, 1), run.stderr
    texts = {(prefix / name).read_text() for name in files(prefix) if not name.startswith("share/")}
    names = sorted(name for name in files(prefix) if not name.startswith("share/"))
    if at == 0:
        assert (texts, names) == ({"old"}, ["a/one", "b/two", "c/three"])
    else:
        assert (texts, names) == ({"new"}, ["a/one", "b/two", "d/four"])
    assert not list(prefix.rglob(".*")), "nothing of the work is left"


def test_a_part_of_the_prefix_may_be_on_another_file_system(put_in_place: ModuleType, tmp_path: Path) -> None:
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("skipped: /dev/shm is not another file system")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        prefix = tmp_path / "prefix"
        prefix.mkdir()
        (prefix / "a").symlink_to(other)
        put_in_place.install(prefix, OLD)
        put_in_place.install(prefix, NEW)
        assert (prefix / "a/one").read_text() == "new"
        assert [path.name for path in Path(other).iterdir()] == ["one"]


def test_a_prefix_that_was_made_in_vain_is_removed(put_in_place: ModuleType, tmp_path: Path) -> None:
    def failing(folder: Path) -> None:
        NEW(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_in_place.install(tmp_path / "made/for/it", failing)
    assert not (tmp_path / "made").exists()
