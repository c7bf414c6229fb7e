"""PyTorch and JAX inside `crossdock run`: the second tier, skipped where they are not installed.

`scripts/test --peers` runs it where both are; by hand, with any Python that has pytest and NumPy beside
them: `PYTHONPATH=target/python PYTHON -m pytest tests/python/test_run_frameworks.py`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from pythons import inside, usable

# Both ways by the same memory, whatever is freed first; and a tensor that Python does not end before.
TORCH = """
import builtins, crossdock as xd, torch
for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
    theirs = torch.arange(6).to(dtype).reshape(2, 3)
    ours = xd.from_dlpack(theirs.T[1:])
    assert ours.data_ptr() == theirs.data_ptr() + theirs.element_size()
    assert ours.shape == (2, 2) and ours.strides == (1, 3), ours.strides
    again = torch.from_dlpack(ours)
    assert again.data_ptr() == ours.data_ptr() and again.dtype == dtype
    again[0, 1] = 1
    assert theirs[1, 1] == 1 and ours[0, 1].item() == 1
    del theirs, again
    assert torch.from_dlpack(ours)[0, 1] == 1
ours = xd.zeros((4, 4), dtype="float32", device="cpu")
weights = torch.from_dlpack(ours).requires_grad_()
(weights @ torch.eye(4)).sum().backward()
xd.from_dlpack(weights.grad)[0, 0] = 5.0
assert weights.grad[0, 0] == 5 and torch.from_dlpack(xd.asarray(3.5)).item() == 3.5
builtins.kept = ours, weights, xd.from_dlpack(torch.ones(4))
arrays = torch.rand(64, 33), torch.arange(5), torch.rand(8, 6).T[1:], torch.ones(7).bfloat16()
pointer, give = torch.Tensor.data_ptr, torch.from_dlpack
"""

# Its arrays are read-only, so those come back to it as copies.
JAX = """
import crossdock as xd, jax, jax.numpy as jnp
theirs = jnp.arange(12, dtype="float32").reshape(3, 4)
ours = xd.from_dlpack(theirs)
assert ours.data_ptr() == theirs.unsafe_buffer_pointer()
made = xd.full((3, 4), 2, dtype="float32", device="cpu")
there = jax.dlpack.from_dlpack(made)
assert there.unsafe_buffer_pointer() == made.data_ptr() or made.data_ptr() % 64
assert jax.jit(lambda a, b: (a * b).sum())(there, theirs) == 132
assert jax.grad(lambda a: (a * a).sum())(there)[1, 1] == 4
del theirs, made
assert ours[2, 3].item() == 11 and there[0, 0] == 2
arrays = jnp.ones((64, 33)), jnp.arange(5), jnp.ones(7, "bfloat16")
pointer, give = lambda array: array.unsafe_buffer_pointer(), jax.dlpack.from_dlpack
"""

DEVICES = """
for device in xd.devices():
    for theirs in arrays:
        there = xd.from_dlpack(theirs).to(device, copy=True)
        assert there.device == device and there.data_ptr() != pointer(theirs)
        back = give(there.to("cpu"))
        assert (back == theirs).all() and back.dtype == theirs.dtype
print(len(xd.devices()), "devices")
"""

TOGETHER = """
import crossdock as xd, jax.numpy as jnp, numpy as np, torch
first = torch.arange(8, dtype=torch.float32)
second = xd.from_dlpack(np.from_dlpack(xd.from_dlpack(jnp.from_dlpack(xd.from_dlpack(first)))))
assert second.data_ptr() == first.data_ptr()
first[3] = 30
assert second.tolist() == [0, 1, 2, 30, 4, 5, 6, 7]
"""

# The processes of a loader are forks of a program that has devices open; they need none.
LOADER = """
import crossdock as xd, torch
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.full((2,), float(index))

opened = xd.zeros((2,), device=xd.devices()[-1])
total = sum(xd.from_dlpack(batch)[0, 1].item() for batch in DataLoader(Numbers(), num_workers=2))
assert total == 6 and opened.to("cpu").tolist() == [0, 0]
"""


def script(folder: Path, text: str, *modules: str) -> str:
    """Runs a program which needs these modules, and gives what it said."""
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    (folder / "script.py").write_text(text)
    done = inside(usable("venv"), folder / "script.py")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_pytorch_shares_memory_with_a_run_and_moves_to_every_device(tmp_path: Path) -> None:
    assert "devices" in script(tmp_path, TORCH + DEVICES, "torch")


def test_jax_shares_memory_with_a_run_and_moves_to_every_device(tmp_path: Path) -> None:
    assert "devices" in script(tmp_path, JAX + DEVICES, "jax")


def test_pytorch_jax_and_numpy_share_one_memory_in_a_run(tmp_path: Path) -> None:
    script(tmp_path, TOGETHER, "torch", "jax")


@pytest.mark.ends
def test_the_processes_of_a_loader_leave_the_devices_of_a_run_alone(tmp_path: Path) -> None:
    script(tmp_path, LOADER, "torch")
