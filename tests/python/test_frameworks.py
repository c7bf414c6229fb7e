"""Objects that give and take tensors as the sources of other libraries say.

These libraries need hardware that is not here, or are too heavy to install for every run; those that
can be installed are met themselves by `tests/peers/test_frameworks.py`. What the objects do was read
in CuPy 14 (`_core/dlpack.pyx`, `_core/core.pyx`), TensorFlow 2.21 (`python/framework/ops.py`), MXNet
1.9 (`ndarray.py`, `tensor_blob.h`), mpi4py 4.1 (`asdlpack.pxi`) and TVM 0.27 (`runtime/_tensor.py`).
"""

from __future__ import annotations

import ctypes
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
from accelerators import DEVICE, MANAGED, Accelerators

CPU, CUDA, CUDA_HOST, CUDA_MANAGED, ROCM = 1, 2, 3, 13, 10
LEGACY_DEFAULT, PER_THREAD = 1, 2


def forged_at(
    address: int | None = None, device: tuple[int, int] = (CPU, 0), **fields: Any
) -> handmade.Forged:
    forged = handmade.Forged((4,), data=address, device=device, **fields)
    floats = (ctypes.c_float * 4).from_address(forged.address)
    floats[:] = list(range(4))
    return forged


class CupyArray:
    """`cupy.ndarray` on CUDA: its `__dlpack__`, and its interface of version 3."""

    def __init__(self, address: int, device: int, *, managed: bool = False) -> None:
        self.address, self.managed = address, managed
        self.place = (CUDA_MANAGED if managed else CUDA, device)
        self.asked: list[dict[str, Any]] = []
        self.forged: list[handmade.Forged] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        # Also of managed memory the id is the device's.
        return self.place

    def __dlpack__(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> object:
        self.asked.append({"stream": stream, "dl_device": dl_device, "copy": copy})
        is_versioned = max_version is not None and max_version[0] >= 1
        fields: dict[str, Any] = {"version": (1, 0) if is_versioned else None}
        if dl_device is None or dl_device == self.place:
            if copy is True:
                raise BufferError("copy=True only supported for copy to CPU.")
            return self._give(forged_at(self.address, self.place, **fields))
        if dl_device != (CPU, 0):
            raise BufferError("unsupported device requested.")
        if self.managed and copy is not True:
            # "Only honor this request in spirit".
            return self._give(forged_at(self.address, self.place, **fields))
        if copy is False:
            raise ValueError("GPU memory cannot be exported to CPU without copy.")
        return self._give(forged_at(None, flags=2 if is_versioned else 0, **fields))

    def _give(self, forged: handmade.Forged) -> object:
        self.forged.append(forged)
        return forged.capsule()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (4,),
            "typestr": "<f4",
            "descr": [("", "<f4")],
            "stream": LEGACY_DEFAULT,
            "version": 3,
            "strides": None,
            "data": (self.address, False),
        }


class OldCupyArray(CupyArray):
    """CuPy 10 to 12, who knew `stream` only."""

    def __dlpack__(self, stream: Any = None) -> object:  # type: ignore[override]
        return super().__dlpack__(stream)


def cupy_from_dlpack(x: Any, *, stream: int = LEGACY_DEFAULT) -> handmade.Tensor:
    """`cupy.from_dlpack`, as far as the struct that it takes."""
    kind, _device = x.__dlpack_device__()
    if kind not in (CUDA, CUDA_MANAGED):
        raise TypeError(f"Unsupported array type: {kind}")
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0), copy=None)
    except TypeError:
        capsule = x.__dlpack__(stream=stream)
    managed = handmade.consume(capsule)
    assert managed.tensor.device_type in (CUDA, CUDA_MANAGED)
    tensor = handmade.Tensor.from_buffer_copy(managed.tensor)
    handmade.delete(managed)
    return tensor


@pytest.mark.parametrize("array", [CupyArray, OldCupyArray])
def test_an_array_of_cupy_is_shared_on_its_own_device(
    accelerators: Accelerators, array: type[CupyArray]
) -> None:
    theirs = array(accelerators.make("cuda:2"), 2)
    ours = xd.from_dlpack(theirs)
    assert (str(ours.device), ours.data_ptr()) == ("cuda:2", theirs.address)
    # What came in the old struct may not be written.
    assert ours.readonly == (array is OldCupyArray)
    assert theirs.asked[-1]["stream"] == LEGACY_DEFAULT
    by_interface = xd.as_cuda_array(theirs)
    assert (str(by_interface.device), by_interface.data_ptr()) == ("cuda:2", theirs.address)
    assert xd.asarray(theirs).data_ptr() == theirs.address


@pytest.mark.parametrize("array", [CupyArray, OldCupyArray])
@pytest.mark.parametrize("keywords", [{"device": "cpu"}, {"device": "cpu", "copy": True}])
def test_an_array_of_cupy_comes_to_the_host(
    accelerators: Accelerators, array: type[CupyArray], keywords: dict[str, Any]
) -> None:
    ours = xd.from_dlpack(array(accelerators.make("cuda:0"), 0), **keywords)
    assert str(ours.device) == "cpu:0" and ours.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("array", [CupyArray, OldCupyArray])
def test_what_cupy_cannot_copy_is_copied_here(
    accelerators: Accelerators, array: type[CupyArray]
) -> None:
    theirs = array(accelerators.make("cuda:1"), 1)
    ours = xd.from_dlpack(theirs, copy=True)
    assert str(ours.device) == "cuda:1" and ours.data_ptr() != theirs.address
    with pytest.raises((ValueError, BufferError)):
        xd.from_dlpack(theirs, device="cpu", copy=False)


@pytest.mark.parametrize("device", [0, 2])
def test_managed_memory_of_cupy_has_the_id_of_its_device(
    accelerators: Accelerators, device: int
) -> None:
    theirs = CupyArray(accelerators.make(f"cuda:{device}", MANAGED), device, managed=True)
    ours = xd.from_dlpack(theirs)
    assert str(ours.device) == f"cuda:{device}" and ours.__dlpack_device__() == (CUDA_MANAGED, 0)
    # Asked for the CPU, CuPy answers with managed memory, which the host shares.
    host = xd.from_dlpack(theirs, device="cpu")
    assert (str(host.device), host.data_ptr()) == ("cpu:0", theirs.address)


@pytest.mark.parametrize("stream", [LEGACY_DEFAULT, PER_THREAD, 4096, -1])
@pytest.mark.parametrize(("kind", "named"), [(DEVICE, CUDA), (MANAGED, CUDA_MANAGED)])
def test_cupy_takes_ours(accelerators: Accelerators, stream: int, kind: int, named: int) -> None:
    theirs = CupyArray(accelerators.make("cuda:1", kind), 1, managed=kind == MANAGED)
    taken = cupy_from_dlpack(xd.from_dlpack(theirs), stream=stream)
    assert (taken.device_type, taken.data) == (named, theirs.address)


def test_cupy_takes_no_pinned_memory_of_ours(accelerators: Accelerators) -> None:
    pinned = forged_at(accelerators.make("cuda:0", 2), (CUDA_HOST, 0))
    with pytest.raises(TypeError, match="Unsupported array type: 3"):
        cupy_from_dlpack(xd.from_dlpack(handmade.Producer(pinned)))


class TensorflowTensor:
    """`tf.Tensor`: the old struct whatever is asked, and errors for what it does not know."""

    def __init__(self) -> None:
        self.forged = forged_at(version=None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> object:
        for name, given in [("stream", stream), ("dl_device", dl_device), ("copy", copy or None)]:
            if given is not None:
                raise RuntimeError(f"tf.Tensor does not support DLPack export with a {name}")
        return self.forged.capsule()


def test_a_tensor_of_tensorflow_is_shared_and_read_only() -> None:
    theirs = TensorflowTensor()
    ours = xd.from_dlpack(theirs)
    assert ours.readonly and ours.data_ptr() == theirs.forged.address


@pytest.mark.parametrize("keywords", [{"copy": True}, {"device": "cpu", "copy": True}])
def test_what_tensorflow_cannot_copy_is_copied_here(keywords: dict[str, Any]) -> None:
    theirs = TensorflowTensor()
    ours = xd.from_dlpack(theirs, **keywords)
    assert not ours.readonly and ours.data_ptr() != theirs.forged.address
    assert ours.tolist() == [0, 1, 2, 3] and theirs.forged.deleted == 1


def test_a_runtime_error_that_is_no_refusal_of_the_copy_is_shown() -> None:
    class Fails(TensorflowTensor):
        def __dlpack__(self, **_keywords: Any) -> object:
            raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError, match="the device is gone"):
        xd.from_dlpack(Fails(), copy=True)


def test_an_array_of_mxnet_is_a_capsule_without_strides() -> None:
    forged = forged_at(version=None, no_strides=True)
    ours = xd.from_dlpack(forged.capsule())
    assert ours.strides == (1,) and ours.tolist() == [0, 1, 2, 3]


def test_a_bool_of_mxnet_is_one_byte_that_says_one_bit() -> None:
    """So did TVM's before 0.2; nobody can tell it from packed bits, so it is not read at all."""
    forged = forged_at(version=None, dtype=(1, 1, 1))
    with pytest.raises(BufferError, match="one bit"):
        xd.from_dlpack(forged.capsule())
    assert forged.deleted == 1


def test_packed_bits_are_packed_bits_in_the_new_struct_only() -> None:
    forged = handmade.Forged((4,), dtype=(1, 1, 1))
    ours = xd.from_dlpack(forged.capsule())
    assert ours.nbytes == 1
    with pytest.raises(BufferError, match="one bit"):
        ours.copy().__dlpack__()


class MpiView:
    """What mpi4py holds while it sends or receives: the capsule itself, which it never consumes."""

    def __init__(self, x: Any, *, writable: bool) -> None:
        kind, _device = x.__dlpack_device__()
        stream = {} if kind == CPU else {"stream": -1}
        try:
            self.capsule = x.__dlpack__(**stream, max_version=(1, 0), copy=False)
        except TypeError:
            self.capsule = x.__dlpack__(**stream)
        managed = handmade.struct_in(self.capsule)
        self.address = managed.tensor.data + managed.tensor.byte_offset
        if managed.flags & 1 and writable:
            raise BufferError("dlpack: buffer is not writable")


def test_mpi4py_looks_into_a_capsule_and_drops_it(accelerators: Accelerators) -> None:
    forged = forged_at()
    ours = xd.from_dlpack(handmade.Producer(forged))
    view = MpiView(ours, writable=True)
    del ours
    assert view.address == forged.address and forged.deleted == 0
    del view
    assert forged.deleted == 1
    there = xd.from_dlpack(np.arange(4.0)).to("cuda:1")
    accelerators.log()
    accelerators.capture()
    assert MpiView(there, writable=True).address == there.data_ptr()
    assert accelerators.waits() == []


def test_mpi4py_receives_into_nothing_that_is_read_only() -> None:
    ours = xd.asarray(b"four")
    assert MpiView(ours, writable=False).address == ours.data_ptr()
    with pytest.raises(BufferError, match="not writable"):
        MpiView(ours, writable=True)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (4096,)])
def test_our_memory_begins_where_tvm_wants_it(shape: tuple[int, ...]) -> None:
    """Its runtime takes lines of 64 bytes only."""
    ours = xd.zeros(shape, dtype="float32")
    capsule = ours.__dlpack__()
    managed = handmade.struct_in(capsule)
    assert (managed.tensor.data + managed.tensor.byte_offset) % 64 == 0


def test_an_old_producer_is_quoted_on_what_it_understood() -> None:
    """NumPy before 2.1 knows no `max_version`; what it then refuses is the answer."""

    class Old:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (CPU, 0)

        def __dlpack__(self, *, stream: Any = None) -> object:
            raise BufferError("cannot export readonly array")

    with pytest.raises(BufferError, match="readonly"):
        xd.from_dlpack(Old())
