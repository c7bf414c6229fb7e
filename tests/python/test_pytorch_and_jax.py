"""What users of PyTorch and JAX do first: every dtype in every layout to each device and back, models, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crossdock as xd
import numpy as np
import pytest
from conftest import Child

BYTES = np.random.default_rng(3).integers(0, 256, 12 * 16, "uint8")
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()
LAYOUTS: dict[str, Any] = {
    "whole": lambda x: x,
    "turned": lambda x: x.T,
    "in steps": lambda x: x[::2, 1::2],
    "repeated": lambda x: x[:1].expand(5, 4),
    "a scalar": lambda x: x[0, 0],
    "nothing": lambda x: x[:0],
    "nothing, turned": lambda x: x[:, :0].T,
    "one element": lambda x: x[:1, :1],
}


def bits(tensor: Any) -> Any:
    return tensor.contiguous().reshape(-1).view(dtype=pytest.importorskip("torch").uint8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_of_pytorch_comes_back_from_each_device_as_it_was(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    raw = torch.from_numpy(BYTES % 2 if dtype == "bool" else BYTES)
    whole = raw[: 12 * torch.empty((), dtype=kind).element_size()].view(kind).reshape(3, 4)
    for name, layout in LAYOUTS.items():
        theirs = layout(whole)
        tensor = xd.from_dlpack(theirs)
        shared = torch.from_dlpack(tensor)
        assert shared.stride() == theirs.stride() and bits(shared).equal(bits(theirs)), name
        assert shared.data_ptr() == theirs.data_ptr() or not theirs.numel(), name
        for device in xd.devices():
            back = torch.from_dlpack(tensor.to(device, copy=True).to("cpu"))
            assert (back.shape, back.dtype) == (theirs.shape, kind), (name, device)
            assert bits(back).equal(bits(theirs)), (name, device)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if "64" not in name and "128" not in name])
def test_an_array_of_jax_comes_back_from_each_device_as_it_was(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    kind = jnp.dtype(dtype)
    raw = BYTES[: 12 * kind.itemsize] % 2 if dtype == "bool" else BYTES[: 12 * kind.itemsize]
    whole = jnp.asarray(raw.view(kind).reshape(3, 4))
    for theirs in (whole, whole[0, 0], whole[:0], whole[:1, :1], whole[:, 1:3]):
        want = np.asarray(theirs).tobytes()
        tensor = xd.from_dlpack(theirs)
        for device in xd.devices():
            back = jnp.from_dlpack(tensor.to(device, copy=True).to("cpu"))
            assert (back.shape, back.dtype) == (theirs.shape, kind), device
            assert np.asarray(back).tobytes() == want, device


def test_pytorch_takes_the_buffer_of_a_tensor_in_asarray_as_it_takes_any() -> None:
    torch = pytest.importorskip("torch")
    array: Any = np.arange(6, dtype="f4").reshape(2, 3)
    tensor = xd.from_dlpack(array)
    assert torch.asarray(memoryview(array)).shape == torch.asarray(tensor).shape == (6,)
    for take in (torch.as_tensor, torch.from_dlpack):
        assert take(tensor).shape == (2, 3) and take(tensor).data_ptr() == tensor.data_ptr()


def test_an_optimiser_of_pytorch_changes_a_model_and_not_its_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "model.safetensors"
    xd.save(file, {"weight": np.ones((3, 4), "f4"), "bias": torch.ones(4, dtype=torch.bfloat16)})
    model = xd.load(file)
    assert isinstance(model, dict) and model["weight"].readonly
    weight = torch.nn.Parameter(torch.from_dlpack(model["weight"]))
    weight.sum().backward()
    torch.optim.SGD([weight], lr=0.5).step()
    torch.from_dlpack(model["bias"]).mul_(3)
    assert (weight.tolist(), model["bias"].tolist()) == ([[0.5] * 4] * 3, [3.0] * 4)
    again = xd.load(file)
    assert isinstance(again, dict)
    assert (again["weight"].tolist(), again["bias"].tolist()) == ([[1.0] * 4] * 3, [1.0] * 4)


@pytest.mark.ends
def test_pytorch_refuses_a_tensor_on_opencl_and_ends_well(child: Child) -> None:
    pytest.importorskip("torch")
    if not any(device.type == "opencl" for device in xd.devices()):
        pytest.skip("no OpenCL device is here")
    done = child(
        """
import crossdock as xd, torch
kept = [xd.ones(3, device="opencl:0", dtype="float32") for _ in range(3)]
for tensor in kept:
    for take in (
        torch.from_dlpack, torch.as_tensor, torch.tensor, torch.utils.dlpack.from_dlpack,
        lambda t: torch.from_dlpack(t, device="cpu"), lambda t: torch.utils.dlpack.from_dlpack(t.__dlpack__()),
    ):
        try:
            take(tensor)
        except (RuntimeError, BufferError, TypeError, ValueError):
            continue
        raise AssertionError(take)
    assert torch.from_dlpack(tensor.to("cpu")).tolist() == tensor.to("cpu").tolist() == [1, 1, 1]
print("end")
"""
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
