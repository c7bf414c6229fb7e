"""What is installed of Crossdock, and how: for scripts/install, scripts/python-package and the wheel."""

import json
import os
import platform
import re
import shutil
import struct
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "host/capi/install"
PYTHON = ROOT / "host/python/python/crossdock"

LIBRARY = "libcrossdock_capi.so"
LIBRARY_NAME = "libcrossdock.so.1"
STATIC_LIBRARY = "libcrossdock_capi.a"
COMMAND = "crossdock"
MODULE = "lib_crossdock.so"
MODULE_NAME = "_crossdock.abi3.so"
# The CPU's is built in.
PLUGINS = ["cuda", "opencl", "rocm"]
PLUGIN_FILES = [f"libcrossdock_plugin_{name}.so" for name in PLUGINS]
CRATES = ["capi", "cli", "python", *(f"plugin-{name}" for name in PLUGINS)]

FILE, PROGRAM = 0o644, 0o755
# The oldest C library that Rust's own standard library runs on (its platform support page).
OLDEST_GLIBC = 17


def workspace() -> dict[str, Any]:
    """The root manifest's part that crates share."""
    shared: dict[str, Any] = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    return shared


def version() -> str:
    """The version of everything here."""
    return str(workspace()["package"]["version"])


def target_folder() -> Path:
    """Where cargo builds: only cargo knows, because configuration files can say it too."""
    if not shutil.which("cargo"):
        return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return Path(json.loads(answer)["target_directory"])


def build(profile: str, *options: str, crates: Iterable[str] = CRATES) -> Path:
    """Builds what is installed; the folder where it lies."""
    packages = [word for crate in crates for word in ("-p", f"crossdock-{crate}")]
    command = ["cargo", "build", "--locked", "--profile", profile, *options, *packages]
    # The build of cudarc would take its version of CUDA from there, and not from the manifest.
    variables = {name: value for name, value in os.environ.items() if name != "CUDARC_CUDA_VERSION"}
    subprocess.run(command, cwd=ROOT, check=True, env=variables)
    return built_folder(profile)


def built_folder(profile: str) -> Path:
    """Where a build of this profile lies."""
    return target_folder() / ("debug" if profile == "dev" else profile)


def oldest_glibc(files: Iterable[Path]) -> int | None:
    """The minor version of the oldest glibc 2 that all of these files run on; nothing for another C library."""
    if platform.libc_ver()[0] != "glibc":
        return None
    # In the version table of an ELF file names end in NUL.
    named = (re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", file.read_bytes()) for file in files)
    return max({int(minor) for minors in named for minor in minors} | {OLDEST_GLIBC})


def put(made: Path, place: Path, mode: int) -> None:
    """Puts a copy in place by rename: a process may have the old file mapped."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(place.name + ".new")
    shutil.copyfile(made, fresh)
    fresh.chmod(mode)
    fresh.replace(place)


def put_text(text: str, place: Path) -> None:
    """Writes a file that everybody may read."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(FILE)


def put_folder(folder: Path, place: Path) -> None:
    """Copies all files of a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            put(file, place / file.relative_to(folder), FILE)


def put_python(folder: Path) -> None:
    """The package's own files, without what builds left beside them."""
    for pattern in ("*.py", "*/*.py", "*.pyi", "py.typed"):
        for file in PYTHON.glob(pattern):
            put(file, folder / file.relative_to(PYTHON), FILE)


def put_package(built: Path, folder: Path) -> None:
    """The package's native files, and what programs and plugins are built with."""
    put(built / LIBRARY, folder / LIBRARY_NAME, PROGRAM)
    put(built / COMMAND, folder / "command", PROGRAM)
    put_plugins(built, folder / "crossdock/plugins")
    # What an older version had there would be found too.
    for name in ("include", "lib", "share"):
        shutil.rmtree(folder / name, ignore_errors=True)
    # Wheels keep no links, so the library has one name here, and linkers are told that one.
    put_development_files(folder, libdir="${prefix}", library=f"-l:{LIBRARY_NAME}")


def put_plugins(built: Path, folder: Path) -> None:
    """The plugin files, which nobody else may write to."""
    for name in PLUGIN_FILES:
        put(built / name, folder / name, PROGRAM)


def put_development_files(
    root: Path, libdir: str, library: str, native: Iterable[str] = ()
) -> None:
    """Headers, the CMake package, the files of pkg-config and the sdk.

    `native` are the libraries that a static one needs, where there is one.
    """
    native = list(native)
    for folder in ("host/capi/include", "sdk/include"):
        put_folder(ROOT / folder, root / "include")
    words = {
        "VERSION": version(),
        "MAJOR": version().split(".")[0],
        "POINTER_BYTES": str(struct.calcsize("P")),
        "NATIVE_LIBRARIES": ";".join(native),
        "LIBDIR": libdir,
    }
    cmake = ["CrossdockConfig.cmake", "CrossdockConfigVersion.cmake"]
    for name in cmake + ["CrossdockStaticTarget.cmake"] * bool(native):
        put_text(filled(name, words), root / "lib/cmake/Crossdock" / name)
    flags = " ".join(f"-l{name}" for name in native)
    pc = {"crossdock": (library, flags)}
    if native:
        # `pkg-config --static` lists what a static library needs, and linkers take the shared one
        # all the same where both lie in a folder.
        pc["crossdock-static"] = (f"-l:libcrossdock.a {flags}", "")
    for name, (libs, private) in pc.items():
        more = {"NAME": name, "LIBS": libs, "PRIVATE": private}
        put_text(filled("crossdock.pc", words | more), root / f"lib/pkgconfig/{name}.pc")
    put_sdk(root / "share/crossdock/sdk")


def filled(name: str, words: dict[str, str]) -> str:
    """A template with its words."""
    text = (TEMPLATES / name).read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def put_sdk(folder: Path) -> None:
    """The crate of plugins in Rust, which builds by its path from any other package."""
    for name in ("src", "include"):
        put_folder(ROOT / "sdk" / name, folder / name)
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        put(ROOT / name, folder / name, FILE)
    put_text(sdk_manifest(), folder / "Cargo.toml")


def sdk_manifest() -> str:
    """The sdk's manifest with the workspace's values in it, and without what tests alone need."""
    shared = workspace()
    own = tomllib.loads((ROOT / "sdk/Cargo.toml").read_text())
    package = {key: inherited(value, shared["package"][key]) if isinstance(value, dict) else value
               for key, value in own["package"].items()}
    dependencies = {name: inherited(spec, shared["dependencies"][name])
                    for name, spec in own["dependencies"].items()}
    # Else every build of a plugin would be told of a `cfg` that tests set.
    lints = {"unexpected_cfgs": shared["lints"]["rust"]["unexpected_cfgs"]}
    tables = {"package": package, "dependencies": dependencies, "lints.rust": lints}
    parts = ["# Made by Crossdock's installation from sdk/Cargo.toml.\n"]
    for name, table in tables.items():
        parts += [f"\n[{name}]\n", *(f"{key} = {toml(value)}\n" for key, value in table.items())]
    return "".join(parts)


def inherited(spec: dict[str, Any], shared: Any) -> Any:
    """What a crate says of something that it takes from the workspace, in full."""
    more = {key: value for key, value in spec.items() if key != "workspace"}
    if not more:
        return shared
    base = {"version": shared} if isinstance(shared, str) else shared
    features = [*base.get("features", []), *more.pop("features", [])]
    return base | more | ({"features": features} if features else {})


def toml(value: Any) -> str:
    """A value as a manifest has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
