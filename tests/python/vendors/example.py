"""What is around the example of docs/rocm.md, and looks at what it made."""

from __future__ import annotations

import ctypes

import numpy as np
from hip import hip as _hip

values = np.arange(4096, dtype=np.float32)
_, target = _hip.hipHostMalloc(values.nbytes, 0)
# The example.
hip.hipStreamSynchronize(reading)  # noqa: F821
found = np.ctypeslib.as_array((ctypes.c_float * values.size).from_address(int(target)))
assert (found == values).all()
