"""The build backend: maturin's, after the native files that the package carries were built.

The wheel holds the extension module (maturin's work), and beside it `libcrossdock.so.1`, the plugin
files under `crossdock/plugins`, where the library looks for them, the `crossdock` command, and what
programs and plugins are built with (`scripts/installed_files.py`). Metadata alone is maturin's too,
and builds nothing.
"""

from __future__ import annotations

import os
import sys
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

sys.path.insert(0, str(ROOT / "scripts"))
import installed_files  # noqa: E402


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
    os.environ["CARGO_TARGET_DIR"] = str(installed_files.target_folder())
    built = installed_files.build("release")
    installed_files.put_package(built, PACKAGE)
    settings = dict(config_settings or {})
    if "build-args" not in settings and "MATURIN_PEP517_ARGS" not in os.environ:
        names = [installed_files.LIBRARY, installed_files.COMMAND, installed_files.MODULE, *installed_files.PLUGIN_FILES]
        settings["build-args"] = ["--locked", *_compatibility(built / name for name in names)]
    return settings


def _compatibility(files: Iterable[Path]) -> list[str]:
    """maturin's words for the newest C library that a file asks for.

    maturin looks at the extension module alone, and knows nothing of the libraries beside it.
    """
    minor = installed_files.oldest_glibc(files)
    return [] if minor is None else ["--compatibility", f"manylinux_2_{minor}"]
