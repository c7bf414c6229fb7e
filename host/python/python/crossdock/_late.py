"""What of other packages is loaded where it is needed for the first time, and before a fork at the latest.

A child that is forked off while another thread loads a module finds the lock of that module held for ever:
Python takes care of its own lock of all imports only. Who forks loads them too, so it waits for that thread.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

# What the functions of this package import of Python's.
OF_PYTHON = (
    "contextvars", "ctypes", "io", "json", "mmap", "numbers", "operator", "pickle", "weakref", "zipfile",
)  # fmt: skip
# What those load late: names in archives are decoded.
OF_THOSE = ("encodings.cp437",)
# Packages that need not be here: only one that somebody has begun to load is waited for.
OF_OTHERS = ("ml_dtypes", "numpy")


def load() -> None:
    """Loads all of it."""
    # `None` there says that the package must not be imported.
    others = (one for one in OF_OTHERS if sys.modules.get(one) is not None)
    for name in (*OF_PYTHON, *OF_THOSE, *others):
        import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=load)
