"""Pinned and managed memory of others: devices of their own to DLPack, and the host's to read.

They run over `tests/plugins/accelerators.c`.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import crossdock as xd
import handmade
import numpy as np
import pytest
from accelerators import DEVICE, MANAGED, PINNED, Accelerators

CUDA, CUDA_HOST, ROCM_HOST, CUDA_MANAGED = 2, 3, 11, 13
OF_CUDA = [(PINNED, CUDA_HOST), (MANAGED, CUDA_MANAGED)]
KINDS = [
    (CUDA_HOST, "cuda_host", "cuda"),
    (CUDA_MANAGED, "cuda_managed", "cuda"),
    (ROCM_HOST, "rocm_host", "rocm"),
]
ALL = [("cuda:0", *kind) for kind in OF_CUDA]
ALL += [("cuda:2", *kind) for kind in OF_CUDA] + [("rocm:1", PINNED, ROCM_HOST)]


def foreign(
    accelerators: Accelerators, device: str, kind: int, claimed: tuple[int, int]
) -> tuple[xd.Tensor, ctypes.Array[ctypes.c_float]]:
    """A tensor of four floats from somebody's memory, and that memory."""
    address = accelerators.make(device, kind)
    memory = (ctypes.c_float * 4).from_address(address)
    memory[:] = list(range(4))
    forged = handmade.Forged((4,), data=address, device=claimed)
    return xd.from_dlpack(handmade.Producer(forged)), memory


@pytest.mark.parametrize(("number", "name", "owner"), KINDS)
@pytest.mark.usefixtures("accelerators")
def test_a_kind_of_memory_is_no_device_and_the_error_names_the_device_it_belongs_to(
    number: int, name: str, owner: str
) -> None:
    for spec in (name, f"{name}:0", (number, 0)):
        with pytest.raises(xd.UnsupportedDeviceError) as caught:
            xd.device(spec)
        text = str(caught.value)
        assert f"`{name}` is a kind of memory of `{owner}` devices" in text, text
        assert f"{owner}:0" in text and "name the device that the memory belongs to" in text, text


@pytest.mark.parametrize(("device", "kind", "claimed"), ALL)
def test_the_owner_is_known_and_the_host_shares_the_memory(
    accelerators: Accelerators, device: str, kind: int, claimed: int
) -> None:
    """Rules 70 and 89: no id but 0, and no copy to read or write it."""
    tensor, memory = foreign(accelerators, device, kind, (claimed, 0))
    assert tensor.__dlpack_device__() == (claimed, 0) and str(tensor.device) == device
    array, view, moved = np.from_dlpack(tensor), memoryview(tensor), tensor.to("cpu")
    assert str(moved.device) == "cpu:0" and moved.data_ptr() == tensor.data_ptr()
    assert xd.explain(tensor, "cpu").kind == "alias"
    memory[1] = 9
    assert array[1] == view[1] == moved[1].item() == 9
    assert not any(line.startswith("copy") for line in accelerators.log())


@pytest.mark.parametrize(("kind", "named"), OF_CUDA)
def test_memory_that_is_called_device_memory_gets_its_kind(
    accelerators: Accelerators, kind: int, named: int
) -> None:
    """Bug 23: the pointer says which it is."""
    tensor, _ = foreign(accelerators, "cuda:1", kind, (CUDA, 1))
    assert tensor.__dlpack_device__() == (named, 0) and str(tensor.device) == "cuda:1"
    interface = {"shape": (4,), "typestr": "<f4", "data": (tensor.data_ptr(), False), "version": 3}
    assert xd.from_cuda_array_interface(interface, tensor).__dlpack_device__() == (named, 0)


@pytest.mark.parametrize("claimed", [CUDA_HOST, CUDA_MANAGED])
def test_device_memory_that_is_called_the_hosts_is_refused(
    accelerators: Accelerators, claimed: int
) -> None:
    with pytest.raises(BufferError, match="cuda:0"):
        foreign(accelerators, "cuda:0", DEVICE, (claimed, 0))


def test_host_memory_of_nobody_may_be_called_pinned() -> None:
    forged = handmade.Forged((4,), device=(CUDA_HOST, 0))
    tensor = xd.from_dlpack(handmade.Producer(forged))
    assert tensor.__dlpack_device__() == (1, 0) and tensor.data_ptr() == forged.address


@pytest.mark.parametrize(("kind", "claimed"), OF_CUDA)
def test_a_consumer_that_asks_for_the_kind_shares_and_one_that_asks_for_the_device_does_not(
    accelerators: Accelerators, kind: int, claimed: int
) -> None:
    tensor, _ = foreign(accelerators, "cuda:0", kind, (claimed, 0))
    same = handmade.struct_in(tensor.__dlpack__(dl_device=(claimed, 0), max_version=(1, 3)))
    assert (same.tensor.device_type, same.tensor.data) == (claimed, tensor.data_ptr())
    moved = handmade.struct_in(tensor.__dlpack__(dl_device=(CUDA, 0), max_version=(1, 3)))
    assert moved.tensor.device_type == CUDA and moved.tensor.data != tensor.data_ptr()
    assert moved.flags & 2
    with pytest.raises(xd.CopyRequiredError):
        tensor.__dlpack__(dl_device=(CUDA, 0), copy=False, max_version=(1, 3))


def test_a_consumer_of_managed_memory_may_name_a_stream_of_the_owner(
    accelerators: Accelerators,
) -> None:
    tensor, _ = foreign(accelerators, "cuda:2", MANAGED, (CUDA_MANAGED, 0))
    described = dict(tensor.__cuda_array_interface__, stream=4096)
    accelerators.hold()
    written = xd.from_cuda_array_interface(described, tensor)
    accelerators.log()
    written.__dlpack__(stream=8192, max_version=(1, 3))
    waits = accelerators.waits()
    assert [line.split()[:2] for line in waits] == [["wait", "cuda:2/8192"]], waits
    # A claim that names none may be the host's.
    written.__dlpack__(max_version=(1, 3))
    assert any(line.startswith("synchronize") for line in accelerators.waits())
    with pytest.raises(ValueError, match="ambiguous"):
        written.__dlpack__(stream=0, max_version=(1, 3))


def test_pinned_memory_has_no_stream_to_name(accelerators: Accelerators) -> None:
    tensor, _ = foreign(accelerators, "cuda:0", PINNED, (CUDA_HOST, 0))
    with pytest.raises(ValueError, match="DLPack has no streams"):
        tensor.__dlpack__(stream=1, max_version=(1, 3))


@pytest.mark.parametrize(("kind", "claimed"), OF_CUDA)
def test_cuda_reaches_it_by_its_own_interface(
    accelerators: Accelerators, kind: int, claimed: int
) -> None:
    tensor, _ = foreign(accelerators, "cuda:2", kind, (claimed, 0))
    described = tensor.__cuda_array_interface__
    assert described["data"] == (tensor.data_ptr(), False) and described["stream"] == 1
    assert str(xd.as_cuda_array(tensor).device) == "cuda:2"


def test_asking_for_the_kind_calls_nothing(accelerators: Accelerators) -> None:
    tensor, _ = foreign(accelerators, "cuda:0", PINNED, (CUDA_HOST, 0))
    accelerators.log()
    tensor.__dlpack_device__()
    assert accelerators.log() == []


TARGETS = [
    ("cuda_host:1", "cuda:1", CUDA_HOST),
    ("cuda_managed:2", "cuda:2", CUDA_MANAGED),
    ("rocm_host:0", "rocm:0", ROCM_HOST),
]


@pytest.mark.parametrize(("name", "owner", "named"), TARGETS)
@pytest.mark.usefixtures("accelerators")
def test_memory_of_a_kind_is_a_target_by_the_number_of_its_device(
    name: str, owner: str, named: int
) -> None:
    values = [1.0, 2.0, 3.0]
    made = [
        xd.full(3, 7.0, device=name),
        xd.asarray(values, device=name),
        xd.asarray(values).to(name),
        xd.asarray(values, device=owner).to(name),
        xd.asarray(values).to_device(name),
        xd.from_dlpack(np.asarray(values), device=name),
        xd.from_dlpack(xd.asarray(values), device=name, copy=True),
    ]
    for tensor in made:
        assert tensor.__dlpack_device__() == (named, 0) and str(tensor.device) == owner
        same = tensor.to(name, copy=False)
        assert same.data_ptr() == tensor.data_ptr() == tensor.to(owner).data_ptr()
        assert xd.from_dlpack(tensor, device=name, copy=False).data_ptr() == tensor.data_ptr()
        assert tensor.to(name, copy=True).data_ptr() != tensor.data_ptr()
        assert tensor.to("cpu").tolist() == tensor.tolist()
    assert [tensor.tolist() for tensor in made[1:]] == [values] * 6


@pytest.mark.parametrize(("name", "owner", "named"), TARGETS)
@pytest.mark.usefixtures("accelerators")
def test_a_move_to_a_kind_is_explained_and_refused_where_it_may_not_copy(
    name: str, owner: str, named: int
) -> None:
    for source in (xd.zeros(3), xd.zeros(3, device=owner)):
        route = xd.explain(source, name)
        assert route.kind == "direct" and f"-> {name}: direct" in str(route)
        assert any("of another kind" in why for why in route.refused)
        with pytest.raises(xd.CopyRequiredError, match="of another kind"):
            source.to(name, copy=False)
    assert xd.explain(source.to(name), name).kind == "alias"
    assert xd.explain(owner, name, shape=(4,)).kind == "direct"


@pytest.mark.usefixtures("accelerators")
def test_a_target_of_a_kind_is_refused_where_it_says_two_things_or_is_not_there() -> None:
    assert xd.empty(2, device="cuda_host:0", kind="pinned").__dlpack_device__() == (CUDA_HOST, 0)
    with pytest.raises(ValueError, match="memory of another kind"):
        xd.empty(2, device="cuda_host:0", kind="managed")
    with pytest.raises(xd.UnsupportedDeviceError, match="cuda:7"):
        xd.zeros(2).to("cuda_host:7")
    # The number in DLPack's pair is no device's.
    with pytest.raises(xd.UnsupportedDeviceError, match="a kind of memory of `cuda` devices"):
        xd.zeros(2).to((CUDA_HOST, 0))


@pytest.fixture
def future(tmp_path: Path) -> Iterator[None]:
    """A device of a type that DLPack has no name for: `99:0`, of a plugin in C."""
    root = Path(__file__).resolve().parents[2]
    text = (root / "tests/plugins/ext_dev.c").read_text()
    text = text.replace("EXT_DEV = 12", "EXT_DEV = 99").replace("devices=ext_dev", "devices=99")
    source, library = tmp_path / "future.c", tmp_path / "libfuture.so"
    source.write_text(text.replace("name=ext_dev", "name=future"))
    flags = ["-std=c99", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    include = f"-I{root / 'sdk/include'}"
    subprocess.run(["cc", *flags, include, str(source), "-o", str(library)], check=True)
    library.chmod(0o755)
    plugin = xd.load_plugin(library)
    yield
    plugin.retire()


@pytest.mark.usefixtures("future")
def test_an_unknown_device_type_travels_as_its_number() -> None:
    """By name, by pair, in a tensor that goes out and in a tensor of others that comes in."""
    device = xd.device("99:0")
    assert (device, str(device), device.type) == (xd.device((99, 0)), "99:0", "99")
    tensor = xd.asarray([1.0, 2.0], device=device)
    assert tensor.__dlpack_device__() == (99, 0)
    managed = handmade.exported(tensor).tensor
    assert (managed.device_type, managed.device_id) == (99, 0)
    forged = handmade.Forged((2,), dtype=(2, 64, 1), device=(99, 0), data=managed.data)
    back = xd.from_dlpack(handmade.Producer(forged))
    assert back.device == device and back.to("cpu").tolist() == [1.0, 2.0]
    assert "99:0" in repr(tensor) and "99:0" in str(xd.explain(tensor, "cpu"))


def test_the_numbers_that_came_after_dlpack_1_3_have_names() -> None:
    for number, name in ((19, "tpu"), (20, "tpu_host"), (21, "ascend")):
        with pytest.raises(xd.UnsupportedDeviceError, match=f"{name}:7"):
            xd.device((number, 7))
    with pytest.raises(xd.UnsupportedDeviceError, match="a kind of memory of `tpu` devices"):
        xd.device("tpu_host")
    # Nobody here has such devices, and the host reads what they pinned.
    pinned = handmade.Forged((3,), device=(20, 0))
    assert str(xd.from_dlpack(pinned.capsule()).device) == "cpu:0"
    pairs = handmade.Forged((3,), dtype=(18, 32, 1))
    tensor = xd.from_dlpack(pairs.capsule())
    assert str(tensor.dtype) == "bcomplex32"
    values = [1 + 2j, -0.5j, complex("inf")]
    tensor[:] = values
    assert tensor.tolist() == values == xd.asarray(values, dtype="bcomplex32").tolist()
