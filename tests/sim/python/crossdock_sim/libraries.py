"""The libraries that programs open: shells with the vendors' names, which need the simulator's core.

    python3 libraries.py FOLDER CORE WORDS

puts those that the words of `CROSSDOCK_SIM` ask for into a folder, made by the C compiler: for `scripts/with-sim`. It
prints the folder's path. If FOLDER is empty, it makes a new temporary one. The wheel has the libraries ready-made in
`lib`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORE = "libcrossdock_sim.so"
CUDA = "libcuda.so.1"
# AMD's library has the major version in its name.
HIP = {major: f"libamdhip64.so.{major}" for major in ("5", "6", "7")}
NEWEST_HIP = "7"
# A program that opens a shell leaves the file `OPENED`: where there is none, nobody used a simulated driver.
OPENED = "opened"
SHELL = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_a_trace(void) {
    char path[4096];
    const char *folder = getenv("CROSSDOCK_SIM_DIR");
    if (folder && snprintf(path, sizeof path, "%s/NAME", folder) < (int)sizeof path) {
        int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (file >= 0)
            close(file);
    }
}
""".replace("NAME", OPENED)
# The versions that AMD's library has on its functions, which programs that were linked to it look for. A shell has the
# versions, and no function.
HIP_NODES = [
    f"hip_{version}"
    for version in "4.2 4.3 4.4 4.5 5.0 5.1 5.2 5.3 5.5 5.6 6.0 6.1 6.2 6.3 6.5 7.0".split()
]
READY = Path(__file__).resolve().parent / "lib"


def words_of(text: str) -> dict[str, str]:
    """What `CROSSDOCK_SIM` says, word by word."""
    pairs = (word.strip().partition("=") for word in text.split(";") if word.strip())
    return {name: value for name, _, value in pairs}


def text_of(words: dict[str, str]) -> str:
    """The same as `CROSSDOCK_SIM` has it."""
    return ";".join(f"{name}={value}" for name, value in words.items())


def wanted(words: dict[str, str]) -> list[str]:
    """The shells that these words ask for: CUDA's alone where nothing is said."""
    cuda = [CUDA] if "cuda" in words or "rocm" not in words else []
    major = words.get("hip", NEWEST_HIP).partition(".")[0]
    return cuda + ([HIP.get(major, f"libamdhip64.so.{major}")] if "rocm" in words else [])


def new_folder() -> Path:
    """Makes a temporary folder that a loader's search path can name: it splits at `:` and `;`, and `$` is special."""
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        parent = os.path.realpath(parent)
        if not set(parent) & set(":;$") and os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="crossdock-sim-", dir=parent))
    raise SystemExit("crossdock-sim: no folder for the libraries: set TMPDIR to a path without `:`, `;` and `$`")


def make_shell(folder: Path, name: str) -> None:
    """Makes a shell next to the core, by the C compiler."""
    options = [f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-L.", "-lcrossdock_sim", "-Wl,-rpath,$ORIGIN"]
    if name != CUDA:
        (folder / "hip.map").write_text("".join(f"{node} {{}};\n" for node in HIP_NODES))
        options.append("-Wl,--version-script=hip.map")
    command = ["cc", "-shared", "-fPIC", "-o", name, "-x", "c", "-", *options]
    # In the folder itself, because compilers misread some paths.
    subprocess.run(command, check=True, input=SHELL, text=True, cwd=folder)


def without(core: bytes, names: list[str]) -> bytes:
    """The core without functions: their symbols get another first letter, so that the loader does not find them."""
    for name in filter(None, names):
        core = core.replace(b"\0" + name.encode() + b"\0", b"\0_" + name[1:].encode() + b"\0")
    return core


def put(folder: Path, core: Path, words: dict[str, str]) -> None:
    """Puts the core and what programs open into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = words.get("missing", "").split(",")
    (folder / CORE).write_bytes(without(core.read_bytes(), missing))
    for name in wanted(words):
        ready = READY / name
        if ready.is_file():
            shutil.copyfile(ready, folder / name)
        else:
            make_shell(folder, name)
        link = folder / (name.partition(".so.")[0] + ".so")
        link.unlink(missing_ok=True)
        link.symlink_to(name)


def main(folder: str, core: str, words: str) -> None:
    """For `scripts/with-sim`."""
    path = Path(folder) if folder else new_folder()
    try:
        put(path, Path(core), words_of(words))
    except BaseException:
        if not folder:
            shutil.rmtree(path, ignore_errors=True)
        raise
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
