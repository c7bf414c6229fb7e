"""The hook of PyInstaller: the wheel's entry point `pyinstaller40` names `get_hook_dirs`."""

from __future__ import annotations

import os


def get_hook_dirs() -> list[str]:
    """Returns the folder that has the hook."""
    return [os.path.dirname(__file__)]
