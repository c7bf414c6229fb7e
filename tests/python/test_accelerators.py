"""The plugin that the tests of CUDA's and ROCm's rules stand on does what they rely on."""

from __future__ import annotations

from typing import Any

import crossdock as xd
import numpy as np
import pytest
from accelerators import DEVICE, MANAGED, NAMES, PINNED, Accelerators
from liars import forge

CUDA, CUDA_HOST, CUDA_MANAGED, ROCM = 2, 3, 13, 10


def test_its_devices_are_there_in_the_order_that_they_claim(accelerators: Accelerators) -> None:
    here = [str(device) for device in xd.devices()]
    assert [name for name in here if name in NAMES] == NAMES
    assert xd.device((CUDA, 2)) == xd.device("cuda:2")


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_goes_there_and_back(accelerators: Accelerators, name: str) -> None:
    array = np.arange(16, dtype=np.float32)
    there = xd.from_dlpack(array).to(name)
    assert str(there.device) == name
    assert np.array_equal(np.from_dlpack(there.to("cpu")), array)
    kinds = [line.split()[0] for line in accelerators.log()]
    assert kinds.count("copy") == 2 and kinds[0] == "allocate"


def test_its_memory_is_given_back(accelerators: Accelerators) -> None:
    there = xd.from_dlpack(np.zeros(16, np.uint8)).to("cuda:1")
    accelerators.log()
    del there
    assert accelerators.log() == ["free cuda:1 16"]


@pytest.mark.parametrize(
    ("kind", "claimed", "name"),
    [
        (DEVICE, CUDA, "device"),
        (PINNED, CUDA_HOST, "pinned"),
        (MANAGED, CUDA_MANAGED, "managed"),
    ],
)
def test_memory_of_others_keeps_its_kind(
    accelerators: Accelerators, kind: int, claimed: int, name: str
) -> None:
    """Bug 23, rule 89: a pointer query tells what it is, and what the host reads is the host's."""
    address = accelerators.make("cuda:0", kind)
    forged = forge(data=address, device=(claimed, 0))
    tensor = xd.from_dlpack(forged.producer())
    assert (tensor.__dlpack_device__(), tensor.data_ptr()) == ((claimed, 0), address)
    info = xd.pointer_info(address)
    assert (info.kind, info.managed, str(info.device)) == (name, name == "managed", "cuda:0")
    is_shared = kind != DEVICE
    assert (info.host_pointer == address) == is_shared
    if is_shared:
        tensor[0, 0] = 5
        assert tensor.tolist()[0][0] == 5
    del tensor
    assert forged.released()


@pytest.mark.parametrize("name", ["cuda:0", "cuda:2"])
def test_managed_memory_is_ready_on_the_stream_of_its_own_device(
    accelerators: Accelerators, name: str
) -> None:
    """DLPack numbers no managed memory, so that its pair says nothing of the streams."""
    address = accelerators.make(name, MANAGED)
    forged = forge(data=address, device=(CUDA_MANAGED, 0))
    accelerators.log()
    tensor = xd.from_dlpack(forged.producer())
    streams = {line.split()[1] for line in accelerators.waits()}
    assert str(tensor.device) == name and streams == {f"{name}/0"}


def test_an_id_other_than_the_first_is_kept(accelerators: Accelerators) -> None:
    """Bug 22: the device id is neither hard-coded nor the current device's."""
    forged = forge(data=accelerators.make("cuda:2"), device=(CUDA, 2))
    tensor = xd.from_dlpack(forged.producer())
    assert str(tensor.device) == "cuda:2"
    assert tensor.__dlpack_device__() == (CUDA, 2)


@pytest.mark.parametrize("by", ["the producer", "the driver"])
def test_an_id_that_the_pointer_denies_is_not_believed(accelerators: Accelerators, by: str) -> None:
    """Rule 72: where pointer and producer disagree, the pointer counts, or nothing is taken."""
    stated = 0 if by == "the producer" else 1
    forged = forge(data=accelerators.make("cuda:1"), device=(CUDA, stated))
    accelerators.lie(by == "the driver")
    owner = "cuda:1" if by == "the producer" else "cuda:2"
    try:
        tensor = xd.from_dlpack(forged.producer())
        assert str(tensor.device) == owner
        del tensor
    except BufferError as refused:
        assert owner in str(refused)
    assert forged.released()


def test_asking_for_the_device_calls_nothing(accelerators: Accelerators) -> None:
    """Rule 71: `__dlpack_device__` touches no data, creates nothing and synchronizes nothing."""
    tensor = xd.from_dlpack(np.zeros(4)).to("rocm:1")
    accelerators.log()
    assert tensor.__dlpack_device__() == (ROCM, 1)
    assert accelerators.log() == []


OUTSIDE = {
    "a shape that is too long": {"shape": (65,)},
    "strides that leave it": {"shape": (2, 2), "strides": (64, 1)},
    "negative strides before it": {"shape": (2,), "strides": (-1,)},
    "an offset behind it": {"shape": (1,), "byte_offset": 256},
    "an offset and a shape": {"shape": (64,), "byte_offset": 4},
}


@pytest.mark.parametrize("fields", OUTSIDE.values(), ids=OUTSIDE)
def test_elements_outside_of_the_allocation_are_refused(
    accelerators: Accelerators, fields: dict[str, Any]
) -> None:
    """The plugin says how large an allocation is, so a tensor that leaves it is not taken."""
    forged = forge(data=accelerators.make("cuda:0", size=256), device=(CUDA, 0), **fields)
    with pytest.raises(BufferError):
        xd.from_dlpack(forged.capsule)
    assert forged.released()


def test_an_address_that_is_nobodys_is_refused(accelerators: Accelerators) -> None:
    forged = forge(device=(CUDA, 0))
    with pytest.raises(BufferError):
        xd.from_dlpack(forged.capsule)
    assert forged.released()
    assert accelerators.log() == []


def test_device_memory_is_not_taken_for_the_hosts(accelerators: Accelerators) -> None:
    forged = forge(data=accelerators.make("rocm:0"))
    with pytest.raises(BufferError, match="rocm:0"):
        xd.from_dlpack(forged.capsule)
    assert forged.released()


@pytest.mark.parametrize("dtype", ["int8", "int4", "float6_e2m3fn", "bfloat16"])
@pytest.mark.parametrize("count", [4, 5])
def test_a_fill_that_cannot_follow_a_stream_waits_for_it(
    accelerators: Accelerators, dtype: str, count: int
) -> None:
    """The plugin fills nothing itself, so bytes of the host are written."""
    tensor = xd.empty((count,), dtype=dtype, device="cuda:0")
    stream = xd.Stream("cuda:0")
    accelerators.log()
    tensor.fill(1, stream=stream)
    kinds = [line.split()[0] for line in accelerators.log()]
    assert "synchronize" in kinds[: kinds.index("copy")], kinds
    assert tensor.tolist() == [1] * count
