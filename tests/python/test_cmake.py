"""`find_package(Crossdock)`: through links, in folders with unusual names, and for ranges of versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import crossdock as xd
import pytest

PROJECT = """cmake_minimum_required(VERSION 3.19)
project(p NONE)
find_package(Crossdock {asked} REQUIRED)
foreach(property IN ITEMS IMPORTED_LOCATION INTERFACE_INCLUDE_DIRECTORIES)
    get_target_property(path Crossdock::crossdock ${{property}})
    message(STATUS "path: ${{path}}")
endforeach()
"""


def configured(folder: Path, *options: str, asked: str = "") -> subprocess.CompletedProcess[str]:
    """Configures a project that needs no compiler."""
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    source = folder / "project"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT.format(asked=asked))
    command = [cmake, "-S", str(source), "-B", str(source / "build"), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=source)


def installation(prefix: Path, library: str = "lib") -> Path:
    """What `find_package` reads of an installation, or of a Python package, whose library is in no folder of its own."""
    shutil.copytree(xd.get_cmake_dir(), prefix / "lib/cmake/Crossdock")
    (prefix / "include/crossdock").mkdir(parents=True)
    (prefix / "include/crossdock/crossdock.h").write_text("")
    (prefix / library / "libcrossdock.so.1").write_text("")
    return prefix


def link(place: Path, to: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to)


def link_each_file(view: Path, prefix: Path) -> None:
    for file in [path for path in prefix.rglob("*") if path.is_file()]:
        link(view / file.relative_to(prefix), file)


def link_each_folder(view: Path, prefix: Path) -> None:
    for folder in prefix.iterdir():
        link(view / folder.name, folder)


def in_usr_alone(root: Path, prefix: Path) -> None:
    """`/lib` is a link to `usr/lib`, and there is no `/include`."""
    link(root / "usr", prefix)
    link(root / "lib", Path("usr/lib"))


# How an installation is seen from the root that CMake searches.
LAYOUTS: dict[str, Callable[[Path, Path], None]] = {
    "merged-usr": in_usr_alone,
    "lib-alone": lambda root, prefix: link(root / "lib", prefix / "lib"),
    "cmake-folder-alone": lambda root, prefix: link(root / "lib/cmake/Crossdock", prefix / "lib/cmake/Crossdock"),
    "cmake-files-alone": lambda root, prefix: link_each_file(root / "lib/cmake", prefix / "lib/cmake"),
    "each-folder": link_each_folder,
    "each-file": link_each_file,
}


@pytest.mark.parametrize("library", ["lib", "."], ids=["prefix", "package"])
@pytest.mark.parametrize("resolve", ["OFF", "ON"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cmake_finds_an_installation_through_links(
    layout: str, resolve: str, library: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    LAYOUTS[layout](root, installation(tmp_path / "real", library))
    options = [f"-DCMAKE_PREFIX_PATH={root}", f"-DCMAKE_FIND_PACKAGE_RESOLVE_SYMLINKS={resolve}"]
    names_existing_files(configured(tmp_path, *options))


def test_cmake_finds_an_installation_whose_lib_is_on_another_disk(tmp_path: Path) -> None:
    prefix = installation(tmp_path / "real")
    shutil.move(prefix / "lib", tmp_path / "disk/lib")
    link(prefix / "lib", tmp_path / "disk/lib")
    names_existing_files(configured(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"))


@pytest.mark.parametrize("name", ["a b", "a#b", "a$b", "a'b", "a(b)", "ä", "a&b", "a%b", "a@b", "-a"])
def test_cmake_finds_an_installation_in_any_folder(name: str, tmp_path: Path) -> None:
    prefix = installation(tmp_path / name)
    names_existing_files(configured(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"))


def test_cmake_finds_an_installation_by_a_relative_path(tmp_path: Path) -> None:
    installation(tmp_path / "here")
    names_existing_files(configured(tmp_path, "-DCMAKE_PREFIX_PATH:PATH=../here"))


def names_existing_files(run: subprocess.CompletedProcess[str]) -> None:
    """The target has the library and the headers."""
    assert run.returncode == 0, run.stderr
    library, headers = [Path(line[9:]) for line in run.stdout.splitlines() if line.startswith("-- path: ")]
    assert library.is_file() and library.name == "libcrossdock.so.1", library
    assert (headers / "crossdock/crossdock.h").is_file(), headers


RANGES = {
    "0.5...1": True,
    "1...1.0.0": True,
    "1...2": True,
    "1...<2": True,
    "1.0...3": True,
    "0.1...<1.0.1": True,
    "0.5...<1": False,
    "1...<1.0.0": False,
    "0.1...0.9": False,
    "1.1...2": False,
    "2...3": False,
    "1": True,
    "1.0.0 EXACT": True,
    "0.9": False,
    "1.1": False,
    "2": False,
}


@pytest.mark.parametrize("asked", RANGES)
def test_cmake_takes_versions_within_the_range(asked: str, tmp_path: Path) -> None:
    run = configured(tmp_path, f"-DCrossdock_DIR={xd.get_cmake_dir()}", asked=asked)
    assert (run.returncode == 0) == RANGES[asked], run.stderr


def test_cmake_names_the_folders_that_lack_the_library(tmp_path: Path) -> None:
    prefix = installation(tmp_path / "real")
    (prefix / "lib/libcrossdock.so.1").unlink()
    run = configured(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    told = " ".join(run.stderr.split())
    assert run.returncode != 0 and f"libcrossdock.so.1 or its headers are missing in: {prefix};" in told, told
