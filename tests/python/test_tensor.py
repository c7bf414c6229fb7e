"""The tensor itself: attributes, views, assignment, conversions, text, pickles and copies."""

import copy
import itertools
import operator
import pickle
from typing import Any

import crossdock as xd
import ml_dtypes
import numpy as np
import pytest
from conftest import Child

OPENCL = next((device for device in xd.devices() if device.type == "opencl"), None)
needs_opencl = pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")

KEYS = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(-1, None, -2), slice(5, 2),
    ..., None, (..., 0), (0, ..., -1), (slice(None), 1), (None, ..., None), (1, slice(None), 2),
    (slice(None), slice(None), slice(None, None, -3)), (1, 2, 3), (), (..., None, 1),
    (slice(2, 2), None), (None, 1, None, slice(1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_an_index_gives_the_view_that_numpy_gives(key: Any) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    ours, theirs = xd.asarray(array)[key], array[key]
    assert ours.shape == np.shape(theirs) and ours.tolist() == theirs.tolist()
    if np.size(theirs):
        assert ours.data_ptr() == xd.asarray(array).data_ptr() + (
            theirs.__array_interface__["data"][0] - array.ctypes.data
            if isinstance(theirs, np.ndarray)
            else array[key[0], key[1]].ctypes.data + 8 * key[2] - array.ctypes.data
        )


@pytest.mark.parametrize(
    "key", [2, -3, (0, 0, 0, 0), (..., ...), 1.0, True, "a", [0], (0, 5), (slice(None),) * 4]
)
def test_an_index_that_is_none_is_an_index_error(key: Any) -> None:
    with pytest.raises(IndexError):
        xd.zeros((2, 3, 4))[key]
    with pytest.raises(ValueError, match="zero"):
        xd.zeros(3)[::0]
    for huge in (1 << 70, -1 << 70):
        with pytest.raises(IndexError, match="outside an axis of 3"):
            xd.zeros(3)[huge]


def test_a_view_that_begins_inside_a_byte_is_refused_with_the_reason() -> None:
    packed = xd.asarray([1, 2, 3, 4, 5], dtype="int4")
    assert packed[2:].tolist() == [3, 4, 5] and packed[::-2].tolist() == [5, 3, 1]
    with pytest.raises(ValueError, match="middle of a byte"):
        packed[1:]


def test_views_of_views_stay_inside_their_memory() -> None:
    """Bug 14."""
    array = np.arange(10)
    tensor = xd.asarray(array)
    assert tensor[::-1][::-1].tolist() == array.tolist()
    assert tensor[8::-3][::-1][1:].tolist() == array[8::-3][::-1][1:].tolist()


def test_the_attributes_say_what_the_tensor_is() -> None:
    tensor = xd.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))[:, ::2]
    assert (tensor.shape, tensor.strides, tensor.ndim, tensor.size) == ((3, 2), (4, 2), 2, 6)
    assert (tensor.dtype, tensor.nbytes, str(tensor.device)) == (xd.float32, 24, "cpu:0")
    assert not tensor.readonly and not tensor.contiguous and xd.asarray(b"a").readonly


def test_axes_are_exchanged_without_a_copy() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    tensor = xd.asarray(array)
    assert np.array_equal(tensor[0].T.numpy(), array[0].T)
    assert np.array_equal(tensor.mT.numpy(), array.mT)
    for axes in itertools.permutations(range(3)):
        assert np.array_equal(tensor.permute_dims(axes).numpy(), array.transpose(axes))
    assert tensor.permute_dims((-1, 0, 1)).data_ptr() == tensor.data_ptr()
    for wrong in ((0, 1), (0, 0, 1), (0, 1, 3), (0, 1, -4)):
        with pytest.raises(ValueError, match=r".+"):
            tensor.permute_dims(wrong)
    with pytest.raises(ValueError, match="T is for 2 axes"):
        _ = tensor.T
    with pytest.raises(ValueError, match="at least 2"):
        _ = xd.zeros(3).mT


def test_a_reshape_is_a_view_where_that_works_and_says_so_where_not() -> None:
    tensor = xd.asarray(np.arange(6))
    assert tensor.reshape((2, -1)).data_ptr() == tensor.data_ptr()
    assert tensor.reshape(6).shape == (6,) and tensor.reshape((2, 3, 1)).shape == (2, 3, 1)
    turned = tensor.reshape((2, 3)).T
    assert turned.reshape(-1).tolist() == [0, 3, 1, 4, 2, 5]
    # Numbers as Python writes them, and nothing of Rust around them.
    with pytest.raises(xd.CopyRequiredError, match=r"from strides \[1, 3\] to shape \[6\]"):
        turned.reshape(-1, copy=False)
    assert tensor.reshape((3, 2), copy=True).data_ptr() != tensor.data_ptr()
    for wrong in ((4,), (-1, 4), (-1, -1), (-6,), (-2, -3)):
        with pytest.raises(ValueError, match="6 elements"):
            tensor.reshape(wrong)


def test_a_tensor_has_a_length_and_is_iterated_over_by_its_first_axis() -> None:
    tensor = xd.asarray([[1, 2], [3, 4]])
    assert len(tensor) == 2 and [row.tolist() for row in tensor] == [[1, 2], [3, 4]]
    assert list(xd.zeros((0, 2))) == []
    for attempt in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            attempt(xd.asarray(1))


def test_a_0d_tensor_is_a_number_and_others_are_not() -> None:
    assert float(xd.asarray(2)) == 2.0 and int(xd.asarray(2.9)) == 2
    assert complex(xd.asarray(1j)) == 1j and operator.index(xd.asarray(7)) == 7
    assert bool(xd.asarray(3)) and not bool(xd.asarray(0.0))
    assert xd.asarray([[5]]).item() == 5
    for no_integer in (1.0, True):
        with pytest.raises(TypeError, match="integers"):
            operator.index(xd.asarray(no_integer))
    with pytest.raises(TypeError):
        float(xd.asarray(1j))
    for convert in (float, int, complex, operator.index, bool):
        with pytest.raises(TypeError):
            convert(xd.asarray([1, 2]))
    with pytest.raises(ValueError, match="one element"):
        xd.asarray([1, 2]).item()


def test_equality_and_hash_are_by_identity() -> None:
    one, other = xd.asarray([1]), xd.asarray([1])
    assert one == one and one != other and len({one, other, one}) == 2


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_a_part_is_replaced_by_numbers_and_by_tensors_of_any_protocol(device: Any) -> None:
    tensor = xd.zeros((3, 4), dtype="int64", device=device)
    array: Any = np.zeros((3, 4), int)
    changes: list[Any] = [
        (0, 7),
        ((slice(None), 1), [1, 2, 3]),
        ((1, slice(None, None, -1)), np.arange(4)),
        (slice(1, None), np.arange(4)),
        ((..., slice(2)), [[5], [6], [7]]),
        ((2, 3), 9),
        (..., np.arange(12).reshape(1, 3, 4)),
    ]
    for key, value in changes:
        tensor[key] = value
        array[key] = value
        assert tensor.tolist() == array.tolist(), (key, value)
    tensor[0] = xd.ones(4, dtype="int64", device=device)
    tensor[1, 1] = xd.asarray(50)
    assert tensor[0].tolist() == [1] * 4 and tensor[1, 1].item() == 50


def test_an_assignment_that_cannot_be_is_refused_and_changes_nothing() -> None:
    tensor = xd.asarray(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="shape"):
        tensor[...] = np.ones(2)
    with pytest.raises(TypeError, match="no number"):
        tensor[0, 0] = "1"
    with pytest.raises(TypeError, match="does not"):
        tensor[...] = np.ones(3, dtype=np.float32)
    with pytest.raises(IndexError):
        tensor[5] = 1
    with pytest.raises(ValueError, match="read-only"):
        xd.asarray(b"abc")[0] = 1
    assert tensor.tolist() == [[0] * 3] * 2


def test_an_element_is_repeated_bit_for_bit() -> None:
    signalling = np.array(0x7FA00001, np.uint32).view(np.float32)
    tensor = xd.zeros((2, 2), dtype="float32")
    tensor[...] = signalling
    assert np.unique(tensor.numpy().view(np.uint32)).tolist() == [0x7FA00001]
    vectors = xd.empty((2, 3), dtype="int8x4")
    vectors[...] = vectors[1, 2]
    assert len({vectors[at].raw().numpy().tobytes() for at in ((0, 0), (1, 1), (1, 2))}) == 1
    halves = xd.zeros(3, dtype="complex32")
    halves[1:] = xd.asarray(1.5 - 2j, dtype="complex32")
    assert halves.tolist() == [0, 1.5 - 2j, 1.5 - 2j]


def test_overlapping_parts_are_copied_as_if_at_once() -> None:
    array = np.arange(8)
    tensor = xd.asarray(array)
    tensor[1:] = tensor[:-1]
    assert array.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    tensor[...] = tensor[::-1]
    assert array.tolist() == [6, 5, 4, 3, 2, 1, 0, 0]


@pytest.mark.parametrize("shape, strides", [((4,), (0,)), ((3, 3), (4, 4)), ((2, 3), (0, 4))])
def test_elements_that_overlap_are_not_written(shape: Any, strides: Any) -> None:
    array = np.arange(9, dtype=np.int32)
    view = np.lib.stride_tricks.as_strided(array, shape, strides)
    tensor = xd.from_dlpack(view)
    last, one = np.zeros(shape[-1], np.int32), xd.asarray(5, dtype="int32")
    for value in (5, [5], [[5]] if len(shape) > 1 else [5], last, one, tensor.copy()):
        with pytest.raises(ValueError, match=r"overlap along the axes \[0"):
            tensor[...] = value
    with pytest.raises(ValueError, match="overlap"):
        tensor.fill(1)
    assert array.tolist() == list(range(9)) and tensor.tolist() == view.tolist()


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_packed_parts_that_end_inside_a_byte_keep_their_neighbours(device: Any) -> None:
    whole = [1, 2, 3, 4, 5, 6]
    for dtype, value in (("int4", 7), ("float6_e2m3fn", 0.5), ("uint4", 15)):
        for new in (value, [value] * 3, None):
            for part, left in ((slice(0, 3), whole[3:]), (slice(4, 1, -1), [1, 2, 6])):
                tensor = xd.asarray(whole, dtype=dtype, device=device)
                if new is None:
                    tensor[part].fill(value)
                else:
                    tensor[part] = new
                assert tensor[part].tolist() == [value] * 3
                assert [kept for kept in tensor.tolist() if kept != value] == left


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_device_memory_that_came_back_as_an_array_overlaps_itself(device: Any) -> None:
    tensor = xd.asarray(np.arange(1 << 20, dtype=np.int32), device=device).copy()
    array = tensor.to("cpu").numpy()
    tensor[1:] = array[:-1]
    assert tensor.tolist() == [0, *range((1 << 20) - 1)]


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_fill_repeats_a_number_in_any_part(device: Any) -> None:
    for dtype in ("bool", "uint8", "float16", "float64", "complex128", "bfloat16"):
        tensor = xd.zeros((3, 3), dtype=dtype, device=device)
        tensor.T[::2].fill(1)
        assert tensor.tolist() == [[1, 0, 1]] * 3
    for dtype in ("int4", "float6_e2m3fn", "int64"):
        nothing = xd.empty((0, 3), dtype=dtype, device=device)
        nothing.fill(1)
        nothing[...] = [1, 2, 3]


def test_copies_are_writable_compact_and_independent() -> None:
    tensor = xd.asarray(np.arange(6).reshape(2, 3)).T
    for made in (tensor.copy(), copy.copy(tensor), copy.deepcopy([tensor])[0]):
        assert made.contiguous and made.tolist() == tensor.tolist()
        made[0, 0] = 9
        assert tensor[0, 0].item() == 0
    assert not xd.asarray(b"abc").copy().readonly


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["int64", "bool", "bfloat16", "int4", "complex64"])
def test_host_tensors_are_pickled(protocol: Any, dtype: Any) -> None:
    """Bug 35."""
    for tensor in (
        xd.ones((2, 3), dtype=dtype),
        xd.ones((2, 4), dtype=dtype)[:, ::2],
        xd.ones((), dtype=dtype),
        xd.ones((0, 2), dtype=dtype),
    ):
        back = pickle.loads(pickle.dumps(tensor, protocol))
        assert (back.shape, back.dtype) == (tensor.shape, tensor.dtype)
        assert back.tolist() == tensor.tolist() and not back.readonly


def test_a_pickle_of_protocol_5_keeps_the_bytes_out_of_band_and_uncopied() -> None:
    tensor = xd.asarray(np.arange(1000.0))
    outside: list[Any] = []
    packed = pickle.dumps(tensor, protocol=5, buffer_callback=outside.append)
    assert len(packed) < 300 and len(outside) == 1
    back = pickle.loads(packed, buffers=outside)
    assert back.data_ptr() == tensor.data_ptr() and back.tolist() == tensor.tolist()
    assert pickle.loads(pickle.dumps(xd.asarray(b"abc"), 5)).readonly


def test_dtypes_are_pickled_and_copied() -> None:
    for dtype in (xd.bfloat16, xd.float4_e2m1fn, xd.zeros(1, dtype="bool").dtype):
        assert copy.deepcopy({"dtype": dtype})["dtype"] == dtype
        assert pickle.loads(pickle.dumps(dtype)) == dtype


@needs_opencl
def test_device_tensors_are_not_pickled_and_the_error_says_what_to_do() -> None:
    """Bug 35."""
    with pytest.raises(TypeError, match=r'\.to\("cpu"\)'):
        pickle.dumps(xd.ones(3, device=OPENCL))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (xd.asarray([1, 20, 3]), "crossdock.Tensor([ 1, 20,  3], dtype=int64, device='cpu:0')"),
        (xd.asarray(2.5), "crossdock.Tensor(2.5, dtype=float64, device='cpu:0')"),
        (xd.asarray([0.1], dtype="float32"),
         "crossdock.Tensor([0.1], dtype=float32, device='cpu:0')"),
        (xd.asarray([True]), "crossdock.Tensor([True], dtype=bool, device='cpu:0')"),
        (xd.asarray([1 - 2j]), "crossdock.Tensor([1.-2.j], dtype=complex128, device='cpu:0')"),
        (xd.asarray([float("nan"), -float("inf")]),
         "crossdock.Tensor([ nan, -inf], dtype=float64, device='cpu:0')"),
        (xd.zeros((0, 3)), "crossdock.Tensor([], shape=(0, 3), dtype=float64, device='cpu:0')"),
        (xd.asarray([[1, 2], [3, 4]]),
         "crossdock.Tensor([[1, 2],\n                  [3, 4]], dtype=int64, device='cpu:0')"),
        (xd.asarray(range(2000)),
         "crossdock.Tensor([   0,    1,    2, ..., 1997, 1998, 1999],\n"
         "                 shape=(2000,), dtype=int64, device='cpu:0')"),
    ],
)  # fmt: skip
def test_the_text_shows_the_values_that_the_host_reaches(tensor: Any, text: Any) -> None:
    assert repr(tensor) == text


def test_the_text_of_a_large_tensor_is_short() -> None:
    text = repr(xd.zeros((1000, 1000, 10)))
    assert text.count("\n") < 60 and "..." in text and "shape=(1000, 1000, 10)" in text


def test_the_text_of_many_short_axes_has_no_values() -> None:
    text = repr(xd.asarray(np.broadcast_to(np.float32(1), (2,) * 40)))
    assert text.startswith("<crossdock.Tensor shape=(2, 2, ") and "float32" in text


def test_a_text_of_no_elements_makes_no_rows() -> None:
    assert repr(xd.zeros((1 << 40, 0), dtype="u1")) == (
        "crossdock.Tensor([], shape=(1099511627776, 0), dtype=uint8, device='cpu:0')"
    )


class Interrupted(ValueError):
    """What a signal handler raises, or a number's own method."""


class Interrupting:
    def __index__(self) -> int:
        raise Interrupted


@pytest.mark.parametrize(
    "call",
    [lambda t: t[Interrupting()], lambda t: t[0:Interrupting()], lambda t: t.reshape(Interrupting(), 2)],
)
def test_what_an_index_raises_arrives_unchanged(call: Any) -> None:
    with pytest.raises(Interrupted):
        call(xd.zeros((2, 2)))


def test_what_a_signal_handler_raises_leaves_a_text(child: Child) -> None:
    run = child("""
import signal
import crossdock as xd

class Interrupted(ValueError):
    pass

def handler(*_):
    raise Interrupted

tensor, caught = xd.zeros((30, 30)), 0
signal.signal(signal.SIGALRM, handler)
while caught < 20:
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        while True:
            repr(tensor)
    except Interrupted:
        caught += 1
""")
    assert run.returncode == 0, run.stderr



@needs_opencl
def test_the_text_of_a_device_tensor_does_not_move_it() -> None:
    text = repr(xd.ones((2, 3), device=OPENCL))
    assert text == f"<crossdock.Tensor shape=(2, 3) dtype=float64 device='{OPENCL}'>"


def test_lists_keep_their_shape_without_elements() -> None:
    for shape in [(0,), (2, 0), (2, 0, 3), (0, 2), (2, 3, 0)]:
        assert xd.zeros(shape).tolist() == np.zeros(shape).tolist()


def test_whether_a_value_is_in_a_tensor_is_not_answered_wrongly() -> None:
    for tensor in (xd.asarray([1.0, 3.0]), xd.asarray([[3.0]]), xd.asarray([])):
        with pytest.raises(TypeError, match=r"t\.tolist\(\)"):
            3.0 in tensor  # noqa: B015


def test_a_write_to_a_read_only_tensor_says_how_to_get_one_that_can_be_written() -> None:
    tensor = xd.asarray(b"abc")
    for value in (7, [1, 2, 3], np.zeros(3, dtype=np.uint8), np.zeros(1, dtype=np.uint8)):
        with pytest.raises(ValueError, match=r"^the tensor is read-only: `t\.copy\(\)`"):
            tensor[:] = value
        copied = tensor.copy()
        copied[:] = value
    with pytest.raises(ValueError, match=r"`t\.copy\(\)`"):
        tensor.fill(1)
    assert tensor.tolist() == [97, 98, 99]


def test_a_shape_is_one_sequence_or_one_integer_for_each_axis() -> None:
    tensor = xd.asarray(range(12))
    for view in (
        tensor.reshape(4, 3),
        tensor.reshape((4, 3)),
        tensor.reshape([4, 3]),
        tensor.reshape(-1, 3),
        tensor.reshape(np.int64(4), 3, copy=False),
    ):
        assert view.shape == (4, 3) and view.data_ptr() == tensor.data_ptr()
    assert tensor.reshape(12).shape == tensor.reshape(-1).shape == (12,)
    assert tensor[:1].reshape(()).shape == ()
    wrong: tuple[Any, ...] = ((), ((4, 3), 1), ("4", 3), ((4, 3), (1,)), (4.0, 3), (None,))
    for shape in wrong:
        with pytest.raises(TypeError):
            tensor.reshape(*shape)


def test_a_format_writes_the_value_of_a_0_d_tensor() -> None:
    tensor = xd.asarray([1.234, 5.0])
    assert f"{tensor[0]:.2f} {tensor[1]:>5}" == "1.23   5.0"
    assert f"{xd.asarray(255):#x}" == "0xff"
    assert f"{tensor[0]}" == str(tensor[0]) and f"{tensor}" == str(tensor)
    with pytest.raises(TypeError, match="only a 0-d tensor becomes a text by a format"):
        f"{tensor:.2f}"
    with pytest.raises(ValueError, match="format"):
        f"{tensor[0]:nonsense}"


@pytest.mark.parametrize("dtype", ["int4", "uint2", "float6_e2m3fn"])
def test_packed_elements_are_assigned_by_every_shape_that_numpy_repeats(dtype: str) -> None:
    sources = [((5,), [1, 0, 1, 1, 0]), ((3, 1), [1, 0, 1]), ((1, 5), [0, 1, 1, 0, 1]), ((3, 5), [1] * 15), ((), [1])]
    for shape, values in sources:
        tensor, judge = xd.zeros((3, 5), dtype=dtype), np.zeros((3, 5))
        judge[...] = np.reshape(values, shape)
        tensor[...] = xd.asarray(values, dtype=dtype).reshape(shape)
        assert tensor.tolist() == judge.tolist(), shape
    tensor = xd.zeros((3, 5), dtype=dtype)
    with pytest.raises(ValueError):
        tensor[...] = xd.ones((2, 5), dtype=dtype)
    assert tensor.tolist() == [[0] * 5] * 3


def test_packed_elements_take_arrays_of_ml_dtypes_and_the_other_way_round() -> None:
    theirs = np.array([1, -2, 3, -4], ml_dtypes.int4)
    packed, padded = xd.zeros((2, 4), dtype="int4"), xd.asarray(np.zeros(4, ml_dtypes.int4))
    packed[...] = theirs
    assert packed.tolist() == [[1, -2, 3, -4]] * 2
    packed[0] = theirs[::-1]
    assert packed.tolist() == [[-4, 3, -2, 1], [1, -2, 3, -4]]
    padded[...] = packed[0]
    assert padded.tolist() == [-4, 3, -2, 1]
