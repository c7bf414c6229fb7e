"""Tensors from numbers, sequences and every host protocol: `asarray` and its relatives."""

import array
import ctypes
import math
import mmap
from typing import Any
from pathlib import Path

import crossdock as xd
import ml_dtypes
import numpy as np
import pytest

NUMPY_TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
BYTE_TYPES = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
PACKED_TYPES = [
    "int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn",
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (True, "bool"),
        (3, "int64"),
        (2.5, "float64"),
        (1j, "complex128"),
        ([1, 2], "int64"),
        ([1, 2.5], "float64"),
        ([[True, False]], "bool"),
        ([1 << 63], "uint64"),
        ([], "float64"),
        ([[], []], "float64"),
        (range(4), "int64"),
        (((1, 2), [3, 4]), "int64"),
    ],
)
def test_the_dtype_and_shape_of_numbers_and_sequences_are_those_that_numpy_infers(
    values: Any, dtype: Any
) -> None:
    tensor = xd.asarray(values)
    assert (str(tensor.dtype), tensor.shape) == (dtype, np.asarray(values).shape)
    assert tensor.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.complex64(1 + 2j), 1], [1 + 2j, 1]),
        ([np.True_, np.False_], [True, False]),
        ([np.array(3), np.array(4)], [3, 4]),
        ([np.float32(1.5), np.longdouble(2)], [1.5, 2.0]),
        ([ml_dtypes.bfloat16(1.5), ml_dtypes.int4(-3)], [1.5, -3.0]),
        ([np.arange(2), xd.asarray([5, 6]), [7, 8]], [[0, 1], [5, 6], [7, 8]]),
    ],
)
def test_scalars_and_arrays_inside_a_sequence_keep_all_that_they_say(
    values: Any, expected: Any
) -> None:
    tensor = xd.asarray(values)
    assert tensor.tolist() == expected
    assert tensor.dtype == xd.asarray(expected).dtype


ONE_DTYPE: dict[str, Any] = {
    "rows": ([np.arange(3, dtype="f4")] * 2, "float32", [[0, 1, 2], [0, 1, 2]]),
    "views": ([np.arange(6, dtype="i4")[::-3], np.arange(2, dtype="i4")], "int32", [[5, 2], [0, 1]]),
    "numbers": ([np.array(2, "f4"), 3, 4.5], "float32", [2, 3, 4.5]),
    "numbers first": ([[1, 2], np.array([3, 4], "i2"), (5, 6)], "int16", [[1, 2], [3, 4], [5, 6]]),
    "deep": ([[np.zeros(1, "c8")], [np.ones(1, "c8")]], "complex64", [[[0]], [[1]]]),
    "tensors": ([xd.ones(1, dtype="bfloat16"), np.array([3], "bfloat16")], "bfloat16", [[1], [3]]),
    "nothing": ([np.zeros((0, 3), "u1")] * 2, "uint8", [[], []]),
    "packed": ([xd.asarray([1, -2, 3], dtype="int4")] * 2, "int4", [[1, -2, 3], [1, -2, 3]]),
    "half bytes": ([xd.ones(1, dtype="float6_e2m3fn"), [4]], "float6_e2m3fn", [[1], [4]]),
}


@pytest.mark.parametrize("device", xd.devices(), ids=str)
@pytest.mark.parametrize(("values", "dtype", "expected"), ONE_DTYPE.values(), ids=ONE_DTYPE)
def test_arrays_of_one_dtype_in_a_sequence_keep_it(
    values: Any, dtype: str, expected: Any, device: xd.Device
) -> None:
    tensor = xd.asarray(values, device=device)
    assert str(tensor.dtype) == dtype and tensor.device == device
    assert tensor.to("cpu").tolist() == expected
    assert xd.asarray(values, dtype=dtype).tolist() == expected


def test_a_sequence_of_arrays_is_copied_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of Python is made of any element."""
    from crossdock import _values

    def none(*_: Any) -> Any:
        raise AssertionError("a number was made")

    monkeypatch.setattr(_values, "encode", none)
    monkeypatch.setattr(_values, "decode", none)
    halves = np.arange(1_000_000, dtype=np.float32).reshape(2, -1)
    tensor = xd.asarray([halves[0], xd.asarray(halves[1])])
    assert np.array_equal(np.from_dlpack(tensor), halves)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([np.zeros(2, "f4"), np.zeros(2, "f8")], None),
        ([np.array(3), np.array(4.5)], None),
        ([xd.zeros(2, dtype="int4"), xd.zeros(2, dtype="uint4")], None),
        ([[np.zeros(1, "i4")], [np.zeros(1, "u4")]], None),
        ([np.zeros(2, "f4"), np.zeros(2, "f4")], "float64"),
    ],
)
def test_arrays_of_several_dtypes_in_a_sequence_are_a_type_error(values: Any, dtype: Any) -> None:
    with pytest.raises(TypeError, match="does not convert"):
        xd.asarray(values, dtype=dtype)


@pytest.mark.parametrize(
    "values",
    [
        [np.zeros(2), np.zeros(3)],
        [np.zeros((1, 2)), np.zeros((2, 1))],
        [np.zeros(2), 1.0],
        [1.0, np.zeros(2)],
        [[1.0], np.array(2.0)],
    ],
)
def test_arrays_of_several_shapes_in_a_sequence_are_a_value_error(values: Any) -> None:
    with pytest.raises(ValueError):
        xd.asarray(values)


LINEAR = """
import resource
import crossdock as xd
resource.setrlimit(resource.RLIMIT_CPU, (25, 25))
count = 800_000
for name in ("int4", "uint2", "float6_e2m3fn"):
    tensor = xd.asarray([0, 1] * (count // 2), dtype=name)
    assert tensor.tolist()[-3:] == [1, 0, 1], name
    tensor.fill(1)
    assert tensor[-4].item() == 1
"""


def test_elements_of_less_than_a_byte_take_a_time_that_is_linear_in_their_number(
    child: Any,
) -> None:
    """They take some seconds of the processor, and took ten times as many."""
    run = child(LINEAR)
    assert run.returncode == 0, (run.returncode, run.stderr)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_numbers_become_the_dtype_that_is_asked_for(dtype: Any) -> None:
    values = [[0, 1, 1], [1, 0, 1]]
    tensor = xd.asarray(values, dtype=dtype)
    assert str(tensor.dtype) == dtype
    assert np.array_equal(tensor.numpy(), np.array(values, dtype=dtype))
    assert tensor.tolist() == np.array(values, dtype=dtype).tolist()


@pytest.mark.parametrize("dtype", [*BYTE_TYPES, *PACKED_TYPES])
def test_every_number_is_rounded_as_ml_dtypes_rounds_it(dtype: Any) -> None:
    kind = getattr(ml_dtypes, dtype)
    if "int" in dtype:
        info = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]
        values: Any = list(range(int(info.min), int(info.max) + 1))
    else:
        random = np.random.default_rng(7)
        values = np.exp2(random.uniform(-20, 10, 2000)) * random.choice([-1, 1], 2000)
        values = np.abs(values) if dtype == "float8_e8m0fnu" else values
        if dtype.startswith(("float4", "float6")):
            largest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
            values = np.clip(values, -largest, largest)
        # What halves a gap is a tie, which goes to the even code.
        finite = values.astype(kind).astype(float)
        finite = finite[np.isfinite(finite)]
        ties = (finite + np.roll(finite, 1)) / 2
        values = [*values, 0.0, *(ties if dtype != "float8_e8m0fnu" else [])]
    theirs = np.array(values).astype(kind)
    ours = xd.asarray([float(v) if "float" in dtype else v for v in values], dtype=dtype)
    assert ours.tolist() == pytest.approx(theirs.astype(float).tolist(), abs=0, rel=0, nan_ok=True)


@pytest.mark.parametrize("dtype", BYTE_TYPES)
def test_every_code_of_a_float8_means_what_ml_dtypes_says(dtype: Any) -> None:
    count = 1 << getattr(xd, dtype).bits
    codes = np.arange(count, dtype=np.uint16 if dtype == "bfloat16" else np.uint8)
    array = codes.view(getattr(ml_dtypes, dtype))
    ours = xd.asarray(array)
    assert ours.dtype == xd.asarray(0, dtype=array.dtype).dtype
    assert str(ours.dtype) == dtype and ours.data_ptr() == codes.ctypes.data
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.array(ours.tolist()), array.astype(np.float64))
    again = ours.numpy()
    assert again.dtype == array.dtype and again.ctypes.data == codes.ctypes.data


@pytest.mark.parametrize("dtype", PACKED_TYPES)
def test_elements_of_less_than_a_byte_are_told_apart_packed_and_padded(dtype: Any) -> None:
    """Rule 25."""
    kind = getattr(ml_dtypes, dtype)
    values = [0, 1, 1, 0, 1, 0, 1]
    padded = xd.asarray(np.array(values).astype(kind))
    packed = xd.asarray(values, dtype=dtype)
    assert padded.tolist() == packed.tolist() == values
    assert packed.nbytes == (7 * packed.dtype.bits + 7) // 8 and padded.nbytes == 7
    assert packed.numpy().dtype == kind and packed.numpy().astype(int).tolist() == values
    packed[...] = xd.asarray([1, 0, 0, 1, 0, 1, 0], dtype=dtype)
    assert packed.tolist() == [1, 0, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    "source",
    [
        bytes(range(24)),
        bytearray(range(24)),
        memoryview(bytearray(range(24))),
        memoryview(bytes(range(24))).cast("B", (2, 3, 4)),
        array.array("i", [1, -2, 3]),
        array.array("d", [1.5, 2.5]),
        (ctypes.c_int16 * 3)(1, 2, -3),
        ((ctypes.c_float * 2) * 3)((1, 2), (3, 4), (5, 6)),  # type: ignore[misc]
    ],
    ids=lambda source: type(source).__name__,
)
def test_a_buffer_is_shared_with_its_dtype_shape_and_right_to_write(source: Any) -> None:
    """Rules 121 to 124."""
    tensor, view = xd.asarray(source), memoryview(source)
    theirs = np.asarray(view)
    assert tensor.shape == view.shape and str(tensor.dtype) == theirs.dtype.name
    assert tensor.readonly == view.readonly
    assert tensor.data_ptr() == theirs.ctypes.data
    assert np.array_equal(tensor.numpy(), theirs)


def test_a_mapped_file_is_shared_and_may_be_closed_only_without_its_tensor(tmp_path: Path) -> None:
    """Rule 125."""
    path = tmp_path / "bytes"
    path.write_bytes(b"hello")
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    tensor = xd.asarray(mapped)
    part = tensor[1:]
    tensor[0] = ord("j")
    assert mapped[:] == b"jello"
    del tensor
    with pytest.raises(BufferError):
        mapped.close()
    del part
    mapped.close()


def test_a_buffer_is_released_once_with_its_last_view() -> None:
    """Rule 125."""
    source = bytearray(8)
    tensor = xd.asarray(source)
    view = memoryview(tensor[2:])
    del tensor
    with pytest.raises(BufferError):
        source.append(1)
    view.release()
    del view
    source.append(1)


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c8", ">u8"])
def test_numbers_in_another_byte_order_are_refused_with_the_reason(dtype: Any) -> None:
    """Rule 28, bug 31."""
    with pytest.raises(BufferError, match="byte order"):
        xd.asarray(np.zeros(3, dtype=dtype))
    assert xd.asarray(np.zeros(3, dtype=">i1")).dtype == xd.int8


def test_memory_that_is_reached_through_pointers_is_refused() -> None:
    """Rule 126: suboffsets."""
    testbuffer = pytest.importorskip("_testbuffer")
    rows = testbuffer.ndarray(
        list(range(6)), shape=[2, 3], format="B", flags=testbuffer.ND_PIL | testbuffer.ND_FORTRAN
    )
    with pytest.raises(BufferError, match="suboffsets"):
        xd.asarray(rows)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2), (1, 8, 0, 128)])
def test_empty_and_0d_arrays_go_both_ways(shape: Any) -> None:
    """Rule 124, bug 17."""
    array: Any = np.ones(shape, dtype=np.float32)
    for source in (array, memoryview(array), Interface(array), Convertible(array)):
        tensor = xd.asarray(source)
        assert tensor.shape == shape and tensor.tolist() == array.tolist()
        for back in (tensor.numpy(), np.asarray(tensor), np.asarray(memoryview(tensor))):
            assert back.shape == shape and back.tolist() == array.tolist()


class Interface:
    """Only `__array_interface__`."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__ | changes


class Convertible:
    """Only `__array__`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Everything(Interface):
    """Says which protocol it was asked for."""

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> None:
        raise AssertionError("DLPack comes first")


def test_an_object_of_the_array_interface_is_shared_and_kept_alive() -> None:
    """Rule 127."""
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[::-1, ::2]
    tensor = xd.asarray(Interface(array))
    assert tensor.strides == (-4, 2) and np.array_equal(tensor.numpy(), array)
    tensor[0, 0] = 100
    assert array[0, 0] == 100
    with pytest.raises(NotImplementedError, match="mask"):
        xd.asarray(Interface(array, mask=np.ones(1)))


def test_the_data_of_an_array_interface_may_be_a_buffer_or_the_object_itself() -> None:
    class Itself(bytearray):
        __array_interface__ = {"version": 3, "shape": (2,), "typestr": "<i2", "offset": 2}

    from crossdock._memory import of_interface

    source = Itself(b"\0\0\1\0\2\0")
    assert of_interface(Itself.__array_interface__, source).tolist() == [1, 2]
    given = {"version": 3, "shape": (2,), "typestr": "<i2", "data": b"\3\0\4\0"}
    assert of_interface(given, object()).tolist() == [3, 4]
    with pytest.raises(ValueError, match="more than"):
        of_interface({**given, "shape": (3,)}, object())


def test_asarray_asks_the_protocols_in_a_fixed_order() -> None:
    """Rule 129."""
    array = np.arange(3.0)
    own = xd.asarray(array)
    assert xd.asarray(own).data_ptr() == own.data_ptr()
    assert xd.asarray(Everything(array)).data_ptr() == array.ctypes.data
    assert xd.asarray(Convertible(array)).data_ptr() == array.ctypes.data


def test_copy_means_what_the_array_api_says() -> None:
    array: Any = np.arange(3.0)
    assert xd.asarray(array, copy=False).data_ptr() == array.ctypes.data
    for source in (array, memoryview(array), Interface(array)):
        copied = xd.asarray(source, copy=True)
        assert copied.data_ptr() != array.ctypes.data and copied.tolist() == [0, 1, 2]
    with pytest.raises(xd.CopyRequiredError):
        xd.asarray([1, 2], copy=False)


def test_nothing_is_converted_but_python_numbers() -> None:
    with pytest.raises(TypeError, match="does not convert"):
        xd.asarray(np.arange(3), dtype=xd.float32)
    assert xd.asarray(np.arange(3), dtype=np.int64).dtype == xd.int64


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ([1, [2]], ValueError),
        ([[1, 2], [3]], ValueError),
        (["a"], TypeError),
        ("text", TypeError),
        (None, TypeError),
        (object(), TypeError),
        ({1: 2}, TypeError),
        ([1 << 64], ValueError),
        (np.array([1, "a"], dtype=object), BufferError),
        (np.array(["a"]), BufferError),
        (np.zeros(2, dtype=[("a", "i4")]), BufferError),
        # 80 bits and 48 of padding, which DLPack has no name for.
        (np.zeros(2, dtype=np.longdouble), BufferError),
        (np.zeros(2, dtype=np.clongdouble), BufferError),
        (np.ndarray, TypeError),
        (np.float32, TypeError),
    ],
)
def test_what_is_no_array_is_refused(wrong: Any, error: Any) -> None:
    with pytest.raises(error):
        xd.asarray(wrong)


def test_a_refusal_names_what_every_protocol_said() -> None:
    class Guarded(Convertible):
        def __dlpack__(self, **keywords: Any) -> None:
            raise BufferError("it has gradients")

        def __dlpack_device__(self) -> Any:
            return (1, 0)

        def __array__(self, dtype: Any = None, copy: Any = None) -> None:
            raise RuntimeError("detach it first")

    with pytest.raises(BufferError, match="gradients.*detach"):
        xd.asarray(Guarded(None))

    class Failing(Convertible):
        def __array__(self, dtype: Any = None, copy: Any = None) -> None:
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        xd.asarray(Failing(None))


def test_a_number_that_the_dtype_cannot_hold_is_refused() -> None:
    wrong = [(300, "uint8"), (-1, "uint16"), (8, "int4"), (1.5, "int32")]
    for value, dtype in [*wrong, (float("inf"), "int8"), (float("nan"), "uint64")]:
        with pytest.raises(ValueError, match="cannot hold"):
            xd.asarray(value, dtype=dtype)


def test_a_number_that_a_float_is_too_small_for_becomes_an_infinity() -> None:
    largest = float(np.finfo(np.float32).max)
    beyond = [1e39, -1e300, largest, math.nextafter(largest * (1 + 2**-25), math.inf)]
    for dtype in ("float16", "float32", "complex64", "bfloat16"):
        with np.errstate(over="ignore"):
            theirs = np.array(beyond).astype(getattr(ml_dtypes, dtype, dtype))
        assert xd.asarray(beyond, dtype=dtype).tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", ["bool", "int32", "float64", "complex64", "int4"])
def test_a_text_is_no_number(dtype: Any) -> None:
    for make in (lambda: xd.full(2, "1", dtype=dtype), lambda: xd.zeros(2, dtype=dtype).fill("1")):
        with pytest.raises(TypeError, match="no number"):
            make()


def test_a_dtype_may_be_named_as_another_library_does() -> None:
    class dtype:  # noqa: N801
        """As PyTorch's: it says its name as text alone."""

        def __str__(self) -> str:
            return "torch.bfloat16"

    for given in ("bfloat16", xd.bfloat16, ml_dtypes.bfloat16, np.dtype("bfloat16"), dtype()):
        assert xd.empty(1, dtype=given).dtype == xd.bfloat16


@pytest.mark.parametrize("name", NUMPY_TYPES + BYTE_TYPES + PACKED_TYPES)
def test_numpy_takes_our_dtypes_where_it_has_them(name: str) -> None:
    ours = getattr(xd, name)
    assert np.dtype(ours) == np.dtype(name)
    assert np.zeros(3, dtype=ours).dtype.name == name


def test_numpy_refuses_a_dtype_that_it_does_not_have() -> None:
    vector = xd._crossdock._dtype("int8x4")
    assert not hasattr(vector, "dtype")
    with pytest.raises(TypeError):
        np.dtype(vector)


def test_a_dtype_in_another_byte_order_is_refused() -> None:
    """Bug 31."""
    for dtype in (np.dtype(">f4"), np.dtype(">i8")):
        with pytest.raises(ValueError, match="byte order"):
            xd.empty(2, dtype=dtype)
    assert xd.empty(2, dtype=np.dtype(">u1")).dtype == xd.uint8


@pytest.mark.parametrize("shape", ["ab", 2.0, None, (2.0,), [[1]]])
def test_what_is_no_shape_is_a_type_error(shape: Any) -> None:
    with pytest.raises(TypeError):
        xd.empty(shape)
    with pytest.raises(TypeError):
        xd.zeros(2).reshape(shape)


@pytest.mark.parametrize("missing", ["shape", "typestr"])
def test_an_array_interface_that_lacks_something_is_a_value_error(missing: Any) -> None:
    source = Interface(np.zeros(2))
    del source.__array_interface__[missing]
    with pytest.raises(ValueError, match=f"lacks {missing}"):
        xd.asarray(source)


def test_a_deep_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested"):
        xd.asarray(endless)


def test_new_tensors_have_the_shape_dtype_and_device_that_are_asked_for() -> None:
    for device in xd.devices():
        for dtype in ("bool", "float16", "bfloat16", "float32", "complex128", "int64"):
            ones = xd.ones((2, 3), dtype=dtype, device=device)
            assert ones.device == device and ones.tolist() == [[1] * 3] * 2
            assert xd.zeros((2,), dtype=dtype, device=device).tolist() == [0, 0]
        like = xd.empty_like(ones)
        assert (like.shape, like.dtype, like.device) == (ones.shape, ones.dtype, ones.device)
        assert xd.full((2,), 7, dtype="int4", device=device).tolist() == [7, 7]
    assert xd.empty(3).shape == (3,) and xd.empty(()).shape == ()
    assert xd.zeros(2).dtype == xd.float64 and xd.full(2, 3).dtype == xd.int64
    with pytest.raises(ValueError, match="negative"):
        xd.empty((-1,))
    with pytest.raises((MemoryError, ValueError)):
        xd.empty((1 << 62, 1 << 62))


@pytest.mark.parametrize("masked", [
    np.ma.masked_array([1, 2], [False, True]),
    np.ma.masked_array([[1.5, 2.5]], [[True, True]]),
    np.ma.masked,
    [np.ma.masked_array([1, 2], [False, True])],
])  # fmt: skip
def test_what_a_mask_hides_is_not_taken(masked: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"\.filled\(\)"):
        xd.asarray(masked)


def test_a_masked_array_that_masks_nothing_is_shared() -> None:
    for mask in (False, [False, False]):
        masked = np.ma.masked_array([1, 2], mask)
        assert xd.asarray(masked).data_ptr() == masked.data.ctypes.data
    whole = np.ma.masked_array([1, 2], [False, True], fill_value=9)
    assert xd.asarray(whole.filled()).tolist() == [1, 9]
    assert xd.asarray(whole.data).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [bool, int, float, complex])
def test_the_numbers_of_python_are_dtypes_as_they_are_for_numpy(dtype: Any) -> None:
    assert str(xd.asarray([1, 0], dtype=dtype).dtype) == np.dtype(dtype).name
    assert str(xd.zeros(2, dtype=dtype).dtype) == np.dtype(dtype).name


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_a_dtype_may_be_written_as_the_array_interface_writes_it(name: str) -> None:
    text = np.dtype(name).str
    for short in (text, text[1:], "=" + text[1:]):
        assert str(xd.zeros(1, dtype=short).dtype) == name


@pytest.mark.parametrize("text", [">f4", "<f3", "f3", "<U4", "float", "", "<"])
def test_what_is_no_dtype_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        xd.zeros(1, dtype=text)


@pytest.mark.parametrize("name", [*NUMPY_TYPES, *BYTE_TYPES, *PACKED_TYPES, "int8x4"])
def test_a_dtype_is_equal_to_its_name_and_has_its_hash(name: str) -> None:
    dtype = xd.zeros(0, dtype=name).dtype
    assert dtype == name and name == dtype and not dtype != name
    assert hash(dtype) == hash(name) and dtype in {name: 1}
    for other in (name.upper(), "\udc80", "", 1, None):
        assert dtype != other and other != dtype


def test_every_dtype_is_equal_to_itself_alone() -> None:
    dtypes = [xd.zeros(0, dtype=name).dtype for name in (*NUMPY_TYPES, *BYTE_TYPES, *PACKED_TYPES)]
    assert len(set(dtypes)) == len(dtypes)
    assert all((a == b) == (a is b) for a in dtypes for b in dtypes)


def test_memory_of_a_kind_is_that_kind_or_refused_with_the_device() -> None:
    pinned = xd.empty(4, dtype="float32", kind="pinned")
    pinned[...] = xd.asarray([1, 2, 3, 4], dtype="float32")
    assert pinned.tolist() == [1, 2, 3, 4]
    assert xd.pointer_info(pinned.data_ptr()).kind == "pinned"
    with pytest.raises(xd.DeviceError, match="`cpu:0` offers no managed memory"):
        xd.empty(4, kind="managed")
    with pytest.raises(ValueError, match="'host' is not 'device'|\"host\" is not 'device'"):
        xd.empty(4, kind="host")


def test_memory_in_the_order_of_a_stream_is_used_behind_it() -> None:
    stream = xd.Stream("cpu")
    tensor = xd.empty((2, 3), dtype="int32", stream=stream)
    tensor.fill(7, stream=stream)
    assert tensor.tolist() == [[7, 7, 7], [7, 7, 7]]
    with pytest.raises(ValueError, match="allocated in no stream's order"):
        xd.empty(2, kind="pinned", stream=stream)
