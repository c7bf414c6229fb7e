"""Streams on devices that claim CUDA and ROCm: who waits for what (rules 59 to 113).

They run over `tests/plugins/accelerators.c`, which writes down every wait.
"""

import threading
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
from accelerators import Accelerators

pytest.importorskip("accelerators", reason="needs the plugin that claims CUDA and ROCm")

CUDA, ROCM = "cuda:0", "rocm:0"
TYPES = {"cuda": 2, "rocm": 10}


def there(device: str) -> xd.Tensor:
    """Sixteen floats on a device, ready."""
    tensor = xd.from_dlpack(np.arange(16, dtype=np.float32)).to(device)
    return tensor


class Foreign(handmade.Producer):
    """A producer on such a device."""

    def __init__(self, accelerators: Accelerators, device: str) -> None:
        kind, number = device.split(":")
        address = accelerators.make(device)
        forged = handmade.Forged((4,), data=address, device=(TYPES[kind], int(number)))
        super().__init__(forged)


@pytest.mark.parametrize(
    ("device", "stream"),
    [(CUDA, 0), (CUDA, -2), (CUDA, 1 << 63), (ROCM, 1), (ROCM, 2), (ROCM, -2), (ROCM, 1 << 64)],
)
def test_rules_64_65_streams_that_the_standard_refuses(
    accelerators: Accelerators, device: Any, stream: Any
) -> None:
    with pytest.raises(ValueError):
        there(device).__dlpack__(stream=stream, max_version=(1, 3))


@pytest.mark.parametrize(
    ("device", "stream"),
    [(CUDA, None), (CUDA, 1), (CUDA, 2), (CUDA, 4096), (CUDA, -1)]
    + [(ROCM, None), (ROCM, 0), (ROCM, 4096), (ROCM, -1)],
)
def test_bug_24_streams_that_the_standard_takes(
    accelerators: Accelerators, device: Any, stream: Any
) -> None:
    capsule = there(device).__dlpack__(stream=stream, max_version=(1, 3))
    assert handmade.struct_in(capsule).tensor.device_type == TYPES[device.split(":")[0]]


def test_rule_68_bug_26_minus_one_does_nothing_while_streams_are_captured(
    accelerators: Accelerators
) -> None:
    tensor = there(CUDA)
    accelerators.log()
    accelerators.capture()
    tensor.__dlpack__(stream=-1, max_version=(1, 3))
    assert accelerators.waits() == []


@pytest.mark.parametrize(("device", "number"), [(CUDA, 1), (ROCM, 0)])
def test_rule_82_the_producer_is_given_the_stream_in_the_standards_numbers(
    accelerators: Accelerators, device: Any, number: Any
) -> None:
    producer, deleted = Foreign(accelerators, device), threading.Event()
    producer.forged.on_delete = deleted.set
    tensor = xd.from_dlpack(producer)
    assert str(tensor.device) == device
    assert producer.calls == [
        ("device", {}),
        ("dlpack", {"stream": number, "max_version": (1, 3)}),
    ]
    del tensor
    # The memory goes back when the work that was announced on the stream is done, which a thread
    # of the runtime sees.
    assert deleted.wait(timeout=30)


def test_rule_71_asking_for_the_device_touches_nothing(accelerators: Accelerators) -> None:
    tensor = there(CUDA)
    accelerators.log()
    assert tensor.__dlpack_device__() == (2, 0)
    assert accelerators.log() == []


def test_rules_104_113_the_interface_of_a_tensor_on_cuda(accelerators: Accelerators) -> None:
    tensor = there("cuda:2")
    described = tensor.__cuda_array_interface__
    assert described["stream"] == 1
    back = xd.from_cuda_array_interface(described, owner=tensor)
    assert (back.device, back.data_ptr()) == (tensor.device, tensor.data_ptr())


def test_rules_104_113_the_interface_of_a_tensor_on_rocm(accelerators: Accelerators) -> None:
    """As PyTorch and hip-python read it there; 1 and 2 name no stream in each version of HIP."""
    tensor = there("rocm:1")
    described = tensor.__cuda_array_interface__
    assert described["stream"] is None
    back = xd.from_cuda_array_interface(described, owner=tensor)
    assert (back.device, back.data_ptr()) == (tensor.device, tensor.data_ptr())
    with xd.Stream("rocm:1", native=4096):
        assert tensor.__cuda_array_interface__["stream"] == 4096


@pytest.mark.parametrize("device", ["cuda:2", "rocm:1"])
def test_a_described_tensor_keeps_the_stream_that_it_names(accelerators: Accelerators, device: str) -> None:
    """A reader of the description may use the stream while the tensor lives."""
    tensor = there(device)
    tensor.synchronize()
    before = accelerators.streams()
    with xd.Stream(device) as stream:
        number = tensor.__cuda_array_interface__["stream"]
        assert number == tensor.__cuda_array_interface__["stream"] == stream.native_handle
    del stream
    assert accelerators.streams() == before + 1
    del tensor
    assert accelerators.streams() == before


@pytest.mark.parametrize("native", [0, 1, 2])
def test_rule_112_a_description_on_rocm_without_a_stream_is_of_complete_memory(
    accelerators: Accelerators, native: int
) -> None:
    """What reads it is waited for as well: the consumer may write."""
    tensor = there(ROCM)
    described = dict(tensor.__cuda_array_interface__, stream=4096)
    accelerators.hold()
    accelerators.log()
    taken = xd.from_cuda_array_interface(described, tensor)
    copy = taken.to(ROCM, stream=xd.Stream(ROCM, native=0x2001), copy=True)
    with xd.Stream(ROCM, native=native):
        assert taken.__cuda_array_interface__["stream"] is None
    log = accelerators.log()
    done = [line.split()[1] for line in log if line.startswith("synchronize ")]
    end = next(line.split()[2] for line in log if line.startswith("record rocm:0/8193 "))
    waited = any(line == f"wait rocm:0/{native} {end}" for line in log)
    recorded = [line.split()[2] for line in log if line.startswith(f"record rocm:0/{native} ")]
    assert end in done or (waited and recorded[-1] in done), log
    assert copy.shape == (16,)


@pytest.mark.parametrize(("stream", "native"), [(1, 0), (2, 2), (4096, 4096)])
def test_rule_111_the_streams_that_a_description_on_rocm_may_name(
    accelerators: Accelerators, stream: int, native: int
) -> None:
    tensor = there(ROCM)
    described = dict(tensor.__cuda_array_interface__, stream=stream)
    accelerators.log()
    taken = xd.from_cuda_array_interface(described, tensor)
    log = accelerators.log()
    assert [line.split()[1] for line in log if line.startswith("record ")] == [f"rocm:0/{native}"]
    with pytest.raises(ValueError):
        xd.from_cuda_array_interface(dict(described, stream=0), taken)


def test_rule_82_a_producer_on_rocm_is_never_given_the_stream_of_a_thread(
    accelerators: Accelerators,
) -> None:
    """DLPack has no number for it there: 2 is refused, and would be taken for a handle."""
    producer, stream = Foreign(accelerators, ROCM), xd.Stream(ROCM, native=2)
    accelerators.log()
    with stream:
        tensor = xd.from_dlpack(producer)
        assert producer.calls[-1] == ("dlpack", {"stream": 0, "max_version": (1, 3)})
        copy = tensor.to(ROCM, copy=True, non_blocking=True)
    log = accelerators.log()
    announced = [line.split()[2] for line in log if line.startswith("record rocm:0/0 ")]
    assert announced and any(f"wait rocm:0/2 {event}" in log for event in announced), log
    assert copy.shape == (4,)


def test_rule_111_bug_20_a_stream_of_zero_is_refused_and_others_are_taken(
    accelerators: Accelerators
) -> None:
    tensor = there(CUDA)
    for stream in (None, 1, 2, 4096):
        described = dict(tensor.__cuda_array_interface__, stream=stream)
        assert xd.from_cuda_array_interface(described, tensor).shape == (16,)
    with pytest.raises(ValueError):
        xd.from_cuda_array_interface(dict(described, stream=0), tensor)
    del described["stream"]
    assert xd.from_cuda_array_interface(described, tensor).shape == (16,)


def test_bug_25_work_on_the_producers_stream_is_waited_for(accelerators: Accelerators) -> None:
    tensor = there(CUDA)
    described = dict(tensor.__cuda_array_interface__, stream=4096)
    accelerators.hold()
    taken = xd.from_cuda_array_interface(described, tensor)
    accelerators.log()
    # Kept: what is dropped while work on it is pending is watched, which the log would show.
    _capsule = taken.__dlpack__(stream=8192, max_version=(1, 3))
    waits = accelerators.waits()
    assert any(line.startswith("wait cuda:0/8192") for line in waits), waits
    assert not any(line.startswith("synchronize") for line in waits), waits


def test_a_device_is_synchronized_by_waiting_for_all_its_streams(
    accelerators: Accelerators,
) -> None:
    stream = xd.Stream(CUDA, native=4096)
    accelerators.log()
    xd.device(CUDA).synchronize()
    waits = [line.split() for line in accelerators.waits()]
    assert ["synchronize", f"{CUDA}/0"] in waits, waits
    # The owner of the other one may end it meanwhile: its event is waited for.
    (event,) = (line[2] for line in waits if line[:2] == ["record", f"{CUDA}/4096"])
    assert ["synchronize", event] in waits, waits
    assert stream.query()


def pending(accelerators: Accelerators, device: str) -> xd.Tensor:
    """A tensor that work on a foreign stream still writes."""
    tensor = there(device)
    described = dict(tensor.__cuda_array_interface__, stream=4096)
    accelerators.hold()
    taken = xd.from_cuda_array_interface(described, tensor)
    accelerators.log()
    return taken


@pytest.mark.parametrize(("stream", "native"), [(None, 0), (1, 0), (8192, 8192)])
def test_rule_66_the_consumers_stream_waits_and_the_host_does_not(
    accelerators: Accelerators, stream: Any, native: Any
) -> None:
    tensor = pending(accelerators, CUDA)
    _capsule = tensor.__dlpack__(stream=stream, max_version=(1, 3))
    waits = accelerators.waits()
    assert [line.split()[:2] for line in waits] == [["wait", f"cuda:0/{native}"]], waits


def test_rule_66_for_the_cpu_the_host_waits(accelerators: Accelerators) -> None:
    tensor = pending(accelerators, CUDA)
    tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 3))
    assert any(line.startswith("synchronize") for line in accelerators.waits())


def test_rule_59_a_copy_for_a_consumer_is_on_its_stream(accelerators: Accelerators) -> None:
    tensor = there(CUDA)
    accelerators.log()
    capsule = tensor.__dlpack__(stream=8192, copy=True, max_version=(1, 3))
    assert handmade.struct_in(capsule).flags & 2
    copies = [line for line in accelerators.log() if line.startswith("copy")]
    assert len(copies) == 1 and copies[0].endswith("cuda:0/8192"), copies


def test_rule_102_the_exchange_table_neither_waits_nor_records(accelerators: Accelerators) -> None:
    import test_exchange_table as table

    tensor = there(CUDA)
    accelerators.log()
    accelerators.capture()
    answer, managed = table.exported(tensor)
    assert answer == 0 and accelerators.waits() == []
    accelerators.capture(False)
    handmade.delete(managed)


def test_rules_105_106_107_strides_empty_arrays_and_read_only(accelerators: Accelerators) -> None:
    tensor = there(CUDA)
    described = tensor.__cuda_array_interface__
    assert described["strides"] is None
    every_other = dict(described, shape=(8,), strides=(8,), data=(described["data"][0], True))
    half = xd.from_cuda_array_interface(every_other, tensor)
    assert half.strides == (2,) and half.readonly
    again = half.__cuda_array_interface__
    assert again["strides"] == (8,) and again["data"] == (described["data"][0], True)
    assert np.from_dlpack(half.to("cpu")).tolist() == list(range(0, 16, 2))
    with pytest.raises(BufferError, match="no number of elements"):
        xd.from_cuda_array_interface(dict(every_other, strides=(6,)), tensor)


def test_bug_18_an_empty_array_has_the_address_zero(accelerators: Accelerators) -> None:
    accelerators.log()
    empty = xd.from_cuda_array_interface(
        {"version": 3, "shape": (0, 3), "typestr": "<f4", "data": (0, False)}
    )
    assert accelerators.log() == []
    assert empty.__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize("typestr", ["<i2", "|u1", "|b1", "<c8", "<f8", "<f2"])
def test_rule_104_every_type_keeps_its_name(accelerators: Accelerators, typestr: Any) -> None:
    tensor = xd.from_dlpack(np.zeros(4, typestr)).to(CUDA)
    assert tensor.__cuda_array_interface__["typestr"] == typestr
