"""Elements of less than a byte that lie packed, with the libraries that have them too."""

from __future__ import annotations

import crossdock as xd
import ml_dtypes
import numpy as np
import pytest

VALUES = (np.arange(24) % 7).reshape(4, 6).astype(ml_dtypes.float4_e2m1fn)


def test_packed_float4_of_jax_comes_in_shared() -> None:
    jax = pytest.importorskip("jax")
    given = jax.device_put(VALUES)
    tensor = xd.from_dlpack(given)
    assert (str(tensor.dtype), tensor.shape, tensor.nbytes) == ("float4_e2m1fn", (4, 6), 12)
    assert tensor.data_ptr() == given.unsafe_buffer_pointer()
    assert tensor.tolist() == VALUES.tolist()


def test_pairs_of_float4_are_shared_with_pytorch_both_ways() -> None:
    torch = pytest.importorskip("torch")
    pairs = torch.arange(24, dtype=torch.uint8).reshape(4, 6)
    tensor = xd.from_dlpack(pairs.view(torch.float4_e2m1fn_x2))
    assert (str(tensor.dtype), tensor.shape, tensor.nbytes) == ("float4_e2m1fnx2", (4, 6), 24)
    assert tensor.data_ptr() == pairs.data_ptr()
    taken = torch.from_dlpack(tensor)
    assert (taken.dtype, taken.data_ptr()) == (torch.float4_e2m1fn_x2, pairs.data_ptr())


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4", "float4_e2m1fn"])
def test_single_elements_are_refused_by_pytorch_and_not_misread(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = xd.asarray(np.zeros((4, 6), getattr(ml_dtypes, dtype)))
    with pytest.raises(BufferError):
        torch.from_dlpack(tensor)
