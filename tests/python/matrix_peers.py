"""The second tier of the interchange matrix: PyTorch and JAX, where they are installed.

`scripts/setup --peers` makes an environment that has JAX, and sees PyTorch.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import crossdock as xd
import numpy as np

BOTH = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPYS = [*BOTH, "float16", "float32", "float64", "complex64", "complex128"]
# What PyTorch knows of the floats that NumPy does not; JAX knows them all.
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
SMALL += ["float8_e8m0fnu"]
MORE = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"]
# What JAX takes without a copy.
ALIGNED = 64


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def peers(partner: Callable[..., Any]) -> Iterator[Any]:
    """Those that are here, each made by the class of the matrix."""
    if is_installed("torch"):
        yield of_pytorch(partner, importlib.import_module("torch"))
    if is_installed("jax"):
        yield of_jax(partner, importlib.import_module("jax"))


def of_pytorch(partner: Callable[..., Any], torch: Any) -> Any:
    """Its tensors view NumPy's memory, under words of the same size where NumPy lacks the dtype."""
    def give(x: Any) -> Any:
        with warnings.catch_warnings():
            # It cannot say that memory is read-only, and warns.
            warnings.simplefilter("ignore")
            if x.dtype.name in NUMPYS:
                return torch.from_numpy(x)
            words = torch.from_numpy(x.view(f"u{x.dtype.itemsize}"))
            return words.view(getattr(torch, x.dtype.name))

    def look(x: Any, like: Any) -> Any:
        if like.dtype.name in NUMPYS:
            return x.numpy()
        size = like.dtype.itemsize
        return x.view(getattr(torch, f"uint{8 * size}")).numpy().view(like.dtype)

    # NumPy exports nothing that it does not know itself, so `asarray` takes its arrays in.
    return partner("PyTorch", [*NUMPYS, *SMALL], give, torch.from_dlpack, look, xd.asarray)


def of_jax(partner: Callable[..., Any], jax: Any) -> Any:
    """Its arrays are compact and read-only, and it asks for the struct of DLPack 0.x."""
    jax.config.update("jax_enable_x64", True)

    def look(x: Any, like: Any) -> Any:
        seen = np.asarray(x)
        address = x.unsafe_buffer_pointer()
        if like.size == 0 or seen.ctypes.data == address:
            return seen
        # NumPy gets a copy of what lies in the order of Fortran.
        memory = (ctypes.c_uint8 * like.nbytes).from_address(address)
        seen = np.ndarray(like.shape[::-1], like.dtype, memory).T
        seen.flags.writeable = False
        return seen

    def promise(way: str, dtype: str, layout: str) -> str:
        if way == "out of" and layout in ("strided", "read-only"):
            return "refused"
        # The one element lies eight behind an aligned address.
        eight = 8 * np.dtype(getattr(np, dtype, f"u{2 if dtype == 'bfloat16' else 1}")).itemsize
        is_copied = way == "out of" and layout == "0-d" and eight % ALIGNED
        return "copied" if is_copied else "shared"

    dtypes = [*NUMPYS, *SMALL, *MORE]
    take = jax.dlpack.from_dlpack
    return partner("JAX", dtypes, jax.device_put, take, look, xd.asarray, promised=promise)
