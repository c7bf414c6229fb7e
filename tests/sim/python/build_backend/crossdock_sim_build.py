"""The build backend: needs cargo and the C linker that Rust needs, and no package.

The wheel holds the package `crossdock_sim`, and in its `lib` the simulator's core and the shells that programs open.
`CROSSDOCK_SIM_LIBRARY` names a core that is built already, for tests.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "scripts"), str(HERE)]
import installed_files  # noqa: E402

from crossdock_sim import libraries  # noqa: E402

PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
# HIP 5 is for programs of this tree, which make its shell themselves.
SHELLS = [libraries.CUDA, libraries.HIP["6"], libraries.HIP["7"]]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The hook of PEP 517."""
    with tempfile.TemporaryDirectory() as made:
        native = _native_files(Path(made))
        tag = f"py3-none-{_platform(native)}"
        contents = _contents(native, tag)
    name = f"crossdock_sim-{installed_files.version()}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in contents.items():
            entry = zipfile.ZipInfo(path)
            mode = installed_files.PROGRAM if "/lib/" in path else installed_files.FILE
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Refused: the package is a part of a workspace, and its folder alone cannot be built."""
    raise SystemExit("crossdock-sim is built from a checkout: pip wheel ./tests/sim/python")


def _native_files(folder: Path) -> list[Path]:
    """The core and the shells, made in a folder."""
    named = os.environ.get("CROSSDOCK_SIM_LIBRARY")
    built = Path(named) if named else installed_files.build("release", crates=["sim"]) / libraries.CORE
    core = folder / libraries.CORE
    installed_files.put(built, core, installed_files.PROGRAM)
    # Symbols that nobody looks for by name are left out, where the tools of the linker are at hand.
    try:
        subprocess.run(["strip", "--strip-unneeded", str(core)], check=True)
    except FileNotFoundError:
        pass
    for name in SHELLS:
        libraries.make_shell(folder, name)
    return [core, *(folder / name for name in SHELLS)]


def _platform(files: list[Path]) -> str:
    """The tag of a system on which all files run."""
    machine = platform.machine()
    minor = installed_files.oldest_glibc(files)
    return f"linux_{machine}" if minor is None else f"manylinux_2_{minor}_{machine}"


def _contents(native: list[Path], tag: str) -> dict[str, bytes]:
    """The files of the wheel."""
    package = sorted(path for path in (HERE / "crossdock_sim").iterdir() if path.suffix == ".py" or path.name == "py.typed")
    contents = {f"crossdock_sim/{path.name}": path.read_bytes() for path in package}
    contents |= {f"crossdock_sim/lib/{path.name}": path.read_bytes() for path in native}
    info = f"crossdock_sim-{installed_files.version()}.dist-info"
    contents[f"{info}/METADATA"] = _metadata().encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: crossdock\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    contents[f"{info}/entry_points.txt"] = _entry_points().encode()
    for name in PROJECT["license-files"]:
        contents[f"{info}/licenses/{name}"] = (HERE / name).read_bytes()
    lines = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    return contents


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _metadata() -> str:
    """Version 2.4 of the core metadata."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {PROJECT['name']}",
        f"Version: {installed_files.version()}",
        f"Summary: {PROJECT['description']}",
        f"License-Expression: {PROJECT['license']}",
        *(f"License-File: {name}" for name in PROJECT["license-files"]),
        *(f"Classifier: {name}" for name in PROJECT["classifiers"]),
        f"Requires-Python: {PROJECT['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE / PROJECT["readme"]).read_text()


def _entry_points() -> str:
    groups = {"console_scripts": PROJECT["scripts"], **PROJECT.get("entry-points", {})}
    parts = [f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items()) for group, names in groups.items()]
    return "\n".join(parts)
