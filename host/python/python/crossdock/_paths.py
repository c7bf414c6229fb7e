"""Where the files lie that programs in C and C++ and plugins are built with."""

from __future__ import annotations

import os


def get_include() -> str:
    """The folder for a compiler's `-I`: it has `crossdock/crossdock.h`, `crossdock/crossdock.hpp` and
    `crossdock/plugin.h`.

    A program links with `libcrossdock.so.1`: `get_cmake_dir` says where CMake finds all of it.
    """
    return os.path.join(_root(), "include")


def get_cmake_dir() -> str:
    """The folder of `CrossdockConfig.cmake`: `-DCrossdock_DIR=` it, for `find_package(Crossdock)`.

    `../../pkgconfig` from there has `crossdock.pc`.
    """
    return os.path.join(_root(), "lib", "cmake", "Crossdock")


def _root() -> str:
    """The package of a wheel has the files in it; that of `scripts/install` lies below its prefix."""
    package = os.path.dirname(os.path.abspath(__file__))
    if os.path.isdir(os.path.join(package, "include")):
        return package
    return os.path.normpath(os.path.join(package, *[os.pardir] * 4))
