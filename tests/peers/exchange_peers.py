"""The other sides of the exchange benchmark: packages that are installed, and code built for it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
HEADERS = ROOT / "host/capi/include/crossdock"


def skipped(title: str, why: str) -> None:
    """A line that says so, which `scripts/bench-table` repeats."""
    print(f"skip\t{title}\t{why}", flush=True)


def optional(name: str, title: str) -> Any:
    """The module, or `None` and a line that it was skipped."""
    try:
        return importlib.import_module(name)
    except ImportError:
        skipped(title, "not installed")
        return None


def built(name: str, sources: list[pathlib.Path], *options: str) -> Any:
    """The extension module of this name, built where it is not there yet, or `None`."""
    compiler = ["c++", "-std=c++17"] if sources[0].suffix == ".cpp" else ["cc"]
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{HEADERS}"]
    command = [*compiler, "-O2", "-shared", "-fPIC", *include, *options, *map(str, sources)]
    key = "\0".join([sys.version, *command, *(source.read_text() for source in sources)])
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "peers"
    file = folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run([*command, "-o", str(half)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            skipped(sources[0].name, f"not built: {error}")
            return None
        half.rename(file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # It stays as long as objects of its types do.
    sys.modules[name] = module
    return module


def nanobind_peer() -> Any:
    """An extension made with nanobind, or `None`."""
    nanobind = optional("nanobind", "nanobind")
    if nanobind is None:
        return None
    source, include = pathlib.Path(nanobind.source_dir()), nanobind.include_dir()
    robin = source.parent / "ext/robin_map/include"
    options = (f"-I{include}", f"-I{robin}", "-fvisibility=hidden", "-fno-strict-aliasing")
    sources = [HERE / "nanobind_peer.cpp", source / "nb_combined.cpp"]
    return built("nanobind_peer", sources, "-DNDEBUG", *options)


@dataclass
class Peers:
    """Who takes tensors, 64 x 64 floats of each, and those whose types have an exchange table."""

    takers: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    givers: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, take: Callable[[Any], Any], given: Any) -> None:
        """Both a taker and a giver."""
        self.takers[name], self.givers[name] = take, given


def peers(numpy: Any, ours: Any) -> Peers:
    """All that are here, ours first."""
    import crossdock

    found = Peers()
    found.add("crossdock", crossdock.from_dlpack, ours)
    found.tables["crossdock"] = ours
    found.add("numpy", numpy.from_dlpack, numpy.zeros((64, 64), numpy.float32))
    if torch := optional("torch", "PyTorch"):
        found.add("torch", torch.from_dlpack, torch.zeros(64, 64))
        found.tables["torch"] = found.givers["torch"]
    if tvm := optional("tvm_ffi", "tvm-ffi"):
        found.add("tvm-ffi", tvm.from_dlpack, tvm.from_dlpack(numpy.zeros((64, 64), numpy.float32)))
        # Its own tensors publish no table, only this does.
        found.tables["tvm-ffi"] = tvm.core.DLTensorTestWrapper(found.givers["tvm-ffi"])
    if jax := optional("jax", "JAX"):
        found.add("jax", jax.dlpack.from_dlpack, jax.numpy.zeros((64, 64), jax.numpy.float32))
    if nanobind := nanobind_peer():
        found.add("nanobind", nanobind.take, nanobind.give())
    if floor := built("floor", [HERE / "floor.c"]):
        found.add("floor", floor.take, floor.Array())
    return found
