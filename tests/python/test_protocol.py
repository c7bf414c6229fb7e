"""`__dlpack__` and `from_dlpack`: who asks what, and in which order (rules 49 to 91)."""

import enum
import itertools
from typing import Any
from pathlib import Path

import crossdock as xd
import handmade
import numpy as np
import pytest


class Types(enum.IntEnum):
    """As newer producers state their device."""

    CPU = 1


class Plain(enum.Enum):
    """As some do."""

    CPU = 1


def tensor(dtype: Any = np.float32) -> xd.Tensor:
    return xd.from_dlpack(np.arange(6).astype(dtype).reshape(2, 3))


# 1.5: the producer.


def test_rule_49_keywords_are_keywords_and_no_others_are_known() -> None:
    with pytest.raises(TypeError):
        tensor().__dlpack__(*[None])
    with pytest.raises(TypeError, match="unexpected keyword argument 'streams'"):
        tensor().__dlpack__(**{"streams": None})
    tensor().__dlpack__(stream=None, max_version=None, dl_device=None, copy=None)


@pytest.mark.parametrize("device", [(1, 0), (Types.CPU, 0), (Plain.CPU, 0)])
def test_rule_53_dl_device_is_ints_or_members_of_an_enumeration(device: Any) -> None:
    capsule = tensor().__dlpack__(dl_device=device, max_version=(1, 3))
    assert handmade.struct_in(capsule).flags & 2 == 0


def test_rule_55_an_unknown_dl_device_is_a_buffer_error() -> None:
    with pytest.raises(xd.UnsupportedDeviceError):
        tensor().__dlpack__(dl_device=(2, 9), max_version=(1, 3))


@pytest.mark.parametrize("wanted", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_rules_50_51_52_the_version_is_the_highest_that_both_speak(wanted: Any) -> None:
    capsule = tensor().__dlpack__(max_version=wanted)
    is_new = wanted is not None and wanted[0] >= 1
    assert handmade.name_of(capsule) == (b"dltensor_versioned" if is_new else b"dltensor")
    if is_new:
        assert handmade.struct_in(capsule).major == 1


def test_rule_56_a_copy_is_a_copy_and_says_so() -> None:
    array = np.arange(6, dtype=np.float32)
    capsule = xd.from_dlpack(array).__dlpack__(copy=True, max_version=(1, 3))
    managed = handmade.struct_in(capsule)
    assert managed.flags & 2 and managed.tensor.data != array.ctypes.data


@pytest.mark.parametrize("copy", [False, None])
def test_rules_57_58_no_copy_where_none_is_asked_for(copy: Any) -> None:
    array = np.arange(6, dtype=np.float32)
    capsule = xd.from_dlpack(array).__dlpack__(copy=copy, max_version=(1, 3))
    managed = handmade.struct_in(capsule)
    assert managed.tensor.data == array.ctypes.data and managed.flags & 2 == 0


def test_rule_60_read_only_is_said_or_refused() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    ours = xd.from_dlpack(array)
    assert ours.readonly
    assert handmade.struct_in(ours.__dlpack__(max_version=(1, 3))).flags & 1
    for old in ({}, {"max_version": None}, {"max_version": (0, 9)}, {"version": 60}):
        with pytest.raises(BufferError):
            ours.__dlpack__(**old)


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"max_version": 1}, TypeError),
        ({"max_version": (1,)}, ValueError),
        ({"max_version": (1, 2, 3)}, ValueError),
        ({"max_version": ("1", "0")}, TypeError),
        ({"max_version": (-1, 0)}, ValueError),
        ({"max_version": (1 << 99, 0)}, ValueError),
        ({"stream": "1"}, TypeError),
        ({"stream": 1.5}, TypeError),
        ({"dl_device": 1}, TypeError),
        ({"dl_device": (1, "0")}, TypeError),
        ({"copy": "yes"}, TypeError),
    ],
)
def test_rule_62_wrong_arguments_are_type_or_value_errors(keywords: Any, error: Any) -> None:
    with pytest.raises(error):
        tensor().__dlpack__(**keywords)


@pytest.mark.parametrize("stream", [0, 1, 2, -1, 1 << 40])
def test_rule_63_a_device_without_streams_takes_none_only(stream: Any) -> None:
    tensor().__dlpack__(stream=None)
    with pytest.raises(ValueError):
        tensor().__dlpack__(stream=stream)


def opencl() -> xd.Tensor:
    """A tensor on an OpenCL device."""
    found = [device for device in xd.devices() if device.type == "opencl"]
    if not found:
        pytest.skip("no OpenCL device is here")
    return tensor().to(found[0])


@pytest.mark.parametrize("stream", [None, -1])
def test_opencl_takes_no_stream_and_no_order(stream: Any) -> None:
    managed = handmade.struct_in(opencl().__dlpack__(stream=stream, max_version=(1, 3)))
    assert managed.tensor.device_type == 4


@pytest.mark.parametrize("stream", [0, 1, 2, -2, 4096])
def test_opencl_refuses_a_handle_that_is_no_queue_of_ours(stream: Any) -> None:
    with pytest.raises(ValueError, match="OpenCL"):
        opencl().__dlpack__(stream=stream, max_version=(1, 3))


def test_opencl_takes_the_handles_of_its_default_queue_and_of_the_current_one() -> None:
    if not hasattr(xd, "Stream"):
        pytest.skip("needs crossdock.Stream")
    there = opencl()
    there.__dlpack__(stream=xd.current_stream(there.device).native_handle, max_version=(1, 3))


def test_rule_69_keywords_that_are_none_are_not_passed() -> None:
    producer = handmade.Producer(handmade.Forged())
    xd.from_dlpack(producer, device=None, copy=None)
    assert producer.calls == [("device", {}), ("dlpack", {"max_version": (1, 3)})]


# 1.6: the device.


def test_rule_70_the_device_is_a_pair_of_ints() -> None:
    pair = tensor().__dlpack_device__()
    assert pair == (1, 0) and [type(part) for part in pair] == [int, int]


# 1.7: the consumer.


def test_rule_73_x_is_positional_and_needs_both_methods() -> None:
    keyword: Any = xd.from_dlpack
    with pytest.raises(TypeError):
        keyword(x=np.zeros(3))
    with pytest.raises(TypeError):
        keyword(np.zeros(3), None)
    with pytest.raises(AttributeError):
        keyword([1, 2])
    only_one = type("OnlyOne", (), {"__dlpack__": lambda self, **k: None})
    with pytest.raises(AttributeError):
        xd.from_dlpack(only_one())


def test_rule_74_one_that_does_not_know_the_version_is_asked_without() -> None:
    forged = handmade.Forged(version=None)

    class Old:
        def __dlpack_device__(self) -> Any:
            return 1, 0

        def __dlpack__(self, stream: Any = None) -> Any:
            return forged.capsule()

    ours = xd.from_dlpack(Old())
    assert ours.readonly and ours.shape == (2, 3)


def test_rule_74_a_capsule_of_the_other_kind_is_taken() -> None:
    assert xd.from_dlpack(handmade.Producer(handmade.Forged(version=None))).shape == (2, 3)


@pytest.mark.parametrize("keywords", [{}, {"copy": True}, {"copy": False}])
def test_rule_75_a_type_error_of_the_producer_is_the_one_that_is_shown(keywords: Any) -> None:
    class Fails:
        def __dlpack_device__(self) -> Any:
            return 1, 0

        def __dlpack__(self, **_keywords: Any) -> None:
            raise TypeError(f"mine {sorted(_keywords)}")

    with pytest.raises(TypeError, match="mine.*max_version"):
        xd.from_dlpack(Fails(), **keywords)


@pytest.mark.parametrize("where", ["__dlpack_device__", "__dlpack__"])
@pytest.mark.parametrize("error", [KeyError, RuntimeError, KeyboardInterrupt, BufferError])
def test_rule_76_what_the_producer_raises_is_raised(where: Any, error: Any) -> None:
    raised = error("theirs")

    class Fails(handmade.Producer):
        pass

    def fail(*_args: Any, **_keywords: Any) -> None:
        raise raised

    setattr(Fails, where, fail)
    with pytest.raises(error) as caught:
        xd.from_dlpack(Fails(handmade.Forged()))
    assert caught.value is raised


def test_rule_78_the_same_device_needs_no_copy_and_no_keyword() -> None:
    producer = handmade.Producer(handmade.Forged())
    ours = xd.from_dlpack(producer, device="cpu")
    assert ours.data_ptr() == producer.forged.address
    assert "dl_device" not in producer.calls[-1][1]


@pytest.mark.parametrize(
    "refusal", [BufferError, TypeError, ValueError, NotImplementedError, RuntimeError]
)
def test_rule_78_where_the_producer_cannot_reach_a_device_we_copy(refusal: Any) -> None:
    others = [device for device in xd.devices() if device.type != "cpu"]
    if not others:
        pytest.skip("no device beside the CPU is here")
    array = np.arange(6, dtype=np.float32)

    class Refuses:
        asked = []

        def __dlpack_device__(self) -> Any:
            return 1, 0

        def __dlpack__(self, **keywords: Any) -> Any:
            self.asked.append(sorted(keywords))
            if "dl_device" in keywords:
                raise refusal("not mine")
            return array.__dlpack__(max_version=(1, 3))

    producer = Refuses()
    ours = xd.from_dlpack(producer, device=others[0])
    assert ours.device == others[0]
    assert producer.asked == [["dl_device", "max_version"], ["max_version"]]
    assert np.array_equal(np.from_dlpack(ours.to("cpu")), array)


def test_rule_79_what_is_a_copy_already_is_not_copied_again() -> None:
    producer = handmade.Producer(handmade.Forged(flags=2))
    ours = xd.from_dlpack(producer, copy=True)
    assert ours.data_ptr() == producer.forged.address
    assert producer.calls[-1][1] == {"max_version": (1, 3), "copy": True}


def test_rule_80_a_producer_that_ignores_copy_is_copied_here() -> None:
    producer = handmade.Producer(handmade.Forged())
    producer.forged.floats()[0] = 7
    ours = xd.from_dlpack(producer, copy=True)
    producer.forged.floats()[0] = 8
    assert ours.data_ptr() != producer.forged.address
    assert np.from_dlpack(ours)[0, 0] == 7
    assert producer.forged.deleted == 1


@pytest.mark.parametrize("refusal", [BufferError, TypeError, NotImplementedError])
def test_rule_80_a_producer_that_cannot_copy_is_copied_here(refusal: Any) -> None:
    class Refuses(handmade.Producer):
        def __dlpack__(self, **keywords: Any) -> Any:
            if "copy" in keywords:
                raise refusal("no copies")
            return super().__dlpack__(**keywords)

    producer = Refuses(handmade.Forged())
    assert xd.from_dlpack(producer, copy=True).data_ptr() != producer.forged.address


def test_rule_81_a_forbidden_copy_is_both_errors() -> None:
    assert issubclass(xd.CopyRequiredError, (BufferError, ValueError))
    assert issubclass(xd.CopyRequiredError, BufferError)
    assert issubclass(xd.CopyRequiredError, ValueError)


def test_bug_32_copy_false_to_another_device_is_both_errors() -> None:
    others = [device for device in xd.devices() if device.type != "cpu"]
    if not others:
        pytest.skip("no device beside the CPU is here")
    # An odd address: nothing can use it in place.
    array = np.frombuffer(bytearray(103), dtype=np.uint8)[3:]
    try:
        shared = xd.from_dlpack(array, device=others[0], copy=False)
    except xd.CopyRequiredError as error:
        assert isinstance(error, BufferError) and isinstance(error, ValueError)
    else:
        assert shared.device == others[0]


def test_rule_83_the_device_is_asked_for_first() -> None:
    producer = handmade.Producer(handmade.Forged())
    xd.from_dlpack(producer)
    assert [name for name, _ in producer.calls] == ["device", "dlpack"]


@pytest.mark.parametrize("version", [(1, 3), None])
def test_rule_83_a_device_that_changes_is_an_error(version: Any) -> None:
    forged = handmade.Forged(device=(1, 0), version=version)
    with pytest.raises(BufferError, match="exported one on"):
        xd.from_dlpack(handmade.Producer(forged, stated=(1, 1)))
    assert forged.deleted == 1


@pytest.mark.parametrize("flags", [0, 1])
def test_rules_84_85_a_flag_says_whether_it_may_be_written(flags: Any) -> None:
    assert xd.from_dlpack(handmade.Forged(flags=flags).capsule()).readonly == bool(flags)


def test_rule_85_a_legacy_tensor_is_read_only_unless_copied() -> None:
    assert xd.from_dlpack(handmade.Producer(handmade.Forged(version=None))).readonly
    assert not xd.from_dlpack(handmade.Producer(handmade.Forged(version=None)), copy=True).readonly


def test_rule_86_flags_of_the_future_are_accepted() -> None:
    assert xd.from_dlpack(handmade.Forged(flags=1 << 40).capsule()).shape == (2, 3)


def test_rule_88_an_unsupported_device_fails_before_the_producer_exports() -> None:
    producer = handmade.Producer(handmade.Forged(device=(2, 7)))
    with pytest.raises(xd.UnsupportedDeviceError) as caught:
        xd.from_dlpack(producer)
    assert isinstance(caught.value, BufferError) and isinstance(caught.value, TypeError)
    assert [name for name, _ in producer.calls] == ["device"]


@pytest.mark.parametrize("device", [(3, 0), (11, 0), (13, 0)])
def test_rule_89_memory_that_the_host_can_read_is_imported_for_the_cpu(device: Any) -> None:
    ours = xd.from_dlpack(handmade.Producer(handmade.Forged(device=device)))
    assert ours.shape == (2, 3) and ours.device.type == "cpu"


def test_rule_90_any_id_of_the_cpu_is_accepted() -> None:
    forged = handmade.Forged(device=(1, 3))
    assert xd.from_dlpack(handmade.Producer(forged)).device.type == "cpu"


def test_rule_91_a_write_is_seen_on_both_sides() -> None:
    array = np.zeros(3)
    back = np.from_dlpack(xd.from_dlpack(array))
    back[1] = 5
    assert array[1] == 5
    array[2] = 6
    assert back[2] == 6
    assert "shares the memory unless a copy is needed" in str(xd.from_dlpack.__doc__)


@pytest.mark.parametrize(
    "answer", [None, 3, (1,), (1, 2, 3), ("cpu", 0), (1 << 40, 0), "ab", [1, 0]]
)
def test_a_device_that_is_no_pair_is_a_type_error(answer: Any) -> None:
    producer = handmade.Producer(handmade.Forged())
    producer.stated = answer
    if answer == [1, 0]:
        pytest.skip("a list of two ints is a pair to us")
    with pytest.raises(TypeError, match="__dlpack_device__ gave"):
        xd.from_dlpack(producer)


def test_a_producer_that_recurses_is_a_recursion_error() -> None:
    class Recurses:
        def __dlpack_device__(self) -> Any:
            return xd.from_dlpack(self).__dlpack_device__()

        __dlpack__ = None

    with pytest.raises(RecursionError):
        xd.from_dlpack(Recurses())


def test_bug_3_refused_exports_leak_nothing() -> None:
    import sys

    array = np.arange(3.0)
    array.flags.writeable = False
    ours = xd.from_dlpack(array)
    before = sys.getrefcount(array), sys.getrefcount(ours)
    for _ in range(10_000):
        with pytest.raises(BufferError):
            ours.__dlpack__()
    assert (sys.getrefcount(array), sys.getrefcount(ours)) == before


def test_bug_10_the_two_structs_are_never_confused() -> None:
    array = np.arange(6, dtype=np.float32)
    for version in (None, (1, 3)):
        ours = xd.from_dlpack(array.__dlpack__(max_version=version))
        assert ours.data_ptr() == array.ctypes.data


@pytest.mark.parametrize("version", [(1, 1), None])
def test_bug_11_strides_that_are_null_mean_compact(version: Any) -> None:
    forged = handmade.Forged((2, 3, 4), version=version, no_strides=True)
    assert xd.from_dlpack(forged.capsule()).strides == (12, 4, 1)


def test_bug_12_the_offset_is_honoured_also_when_exported_again() -> None:
    forged = handmade.Forged((2,), byte_offset=8)
    forged.floats()[2] = 5
    ours = xd.from_dlpack(forged.capsule())
    assert ours.data_ptr() == forged.address + 8
    managed = handmade.struct_in(ours.__dlpack__(max_version=(1, 3))).tensor
    assert managed.data + managed.byte_offset == forged.address + 8
    assert np.from_dlpack(ours)[0] == 5


def test_bug_14_negative_strides_stay_inside_the_memory() -> None:
    forged = handmade.Forged((3,), strides=(-1,), byte_offset=8)
    forged.floats()[0:3] = [1, 2, 3]
    ours = xd.from_dlpack(forged.capsule())
    assert np.from_dlpack(ours).tolist() == [3, 2, 1]
    assert np.from_dlpack(xd.from_dlpack(np.from_dlpack(ours)[::-1])).tolist() == [1, 2, 3]


def test_bug_15_bool_is_bool_and_uint8_is_uint8() -> None:
    for dtype, ours in ((np.bool_, xd.bool), (np.uint8, xd.uint8)):
        there = tensor(dtype)
        assert there.dtype == ours and np.from_dlpack(there).dtype == dtype


def test_bug_16_a_read_only_map_stays_read_only(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(64))
    mapped = np.memmap(path, dtype=np.float32, mode="r")
    back = np.from_dlpack(xd.from_dlpack(mapped))
    assert not back.flags.writeable


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), (1, 8, 0, 128)])
def test_bug_17_empty_shapes_go_both_ways(shape: Any) -> None:
    ours = xd.from_dlpack(np.zeros(shape, np.int16))
    assert ours.shape == shape and np.from_dlpack(ours).shape == shape
    assert xd.from_dlpack(handmade.Forged(shape, data=0).capsule()).shape == shape


def test_bug_33_one_that_knows_only_stream_gets_nothing_else() -> None:
    forged = handmade.Forged(version=None)

    class Old:
        def __dlpack_device__(self) -> Any:
            return 1, 0

        def __dlpack__(self, *, stream: Any = None) -> Any:
            return forged.capsule()

    assert xd.from_dlpack(Old(), device="cpu", copy=True).shape == (2, 3)
    assert forged.deleted == 1


def test_bug_9_every_dtype_is_read_or_refused() -> None:
    read = 0
    for code in range(256):
        for bits in (1, 4, 6, 8, 16, 24, 32, 64, 128):
            for lanes in (0, 1, 2, 4):
                forged = handmade.Forged((2,), dtype=(code, bits, lanes), size=256)
                try:
                    ours = xd.from_dlpack(forged.capsule())
                except BufferError:
                    pass
                else:
                    read += 1
                    assert (ours.dtype.bits, ours.dtype.lanes) == (bits, lanes)
                    del ours
                assert forged.deleted == 1
    assert read > 30


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c8"])
def test_bug_31_the_other_byte_order_is_refused(dtype: Any) -> None:
    with pytest.raises(BufferError):
        xd.from_dlpack(np.zeros(3, dtype))


@pytest.mark.parametrize("shape", itertools.product([0, 1, 3], repeat=3))
def test_rule_18_bug_29_strides_of_extents_of_one_and_none_do_not_matter(shape: Any) -> None:
    compact = (shape[1] * shape[2], shape[2], 1)
    for odd in (77, 0, -5, 1 << 40):
        strides = tuple(
            step if extent == 3 else odd for extent, step in zip(shape, compact, strict=True)
        )
        ours: Any = xd.from_dlpack(handmade.Forged(shape, strides=strides).capsule())
        assert ours.contiguous and ours.reshape(-1, copy=False).size == ours.size
        assert np.from_dlpack(ours.copy()).flags.c_contiguous


@pytest.mark.parametrize("version", [(1, 3), None])
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1, 4), (100, 1)),
        ((4, 1), (1, 77)),
        ((1,), (-5,)),
        ((1, 1, 3), (0, 1 << 62, 1)),
        ((2, 1, 3), (3, 9, 1)),
        ((1, 1, 1, 1), (1, 2, 3, 4)),
        ((1, 0), (5, 1)),
    ],
)
def test_strides_of_axes_of_one_element_stay_as_the_producer_has_them(
    shape: Any, strides: Any, version: Any
) -> None:
    """Rule 18: they mean nothing, and a consumer that compares them sees the producer's."""
    forged = handmade.Forged(shape, strides=strides, version=version)
    ours = xd.from_dlpack(forged.capsule())
    assert ours.strides == strides and ours.contiguous
    managed = handmade.exported(ours)
    assert tuple(managed.tensor.strides[: len(shape)]) == strides
    assert ours.copy().contiguous


def test_strides_of_axes_of_one_element_of_a_real_producer_stay() -> None:
    """NumPy says in `__dlpack__` what it says in `strides`."""
    array = np.lib.stride_tricks.as_strided(np.zeros(8), (1, 4, 1), (800, 8, 24))
    assert xd.from_dlpack(array).strides == xd.asarray(array).strides == (100, 1, 3)
