"""Streams on devices that claim CUDA and ROCm: who waits for what (CHECKLIST 1.5, 1.7, 1.9).

They run over `tests/plugins/accelerators.c`, which writes down every wait.
"""

import threading

import crossdock as xd
import handmade
import numpy as np
import pytest

pytest.importorskip("accelerators", reason="needs the plugin that claims CUDA and ROCm")

CUDA, ROCM = "cuda:0", "rocm:0"
TYPES = {"cuda": 2, "rocm": 10}


def there(device: str) -> xd.Tensor:
    """Sixteen floats on a device, ready."""
    tensor = xd.from_dlpack(np.arange(16, dtype=np.float32)).to(device)
    return tensor


class Foreign(handmade.Producer):
    """A producer on such a device."""

    def __init__(self, accelerators, device: str) -> None:
        kind, number = device.split(":")
        address = accelerators.make(device)
        forged = handmade.Forged((4,), data=address, device=(TYPES[kind], int(number)))
        super().__init__(forged)


@pytest.mark.parametrize(
    ("device", "stream"),
    [(CUDA, 0), (CUDA, -2), (ROCM, 1), (ROCM, 2), (ROCM, -2)],
)
def test_rules_64_65_streams_that_the_standard_refuses(accelerators, device, stream):
    with pytest.raises(ValueError):
        there(device).__dlpack__(stream=stream, max_version=(1, 3))


@pytest.mark.parametrize(
    ("device", "stream"),
    [(CUDA, None), (CUDA, 1), (CUDA, 2), (CUDA, 4096), (CUDA, -1)]
    + [(ROCM, None), (ROCM, 0), (ROCM, 4096), (ROCM, -1)],
)
def test_bug_24_streams_that_the_standard_takes(accelerators, device, stream):
    capsule = there(device).__dlpack__(stream=stream, max_version=(1, 3))
    assert handmade.struct_in(capsule).tensor.device_type == TYPES[device.split(":")[0]]


def test_rule_68_bug_26_minus_one_does_nothing_while_streams_are_captured(accelerators):
    tensor = there(CUDA)
    accelerators.log()
    accelerators.capture()
    tensor.__dlpack__(stream=-1, max_version=(1, 3))
    assert accelerators.waits() == []


@pytest.mark.parametrize(("device", "number"), [(CUDA, 1), (ROCM, 0)])
def test_rule_82_the_producer_is_given_the_stream_in_the_standards_numbers(
    accelerators, device, number
):
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


def test_rule_71_asking_for_the_device_touches_nothing(accelerators):
    tensor = there(CUDA)
    accelerators.log()
    assert tensor.__dlpack_device__() == (2, 0)
    assert accelerators.log() == []


def test_rules_104_113_the_interface_of_a_tensor_on_cuda(accelerators):
    tensor = there("cuda:2")
    described = tensor.__cuda_array_interface__
    assert described["stream"] == 1
    back = xd.from_cuda_array_interface(described, owner=tensor)
    assert (back.device, back.data_ptr()) == (tensor.device, tensor.data_ptr())


def test_rule_119_a_tensor_on_rocm_has_no_such_interface(accelerators):
    assert not hasattr(there(ROCM), "__cuda_array_interface__")


def test_rule_111_a_stream_of_zero_is_refused_and_others_are_taken(accelerators):
    tensor = there(CUDA)
    for stream in (None, 1, 2, 4096):
        described = dict(tensor.__cuda_array_interface__, stream=stream)
        assert xd.from_cuda_array_interface(described, tensor).shape == (16,)
    with pytest.raises(ValueError):
        xd.from_cuda_array_interface(dict(described, stream=0), tensor)


def test_bug_25_work_on_the_producers_stream_is_waited_for(accelerators):
    tensor = there(CUDA)
    described = dict(tensor.__cuda_array_interface__, stream=4096)
    accelerators.hold()
    taken = xd.from_cuda_array_interface(described, tensor)
    accelerators.log()
    taken.__dlpack__(stream=8192, max_version=(1, 3))
    waits = accelerators.waits()
    assert any(line.startswith("wait cuda:0/8192") for line in waits), waits
    assert not any(line.startswith("synchronize") for line in waits), waits
