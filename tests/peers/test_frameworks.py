"""TensorFlow, MXNet, TVM's runtime, mpi4py and CuPy themselves, where they are installed.

    scripts/python-frameworks

What needs hardware that is not here is tested over objects that behave as these libraries do
(`tests/python/test_frameworks.py`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import crossdock as xd
import numpy as np
import pytest

# Drivers of OpenCL bring a compiler whose names TensorFlow's own would take: they are opened first.
xd.devices()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"


@dataclass(frozen=True)
class Framework:
    """How one library's tensors are made, given and taken."""

    module: str
    dtypes: str
    make: Callable[[Any, Any], Any]
    give: Callable[[Any, Any], Any]
    take: Callable[[Any, Any], Any]
    values: Callable[[Any], Any]
    # What comes in by the struct of DLPack 0.x is read-only.
    is_legacy: bool = True
    # What it says to a transposed tensor; `None`: it takes it.
    refuses_transposed: str | None = None
    # Refused, with this word in the message.
    refuses: tuple[tuple[str, str], ...] = ()


def of_mxnet(mx: Any, array: Any) -> Any:
    made = mx.nd.array(array, dtype=array.dtype)
    made.wait_to_read()
    return made


FRAMEWORKS = [
    Framework(
        "tensorflow",
        f"bool {INTEGERS} float16 bfloat16 float32 float64 complex64 complex128",
        make=lambda tf, array: tf.constant(array),
        give=lambda _, x: x,
        take=lambda tf, t: tf.experimental.dlpack.from_dlpack(t.__dlpack__()),
        values=lambda x: x.numpy(),
        refuses_transposed="Invalid strides",
        refuses=(("float8_e4m3fn", "Unsupported Type Codes"),),
    ),
    Framework(
        "mxnet",
        "int8 uint8 int32 int64 float16 float32 float64",
        make=of_mxnet,
        give=lambda mx, x: mx.nd.to_dlpack_for_write(x),
        take=lambda mx, t: mx.nd.from_dlpack(t.__dlpack__()),
        values=lambda x: x.asnumpy(),
        refuses_transposed="only support compact",
        refuses=(("uint16", "Unknown DLDataType"), ("complex64", "Unknown")),
    ),
    Framework(
        "tvm",
        f"bool {INTEGERS} float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2",
        make=lambda tvm, array: tvm.runtime.tensor(array),
        give=lambda _, x: x,
        take=lambda tvm, t: tvm.runtime.from_dlpack(t),
        values=lambda x: x.numpy(),
        is_legacy=False,
        refuses_transposed="not contiguous",
    ),
]
NAMES = [framework.module for framework in FRAMEWORKS]


def installed(name: str) -> Any:
    return pytest.importorskip(name, reason=f"skipped: {name} is not installed")


@pytest.fixture(params=FRAMEWORKS, ids=NAMES)
def framework(request: pytest.FixtureRequest) -> Framework:
    installed(request.param.module)
    found: Framework = request.param
    return found


def numpys(dtype: str) -> Any:
    if dtype not in np.sctypeDict:
        return np.dtype(getattr(installed("ml_dtypes"), dtype))
    return np.dtype(dtype)


EVERY = [(one, dtype) for one in FRAMEWORKS for dtype in one.dtypes.split()]
IDS = [f"{one.module}-{dtype}" for one, dtype in EVERY]


@pytest.mark.parametrize(("one", "dtype"), EVERY, ids=IDS)
def test_a_tensor_of_theirs_is_shared(one: Framework, dtype: str) -> None:
    module = installed(one.module)
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(numpys(dtype))
    theirs = one.make(module, array)
    ours, again = (xd.from_dlpack(one.give(module, theirs)) for _ in range(2))
    assert (str(ours.dtype), ours.shape, ours.readonly) == (dtype, (2, 3), one.is_legacy)
    assert ours.data_ptr() == again.data_ptr()
    assert ours.numpy().tobytes() == array.tobytes()
    del theirs, again
    gc.collect()
    assert ours.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize(("one", "dtype"), EVERY, ids=IDS)
def test_they_share_a_tensor_of_ours(one: Framework, dtype: str) -> None:
    module = installed(one.module)
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(numpys(dtype))
    ours = xd.asarray(array).copy()
    theirs = one.take(module, ours)
    assert one.values(theirs).tobytes() == array.tobytes()
    ours[0] = xd.asarray(np.ones(3, array.dtype))
    assert one.values(theirs).tobytes() == ours.numpy().tobytes() != array.tobytes()
    del ours
    gc.collect()
    assert one.values(theirs)[0].tobytes() == array[1][[0, 0, 0]].tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 1), (2, 3, 4, 5)])
def test_shapes_arrive(framework: Framework, shape: tuple[int, ...]) -> None:
    module = installed(framework.module)
    array = np.ones(shape, np.float32)
    assert xd.from_dlpack(framework.give(module, framework.make(module, array))).shape == shape
    theirs = framework.take(module, xd.ones(shape, dtype="float32"))
    assert tuple(theirs.shape) == shape and (framework.values(theirs) == 1).all()


def test_a_transposed_tensor_is_taken_or_refused(framework: Framework) -> None:
    module, ours = installed(framework.module), xd.ones((2, 3), dtype="float32").T
    if framework.refuses_transposed is None:
        assert tuple(framework.take(module, ours).shape) == (3, 2)
        return
    with pytest.raises(Exception, match=framework.refuses_transposed):
        framework.take(module, ours)
    assert tuple(framework.take(module, ours.copy()).shape) == (3, 2)


def test_what_they_cannot_take_is_refused_and_nothing_is_lost(framework: Framework) -> None:
    module = installed(framework.module)
    for dtype, why in framework.refuses:
        ours = xd.ones((3,), dtype=dtype)
        with pytest.raises(Exception, match=why):
            framework.take(module, ours)
        assert ours.tolist() == [1, 1, 1]
    if framework.is_legacy:
        with pytest.raises(BufferError, match="read-only"):
            framework.take(module, xd.asarray(b"abc"))


@pytest.mark.parametrize("keywords", [{"copy": True}, {"device": "cpu"}, {"device": "other"}])
def test_theirs_goes_where_it_is_asked_to(framework: Framework, keywords: dict[str, Any]) -> None:
    module = installed(framework.module)
    theirs = framework.make(module, np.arange(4, dtype=np.float32))
    if keywords.get("device") == "other":
        keywords = {"device": next(d for d in reversed(xd.devices())), "copy": True}
    ours = xd.from_dlpack(framework.give(module, theirs), **keywords)
    assert ours.tolist() == [0, 1, 2, 3]
    assert ours.readonly == (framework.is_legacy and not keywords.get("copy", False))


def test_a_variable_of_tensorflow_comes_as_an_array() -> None:
    tf = installed("tensorflow")
    assert xd.asarray(tf.Variable([1.0, 2.0])).tolist() == [1, 2]


def test_a_bool_of_mxnet_is_refused() -> None:
    mx = installed("mxnet")
    # The end of its capsule would take the exception with it.
    capsule = mx.nd.to_dlpack_for_read(mx.nd.ones((3,), dtype="bool"))
    with pytest.raises(BufferError, match="one bit"):
        xd.from_dlpack(capsule)


MPI_DTYPES = f"bool {INTEGERS} float16 bfloat16 float32 float64 complex64 complex128 float8_e5m2"


@pytest.fixture
def comm() -> Any:
    mpi = installed("mpi4py.MPI")
    return mpi.COMM_SELF


@pytest.mark.parametrize("dtype", MPI_DTYPES.split())
def test_mpi4py_sends_and_receives_in_place(comm: Any, dtype: str) -> None:
    ours, into = xd.ones((2, 3), dtype=dtype), xd.zeros((2, 3), dtype=dtype)
    comm.Sendrecv(ours, 0, recvbuf=into, source=0)
    assert into.raw().tolist() == ours.raw().tolist()


def test_mpi4py_takes_what_its_own_rules_allow(comm: Any) -> None:
    into = xd.zeros((4,), dtype="uint8")
    comm.Sendrecv(xd.asarray(b"four"), 0, recvbuf=into, source=0)
    assert bytes(memoryview(into)) == b"four"
    with pytest.raises(BufferError, match="not writable"):
        comm.Sendrecv(into, 0, recvbuf=xd.asarray(b"four"), source=0)
    with pytest.raises(BufferError, match="not contiguous"):
        comm.Sendrecv(xd.zeros((8,), dtype="uint8")[::2], 0, recvbuf=into, source=0)
    comm.Sendrecv(xd.zeros((0,)), 0, recvbuf=xd.zeros((0,)), source=0)


def test_memory_of_mpi_is_shared(comm: Any) -> None:
    mpi = installed("mpi4py.MPI")
    memory = mpi.Alloc_mem(64)
    ours = xd.asarray(memory)
    ours[:] = 7
    assert bytes(memory[:4]) == b"\7" * 4 and ours.data_ptr() == memory.address
    del ours
    mpi.Free_mem(memory)


def test_a_tensor_travels_as_an_object(comm: Any) -> None:
    ours = xd.asarray([[1, 2], [3, 4]], dtype="int16")
    back = comm.sendrecv(ours, 0, source=0)
    assert (back.tolist(), back.dtype) == (ours.tolist(), ours.dtype)


def test_cupy_says_that_it_takes_nothing_from_the_cpu() -> None:
    cupy = installed("cupy")
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported"):
        cupy.from_dlpack(xd.ones((3,)))
