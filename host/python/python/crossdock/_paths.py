"""Where the files for programs in C lie."""

from __future__ import annotations

import os


def get_include() -> str:
    """The folder for a C compiler's `-I`: it has `crossdock/crossdock.h` and `crossdock/plugin.h`.

    A program links with `libcrossdock.so.1`, which lies beside that folder.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
