"""The build backend: maturin's, after the native files that the package carries were built.

The wheel holds the extension module (maturin's work), and beside it `libcrossdock.so.1`, the plugin
files under `crossdock/plugins`, where the library looks for them, and the `crossdock` command.
Metadata alone is maturin's too, and builds nothing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
PACKAGE = HERE / "python" / "crossdock"

# The crates, the file that cargo makes of each, and where it lies in the package.
FILES = {
    "crossdock-capi": ("libcrossdock_capi.so", "libcrossdock.so.1"),
    "crossdock-cli": ("crossdock", "command"),
    "crossdock-plugin-opencl": (
        "libcrossdock_plugin_opencl.so",
        "crossdock/plugins/libcrossdock_plugin_opencl.so",
    ),
}
MODULE = ("crossdock-python", "lib_crossdock.so")
# Folders whose headers programs in C include.
HEADERS = ("host/capi/include/crossdock", "sdk/include/crossdock")

# The oldest C library that Rust's own standard library runs on (its platform support page).
OLDEST_GLIBC = 17


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The hook of PEP 517: a wheel whose tag names the C library that all its files need."""
    settings = _with_native_files(config_settings)
    return str(maturin.build_wheel(wheel_directory, settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The hook of PEP 660: the package runs from the checkout."""
    settings = _with_native_files(config_settings)
    return str(maturin.build_editable(wheel_directory, settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Refused: the package is a part of a workspace, and its folder alone cannot be built."""
    raise SystemExit(
        "crossdock is built from a checkout: pip install ./host/python, or pip wheel ./host/python"
    )


def _with_native_files(config_settings: dict[str, Any] | None) -> dict[str, Any]:
    """Builds the native files into the package; the settings with which maturin makes the wheel."""
    target = _target_folder()
    os.environ["CARGO_TARGET_DIR"] = str(target)
    crates = [word for crate in (*FILES, MODULE[0]) for word in ("-p", crate)]
    subprocess.run(["cargo", "build", "--locked", "--release", *crates], cwd=ROOT, check=True)
    built = target / "release"
    for made, name in FILES.values():
        _replace(built / made, PACKAGE / name)
    for folder in HEADERS:
        for header in (ROOT / folder).glob("*.h"):
            _replace(header, PACKAGE / "include/crossdock" / header.name, mode=0o644)
    settings = dict(config_settings or {})
    if "build-args" not in settings and "MATURIN_PEP517_ARGS" not in os.environ:
        names = [made for made, _ in FILES.values()] + [MODULE[1]]
        settings["build-args"] = ["--locked", *_compatibility(built / name for name in names)]
    return settings


def _target_folder() -> Path:
    """Where cargo builds: only cargo knows, because configuration files can say it too."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return Path(json.loads(answer)["target_directory"])


def _replace(made: Path, place: Path, mode: int = 0o755) -> None:
    """Puts a file in place by rename: a process may have the old one mapped."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(place.name + ".new")
    shutil.copyfile(made, fresh)
    fresh.chmod(mode)
    fresh.replace(place)


def _compatibility(files: Iterable[Path]) -> list[str]:
    """maturin's words for the newest C library that a file asks for.

    maturin looks at the extension module alone, and knows nothing of the libraries beside it.
    """
    if platform.libc_ver()[0] != "glibc":
        return []
    needed = {int(minor) for file in files for minor in _glibc_minors(file)}
    return ["--compatibility", f"manylinux_2_{max(needed | {OLDEST_GLIBC})}"]


def _glibc_minors(file: Path) -> list[bytes]:
    """The minors of glibc in the version table of an ELF file, where names end in NUL."""
    return re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", file.read_bytes())
