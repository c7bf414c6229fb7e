"""The CUDA array interface, as far as no CUDA device is needed (rules 104 to 120)."""

import gc
import weakref
from typing import Any

import crossdock as xd
import numpy as np
import pytest


class Described:
    def __init__(self, **entries: Any) -> None:
        self.array = np.arange(12, dtype=np.float32)
        address = self.array.__array_interface__["data"][0]
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (3, 4),
            "typestr": "<f4",
            "data": (address, False),
            **entries,
        }


@pytest.fixture
def cuda(request: Any) -> xd.Device:
    """A device of the plugin that claims CUDA."""
    pytest.importorskip("accelerators", reason="needs the plugin that claims CUDA")
    request.getfixturevalue("accelerators")
    return xd.device("cuda:0")


def test_rule_119_a_tensor_on_the_cpu_does_not_have_the_attribute() -> None:
    assert not hasattr(xd.from_dlpack(np.zeros(3)), "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        xd.as_cuda_array(np.zeros(3))


@pytest.mark.parametrize("missing", ["version", "shape", "typestr", "data"])
def test_rule_104_every_required_entry_is_required(missing: Any) -> None:
    described = Described().__cuda_array_interface__
    del described[missing]
    with pytest.raises(ValueError, match=missing):
        xd.from_cuda_array_interface(described)


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"version": "3"}, TypeError),
        ({"version": -1}, ValueError),
        ({"shape": 3}, TypeError),
        ({"shape": ("3",)}, TypeError),
        ({"typestr": 4}, TypeError),
        ({"typestr": "float"}, ValueError),
        ({"data": 4096}, TypeError),
        ({"data": (None, False)}, TypeError),
        ({"strides": 4}, TypeError),
    ],
)
def test_rule_104_entries_of_other_types_are_refused(entries: Any, error: Any) -> None:
    with pytest.raises(error):
        xd.as_cuda_array(Described(**entries))


def test_rule_108_a_mask_is_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        xd.as_cuda_array(Described(mask=np.zeros(12, bool)))


@pytest.mark.parametrize("descr", [[("", "<f4")], None])
def test_rule_109_the_trivial_descr_is_accepted(descr: Any) -> None:
    # No plugin knows the address: that is the next thing to be looked at.
    with pytest.raises(xd.UnsupportedDeviceError, match="no plugin"):
        xd.as_cuda_array(Described(descr=descr))


@pytest.mark.parametrize("descr", [[("a", "<f4")], [("", "<f4"), ("", "<f4")], [("", "<i4")], 3])
def test_rule_109_a_structured_type_is_refused(descr: Any) -> None:
    with pytest.raises(BufferError, match="structured"):
        xd.as_cuda_array(Described(descr=descr))


@pytest.mark.parametrize("stream", [0, -1])
def test_rule_111_stream_zero_is_refused(stream: Any) -> None:
    with pytest.raises(ValueError, match="stream"):
        xd.as_cuda_array(Described(stream=stream))


def test_rule_110_before_version_3_nobody_looks_at_stream() -> None:
    with pytest.raises(xd.UnsupportedDeviceError):
        xd.as_cuda_array(Described(version=2, stream=0))


def test_rule_116_the_device_is_looked_up_from_the_address() -> None:
    with pytest.raises(xd.UnsupportedDeviceError, match="no plugin"):
        xd.as_cuda_array(Described())


@pytest.mark.parametrize("typestr", [">f4", "<V2", "<f16", "<U4", "|O8"])
def test_rule_118_types_without_a_dtype_are_refused(typestr: Any) -> None:
    with pytest.raises(BufferError):
        xd.as_cuda_array(Described(typestr=typestr))


@pytest.mark.parametrize("memory", ["NumPy's", "ours"])
def test_a_claim_for_host_memory_is_rejected_with_the_name_of_its_class(memory: str) -> None:
    ours = xd.empty(12, dtype="float32")
    changes = {"data": (ours.data_ptr(), False)} if memory == "ours" else {}
    owner = Described(**changes)
    for take in (xd.as_cuda_array, xd.asarray):
        with pytest.raises(xd.UnsupportedDeviceError, match="Described` names 0x.*may be host memory"):
            take(owner)
    with pytest.raises(xd.UnsupportedDeviceError, match="the description names 0x.*may be host memory"):
        xd.from_cuda_array_interface(owner.__cuda_array_interface__)


def test_rule_115_a_refused_object_is_not_kept() -> None:
    described = Described()
    watch = weakref.ref(described)
    with pytest.raises(xd.UnsupportedDeviceError):
        xd.as_cuda_array(described)
    del described
    gc.collect()
    assert watch() is None


def test_bug_18_an_empty_array_asks_nobody_about_its_address() -> None:
    # Where there is no CUDA it is the device that is missing, not the address.
    try:
        empty = xd.as_cuda_array(Described(shape=(0, 4), data=(0, False)))
    except xd.UnsupportedDeviceError as error:
        assert "cuda:0" in str(error)
    else:
        assert empty.shape == (0, 4)


def test_ours_is_version_3_on_a_device_that_claims_cuda(cuda: Any) -> None:
    there = xd.from_dlpack(np.arange(12, dtype=np.float32).reshape(3, 4)).to(cuda)
    described = there.__cuda_array_interface__
    assert described["version"] == 3 and described["shape"] == (3, 4)
    assert described["typestr"] == "<f4" and described["strides"] is None
    assert described["data"] == (there.data_ptr(), False)
    assert described["stream"] is None or described["stream"] > 0


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_rule_110_bug_19_each_version_comes_back_with_strides_of_every_kind(
    cuda: Any, version: Any
) -> None:
    there = xd.from_dlpack(np.arange(12, dtype=np.float32).reshape(3, 4)).to(cuda)
    described = dict(there.__cuda_array_interface__, version=version)
    for strides in (None, (16, 4), [16, 4]):
        back = xd.from_cuda_array_interface({**described, "strides": strides}, owner=there)
        assert back.device == there.device and back.data_ptr() == there.data_ptr()
    del described["strides"]
    assert xd.from_cuda_array_interface(described, owner=there).strides == (4, 1)
    # Rule 18: the stride of an axis with one index means nothing.
    row = {**described, "shape": (1, 3), "strides": (7, 4)}
    assert xd.from_cuda_array_interface(row, owner=there).contiguous


def test_a_description_of_our_own_tensor_is_a_view_of_it(cuda: Any) -> None:
    """The view shares the memory, with the order of its work, and needs no owner in Python."""
    there = xd.from_dlpack(np.arange(12, dtype=np.float32)).to(cuda)
    last = {**there[4:].__cuda_array_interface__, "shape": (2,), "strides": (-8,)}
    last["data"] = (there.data_ptr() + 44, True)
    view, locked = xd.as_cuda_array(there), xd.from_cuda_array_interface(last, owner=there)
    of_python = weakref.ref(there)
    del there
    gc.collect()
    assert of_python() is None
    view[11:].fill(50)
    assert locked.readonly and locked.to("cpu").tolist() == [50, 9]


def test_rule_115_bug_21_the_owner_lives_as_long_as_the_tensor(cuda: Any) -> None:
    there = xd.from_dlpack(np.arange(12, dtype=np.float32)).to(cuda)

    class Owner:
        __cuda_array_interface__ = there.__cuda_array_interface__

    owner = Owner()
    watch = weakref.ref(owner)
    taken = xd.as_cuda_array(owner)
    del owner
    gc.collect()
    assert watch() is not None
    del taken
    gc.collect()
    assert watch() is None
