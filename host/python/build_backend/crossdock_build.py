"""The build backend: maturin's, after the native files that the package carries were built.

The wheel holds the extension module (maturin's work), and beside it `libcrossdock.so.1`, the plugin
files under `crossdock/plugins`, where the library looks for them, and the `crossdock` command.
"""

import os
import shutil
import subprocess
from pathlib import Path

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

# The file that cargo makes, and where it lies in the package.
CRATES = ["crossdock-capi", "crossdock-cli", "crossdock-plugin-opencl"]
FILES = {
    "libcrossdock_capi.so": "libcrossdock.so.1",
    "crossdock": "command",
    "libcrossdock_plugin_opencl.so": "crossdock/plugins/libcrossdock_plugin_opencl.so",
}


def put_native_files(package: Path, profile: str = "release") -> None:
    """Builds the native files and copies them into the folder of the package."""
    command = ["cargo", "build", "--locked", "--profile", profile]
    for crate in CRATES:
        command += ["-p", crate]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / ("debug" if profile == "dev" else profile)
    for made, name in FILES.items():
        place = package / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # Replaced by rename: a process may have the old file mapped.
        fresh = place.with_name(place.name + ".new")
        shutil.copy2(built / made, fresh)
        fresh.chmod(0o755)
        fresh.replace(place)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    put_native_files(PACKAGE)
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    put_native_files(PACKAGE)
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit(
        "crossdock is built from a checkout: pip install ./host/python, or pip wheel ./host/python"
    )
