"""Dtypes of tensors for NumPy of each generation: 1.26 and 2.2 warn of what 2.3 refuses, and 2.4 has a protocol.

`scripts/python-matrix --fetch` installs these versions into `.cache/numpy`, one folder each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import crossdock as xd
import pytest

CACHE = Path(__file__).parents[2] / ".cache/numpy"
VERSIONS = ("1.26.4", "2.2.6", "2.3.5", "2.4.6")

PROGRAM = """
import sys
import numpy as np
import crossdock as xd

kind, xnd = np.dtype("float32"), np.arange(3, dtype="f4")
tensor, numbers = xd.asarray(xnd), xd.asarray([1, 2])
assert np.result_type(tensor) == np.dtype(tensor.dtype) == np.dtype(xd.float32) == kind
assert np.result_type(tensor, numbers) == np.result_type(numbers, np.zeros(2)) == np.dtype("float64")
assert np.can_cast(tensor, "f8") and not np.can_cast(tensor, "i4")
assert np.zeros(2, xd.float32).dtype == np.empty(2, tensor.dtype).dtype == kind
# Every other function takes tensors as before.
assert np.concatenate([tensor, xnd]).tolist() == [0, 1, 2, 0, 1, 2]
assert np.sum(tensor) == 3 and np.array_equal(tensor, xnd) and np.zeros_like(tensor).shape == (3,)
# No library takes a tensor for an array with all functions of NumPy's.
assert not hasattr(tensor, "__array_function__")
for name in ("float4_e2m1fn", "int4"):
    try:
        np.result_type(xd.zeros(1, dtype=name))
    except (TypeError, ValueError):
        continue
    raise AssertionError(name)
try:
    import jax.numpy as jnp
except ImportError as error:
    print(f"skipped: jax: {error}")
else:
    for make in (jnp.asarray, jnp.array, jnp.zeros_like):
        assert make(tensor).dtype == kind and make(tensor).shape == (3,)
print("NumPy", np.__version__)
"""


def check(path: str, version: str) -> None:
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"NumPy {version}" in ended.stdout
    print(ended.stdout)


PACKAGE = str(Path(xd.__file__).parents[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_numpy_gets_the_dtype_of_a_tensor(version: str) -> None:
    folder = CACHE / version
    if not (folder / "numpy").exists():
        pytest.skip(f"skipped: NumPy {version} is not in .cache/numpy (scripts/python-matrix --fetch)")
    check(f"{folder}:{PACKAGE}", version)


def test_this_numpy_gets_the_dtype_of_a_tensor() -> None:
    import numpy as np

    check(PACKAGE, np.__version__)
