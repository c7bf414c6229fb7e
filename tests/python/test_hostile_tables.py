"""Exchange tables and descriptions of memory that lie: an exception each time, and no leak."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from typing import Any

import crossdock as xd
import numpy as np
import pytest
import structs
from accelerators import Accelerators
from handmade import Forged, Producer
from structs import new_capsule
from test_exchange_table import ALLOCATE, FROM, NAME, SET_ERROR, STREAM, TO, VIEW, Table, ours

REFUSALS = (BufferError, TypeError, ValueError, OverflowError, AttributeError)


class Forgery:
    """A table whose functions are given; those that are not are NULL."""

    def __init__(self, major: int = 1, **functions: Any) -> None:
        self.table = Table(major=major, minor=3)
        for name, function in functions.items():
            setattr(self.table, name, ctypes.cast(function, ctypes.c_void_p))
        structs.kept.append((self, functions))

    def type(self, base: type = object, name: bytes | None = b"dlpack_exchange_api") -> Any:
        """A type that publishes the table."""
        structs.kept.append(name)
        capsule = new_capsule(ctypes.addressof(self.table), name, None)
        return type("Forged", (base,), {NAME: capsule})


def exports(forged: Forged, answer: int = 0) -> Any:
    """An export function that gives the forged struct."""

    def export(_x: object, out: Any) -> int:
        out[0] = ctypes.addressof(forged.managed)
        return answer

    return FROM(export)


def stream(answer: int = 0, native: int | None = None) -> Any:
    def current(_type: int, _id: int, out: Any) -> int:
        out[0] = native
        return answer

    return STREAM(current)


def test_rule_96_a_table_without_its_functions_is_not_used() -> None:
    """The object is asked by its methods."""
    for functions in ({}, {"from_object": exports(Forged())}, {"stream": stream()}):
        forged = Forged((5,))
        kind = Forgery(**functions).type(Producer)
        tensor = xd.from_dlpack(kind(forged))
        assert tensor.shape == (5,)
        del tensor
        assert forged.deleted == 1


@pytest.mark.parametrize("name", [b"dlpack_exchange", b"dltensor", b"", None])
def test_rule_93_a_capsule_of_another_name_is_no_table(name: bytes | None) -> None:
    forged = Forged((5,))
    kind = Forgery(from_object=exports(Forged()), stream=stream()).type(Producer, name)
    assert xd.from_dlpack(kind(forged)).shape == (5,)


@pytest.mark.parametrize("major", [0, 2, 99, 2**32 - 1])
def test_rule_95_a_table_of_another_version_without_an_older_one_is_not_used(major: int) -> None:
    forged = Forged((5,))
    kind = Forgery(major, from_object=exports(Forged()), stream=stream()).type(Producer)
    assert xd.from_dlpack(kind(forged)).shape == (5,)


def test_rule_95_tables_that_name_each_other_as_their_older_one_end() -> None:
    first, second = Forgery(2), Forgery(3)
    first.table.prev = ctypes.addressof(second.table)
    second.table.prev = ctypes.addressof(first.table)
    itself = Forgery(9)
    itself.table.prev = ctypes.addressof(itself.table)
    for forgery in (first, itself):
        assert xd.from_dlpack(forgery.type(Producer)(Forged((5,)))).shape == (5,)


OLDER = """
import ctypes, mmap, sys
import crossdock as xd
from handmade import Forged, Producer
from test_exchange_table import Table
from test_hostile_tables import Forgery, exports, stream

libc = ctypes.CDLL(None, use_errno=True)
page = mmap.PAGESIZE
two = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(two))
assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
good = Forgery(from_object=exports(Forged((7,))), stream=stream()).table
whole = ctypes.addressof(good)

def shape_by(prev, major=2):
    forgery = Forgery(major, from_object=exports(Forged()), stream=stream())
    forgery.table.prev = prev
    return xd.from_dlpack(forgery.type(Producer)(Forged((5,)))).shape
"""

NOWHERE = """
# Nowhere, at no multiple of 8, where nothing may be read, and a table that ends there.
for prev in (1, 8, 4096, 1 << 46, (1 << 64) - 8, whole + 1, start + page, start + page - 8):
    assert shape_by(prev) == (5,), prev
cut = start + page - 16
ctypes.memmove(cut, whole, 16)
assert shape_by(cut) == (5,)
# A header that may be read, whose own older one may not.
ctypes.memmove(cut, ctypes.addressof(Table(major=3, prev=start + page)), 16)
assert shape_by(cut) == (5,)
assert shape_by(whole) == (7,)
"""

FORBIDDEN = """
assert shape_by(whole) == (7,)
number = {"x86_64": 310, "aarch64": 270}[__import__("os").uname().machine]
# Of the call's number: this one fails with EPERM, all others go on.
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
packed = b"".join(__import__("struct").pack("=HBBI", *rule) for rule in rules)
filters = ctypes.create_string_buffer(packed)
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(filters))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    print("skipped: the system takes no filter of calls")
    sys.exit()
assert shape_by(whole) == (5,)
# What the capsule itself holds needs no such call.
assert shape_by(None, major=1) == (2, 3)
"""


@pytest.mark.parametrize("program", [NOWHERE, FORBIDDEN], ids=["nowhere", "forbidden"])
def test_rule_95_the_older_table_of_another_version_is_read_without_a_crash(
    child: Any, program: str
) -> None:
    """Where the system forbids the call that cannot crash, such a table counts as absent."""
    run = child(OLDER + program)
    assert run.returncode == 0, run.stderr
    if run.stdout.startswith("skipped"):
        pytest.skip(run.stdout)


def test_rule_95_a_table_is_looked_for_once_for_each_type() -> None:
    asked = []

    class Attribute:
        """What the class has for the table."""

        def __get__(self, x: object, kind: object) -> Any:
            asked.append(kind)
            return capsule

    for major, shape in ((1, (2, 3)), (2, (5,))):
        forgery = Forgery(major, from_object=exports(Forged()), stream=stream())
        capsule = getattr(forgery.type(), NAME)
        kind = type("Kind", (Producer,), {NAME: Attribute()})
        for _ in range(3):
            assert xd.from_dlpack(kind(Forged((5,)))).shape == shape
        # Another type in between: the last one is not all that is known.
        xd.from_dlpack(np.zeros(2))
        assert xd.from_dlpack(kind(Forged((5,)))).shape == shape
        assert asked.count(kind) == 1


@pytest.mark.parametrize("error", [KeyError("mine"), MemoryError("mine"), KeyboardInterrupt()])
def test_rule_98_the_exception_of_a_table_arrives(error: BaseException) -> None:
    """The function of C that asks an object for its truth fails as the export function does."""

    class Base:
        def __bool__(self) -> bool:
            raise error

    kind = Forgery(from_object=ctypes.pythonapi.PyObject_IsTrue, stream=stream()).type(Base)
    choices: list[dict[str, Any]] = [{}, {"copy": True}]
    for keywords in choices:
        with pytest.raises(type(error)) as caught:
            xd.from_dlpack(kind(), **keywords)
        assert caught.value is error


@pytest.mark.parametrize("answer", [-1, 1, 7, -(2**31)])
def test_rule_98_any_answer_but_0_is_a_failure(answer: int) -> None:
    forgery = Forgery(from_object=FROM(lambda x, out: answer), stream=stream())
    for keywords in ({}, {"copy": True}, {"device": "cpu"}, {"copy": False}):
        with pytest.raises(REFUSALS):
            xd.from_dlpack(forgery.type()(), **keywords)


def test_rule_98_success_without_a_tensor_is_a_buffer_error() -> None:
    forgery = Forgery(from_object=FROM(lambda x, out: 0), stream=stream())
    with pytest.raises(BufferError, match="exported nothing"):
        xd.from_dlpack(forgery.type()())


MALFORMED: dict[str, dict[str, Any]] = {
    "a version of the future": {"version": (99, 0)},
    "a negative rank": {"ndim": -1},
    "a rank of a billion": {"ndim": 1 << 30},
    "a negative extent": {"shape": (2, -3)},
    "no memory": {"data": 0},
    "a dtype of the future": {"dtype": (99, 32, 1)},
    "a device of the future": {"device": (99, 0)},
    "a device that is not here": {"device": (2, 77)},
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_tensor_of_a_table_is_refused_and_given_back(fields: dict[str, Any]) -> None:
    forged = Forged(**fields)
    kind = Forgery(from_object=exports(forged), stream=stream()).type()
    with pytest.raises(REFUSALS):
        xd.from_dlpack(kind())
    assert forged.deleted == 1


@pytest.mark.parametrize("answer", [-1, 5])
def test_a_stream_function_that_fails_without_an_exception_is_an_error(
    accelerators: Accelerators, answer: int
) -> None:
    forged = Forged((4,), data=accelerators.make("cuda:0"), device=(2, 0))
    kind = Forgery(from_object=exports(forged), stream=stream(answer)).type()
    with pytest.raises(BufferError, match="no stream"):
        xd.from_dlpack(kind())
    assert forged.deleted == 1


def test_the_stream_of_a_table_is_waited_for(accelerators: Accelerators) -> None:
    forged = Forged((4,), data=accelerators.make("cuda:0"), device=(2, 0))
    kind = Forgery(from_object=exports(forged), stream=stream(native=4096)).type()
    accelerators.hold()
    tensor = xd.from_dlpack(kind())
    tensor.__dlpack__(stream=8192, max_version=(1, 3))
    log = accelerators.log()
    assert any(line.startswith("record cuda:0/4096") for line in log), log
    assert any(line.startswith("wait cuda:0/8192") for line in log), log


def test_a_type_that_changes_its_table_meanwhile_is_read_as_it_was_first() -> None:
    """What a type publishes is cached for the type: a new table needs a new type."""
    forged = Forged()
    kind = Forgery(from_object=exports(forged), stream=stream()).type(Producer)
    assert xd.from_dlpack(kind(Forged((5,)))).shape == (2, 3)
    delattr(kind, NAME)
    assert xd.from_dlpack(kind(Forged((5,)))).shape in ((2, 3), (5,))


class Meta(type):
    """A class that lies about itself."""

    def __getattribute__(cls, name: str) -> Any:
        if name in (NAME, "__dict__", "__mro__", "__name__", "__qualname__", "__module__"):
            raise RuntimeError(f"{name} is not for you")
        return super().__getattribute__(name)


def test_a_class_that_raises_is_shown_or_asked_by_its_methods() -> None:
    forged = Forged((5,))
    kind = Meta("Lying", (Producer,), {NAME: None})
    try:
        assert xd.from_dlpack(kind(forged)).shape == (5,)
    except RuntimeError as raised:
        assert "not for you" in str(raised)


# Our own functions, called wrongly.


@pytest.mark.parametrize(
    "call",
    [
        lambda: FROM(ours().from_object)(3, ctypes.byref(ctypes.c_void_p())),
        lambda: FROM(ours().from_object)(xd.zeros(2), None),
        lambda: TO(ours().to_object)(None, ctypes.byref(ctypes.c_void_p())),
        lambda: VIEW(ours().view)(3, None),
        lambda: VIEW(ours().view)(xd.zeros(2), None),
        lambda: STREAM(ours().stream)(1, 0, None),
        lambda: STREAM(ours().stream)(2, 99, ctypes.byref(ctypes.c_void_p())),
    ],
)
def test_rules_92_103_a_wrong_call_is_an_exception_and_no_crash(call: Any) -> None:
    with pytest.raises((BufferError, TypeError)):
        call()


def test_rules_92_103_a_tensor_is_taken_also_where_there_is_no_place_for_it() -> None:
    forged = Forged()
    with pytest.raises(BufferError):
        TO(ours().to_object)(ctypes.addressof(forged.managed), None)
    assert forged.deleted == 1


@pytest.mark.parametrize("has_report", [True, False])
def test_rules_92_99_103_the_allocator_survives_null_everywhere(has_report: bool) -> None:
    """Also without the GIL, which such a call does not hold."""
    told: list[bytes] = []
    report = SET_ERROR(lambda context, kind, message: told.append(kind))
    report = report if has_report else SET_ERROR()
    prototype, out = Forged((3,)).managed.tensor, ctypes.c_void_p()
    allocate = ALLOCATE(ours().allocate)
    assert allocate(None, ctypes.addressof(out), None, report) == -1
    assert allocate(prototype, None, None, report) == -1
    wrong = Forged((-3,)).managed.tensor
    assert allocate(wrong, ctypes.addressof(out), None, report) == -1
    assert out.value is None and len(told) == (3 if has_report else 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_rule_92_a_deleter_that_raises_disturbs_nobody() -> None:
    """Python prints what a callback raises; nobody unwinds."""

    def fails() -> None:
        raise ValueError("in a deleter")

    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for version in ((1, 3), None):
            forged = Forged(version=version, on_delete=fails)
            ours_ = xd.from_dlpack(forged.capsule())
            capsule = ours_.__dlpack__(max_version=(1, 3))
            del ours_, capsule
            assert forged.deleted == 1
            refused = Forged((-1,), version=version, on_delete=fails)
            with pytest.raises(BufferError):
                xd.from_dlpack(refused.capsule())
            assert refused.deleted == 1
    finally:
        sys.unraisablehook = hook


def heap() -> int:
    """The bytes that `malloc` has handed out."""
    libc = ctypes.CDLL(None)
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    kind = type("Info", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_size_t) for n in names]})
    libc.mallinfo2.restype = kind
    found: Any = libc.mallinfo2()
    return int(found.uordblks)


def test_rule_101_a_view_takes_no_memory() -> None:
    import handmade

    x, view = xd.zeros((2, 3)), handmade.Tensor()
    call, place = VIEW(ours().view), ctypes.byref(view)
    for _ in range(100):
        call(x, place)
    before = heap()
    for _ in range(10_000):
        call(x, place)
    # One allocation a call would be twenty times that.
    assert heap() - before < 16_384


# The CUDA array interface, with an address that a plugin knows.

WORDS: dict[str, dict[str, Any]] = {
    "a version that is none": {"version": None},
    "a version beyond 64 bits": {"version": 1 << 70},
    "a shape that is negative": {"shape": (-1,)},
    "a shape that is a set": {"shape": {2, 3}},
    "a shape that is a dict": {"shape": {}},
    "a shape that overflows": {"shape": (1 << 62, 1 << 62)},
    "a shape beyond 64 bits": {"shape": (1 << 70,)},
    "a shape that leaves the allocation": {"shape": (65,)},
    "a rank of 65": {"shape": (1,) * 65},
    "strides that leave the allocation": {"strides": (1 << 20,)},
    "strides before it": {"strides": (-4,)},
    "strides of another rank": {"strides": (4, 4)},
    "strides beyond 64 bits": {"strides": (1 << 70,)},
    "strides that overflow": {"strides": (1 << 62,)},
    "strides of parts of elements": {"strides": (3,)},
    "strides that are texts": {"strides": ("4",)},
    "an address that is negative": {"data": (-1, False)},
    "an address beyond 64 bits": {"data": (1 << 64, False)},
    "an address of nobody": {"data": (0x10, False)},
    "no address": {"data": (0, False)},
    "data of one word": {"data": (4096,)},
    "data of three": {"data": (4096, False, 0)},
    "data that is a text": {"data": ("4096", False)},
    "a type of another byte order": {"typestr": ">f4"},
    "a type of Python objects": {"typestr": "|O8"},
    "a type of the future": {"typestr": "<q9"},
    "a type without a size": {"typestr": "<f"},
    "an empty type": {"typestr": ""},
    "a type that is bytes": {"typestr": b"<f4"},
    "a stream of 0": {"stream": 0},
    "a stream of -1": {"stream": -1},
    "a stream that is a text": {"stream": "1"},
    "a stream beyond 64 bits": {"stream": 1 << 64},
    "a mask": {"mask": object()},
    "a structured type": {"descr": [("a", "<f4")]},
}


class Owner:
    """What has the interface, and can be watched."""

    def __init__(self, words: Any) -> None:
        self.__cuda_array_interface__ = words


def described(accelerators: Accelerators, **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"version": 3, "shape": (64,), "typestr": "<f4", "stream": None}
    return {**whole, "data": (accelerators.make("cuda:0"), False), **changes}


@pytest.mark.parametrize("changes", WORDS.values(), ids=WORDS)
def test_a_description_that_lies_is_refused_and_keeps_nothing(
    accelerators: Accelerators, changes: dict[str, Any]
) -> None:
    words = described(accelerators, **changes)
    owner = Owner(words)
    watch, before = weakref.ref(owner), accelerators.streams()
    for call in (xd.as_cuda_array, xd.asarray):
        with pytest.raises((*REFUSALS, NotImplementedError)):
            call(owner)
    with pytest.raises((*REFUSALS, NotImplementedError)):
        xd.from_cuda_array_interface(words, owner)
    assert accelerators.streams() == before
    del owner
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("words", [None, 3, "words", [], {}, object(), {"version": 3}])
def test_a_description_that_is_none_is_refused(accelerators: Accelerators, words: Any) -> None:
    for call in (xd.from_cuda_array_interface, lambda words: xd.as_cuda_array(Owner(words))):
        with pytest.raises((*REFUSALS, KeyError)):
            call(words)


class Changing(dict[str, Any]):
    """A description that is another one at every look."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self.clear()
        return value


class Raising(dict[str, Any]):
    """A description that cannot be looked at."""

    def __contains__(self, name: object) -> bool:
        raise RuntimeError("not for you")

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("not for you")


def test_a_description_that_changes_or_raises_is_an_exception(accelerators: Accelerators) -> None:
    for kind in (Changing, Raising):
        with pytest.raises((*REFUSALS, RuntimeError, KeyError)):
            xd.from_cuda_array_interface(kind(described(accelerators)))


def test_an_honest_description_is_taken(accelerators: Accelerators) -> None:
    """So that it is the lies that were refused above."""
    owner = Owner(described(accelerators))
    for call in (xd.as_cuda_array, xd.asarray):
        assert call(owner).shape == (64,)


# Streams that lie.


@pytest.mark.parametrize(
    "members",
    [
        {"__cuda_stream__": lambda self: None},
        {"__cuda_stream__": lambda self: (0,)},
        {"__cuda_stream__": lambda self: (0, -1)},
        {"__cuda_stream__": lambda self: (0, 1 << 70)},
        {"__cuda_stream__": lambda self: (9, 4096)},
        {"__cuda_stream__": lambda self: ("0", "4096")},
        {"__cuda_stream__": 7},
        {"ptr": None},
        {"ptr": -1},
        {"ptr": "4096"},
        {"cuda_stream": 1.5},
        {"int_ptr": object()},
        {},
    ],
    ids=repr,
)
@pytest.mark.parametrize("device", ["cuda:0", "rocm:0"])
def test_a_stream_that_lies_is_refused(
    accelerators: Accelerators, device: str, members: dict[str, Any]
) -> None:
    liar: Any = type("Liar", (), members)()
    tensor, before = xd.zeros(4, device=device), accelerators.streams()
    for call in (
        lambda: xd.Stream(device, native=liar),
        lambda: tensor.to(device, stream=liar, copy=True),
        lambda: tensor.fill(1, stream=liar),
        lambda: tensor.__dlpack__(stream=liar),
    ):
        with pytest.raises(REFUSALS):
            call()
    assert accelerators.streams() == before


def test_a_stream_that_raises_is_shown(accelerators: Accelerators) -> None:
    class Liar:
        def __cuda_stream__(self) -> Any:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        xd.Stream("cuda:0", native=Liar())


# Item assignment.


def values() -> dict[str, Any]:
    raises: Any = type("Raises", (), {"__dlpack__": lambda s, **k: 1 / 0})
    raises.__dlpack_device__ = lambda self: (1, 0)
    itself: list[Any] = []
    itself.append(itself)
    return {
        "a type": object,
        "an object": object(),
        "a text": "12",
        "none": None,
        "a dict": {},
        "a ragged list": [[1, 2], [3]],
        "a list that holds itself": itself,
        "an array of another shape": np.zeros((7, 7), np.float32),
        "an array of another dtype": np.zeros((2, 3), np.int8),
        "an array of another byte order": np.zeros((2, 3), ">f4"),
        "a producer that raises": raises(),
        "a producer that lies": Producer(Forged((2, -3))),
        "a capsule that lies": Forged((2, 3), data=0).capsule(),
        "no memory": Producer(Forged((2, 3), data=0)),
    }


@pytest.mark.parametrize("name", values())
@pytest.mark.parametrize("key", [..., 0, (0, 1), slice(None)], ids=repr)
def test_what_cannot_be_assigned_changes_nothing(name: str, key: Any) -> None:
    tensor = xd.full((2, 3), 5, dtype="float32")
    with pytest.raises((*REFUSALS, ZeroDivisionError, RecursionError)):
        tensor[key] = values()[name]
    assert tensor.tolist() == [[5] * 3] * 2


def test_a_producer_that_writes_the_tensor_it_is_assigned_to_does_no_harm() -> None:
    tensor = xd.zeros((2, 3), dtype="float32")

    class Itself:
        def __dlpack_device__(self) -> tuple[int, int]:
            tensor[...] = 1
            return (1, 0)

        def __dlpack__(self, **keywords: Any) -> Any:
            tensor.fill(2)
            return tensor.__dlpack__(**keywords)

    tensor[...] = Itself()
    assert tensor.tolist() == [[2] * 3] * 2


# Memory of OpenCL.


OPENCL = next((device for device in xd.devices() if device.type == "opencl"), None)


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
@pytest.mark.parametrize("mem", [0, -1, 0x10, 1 << 70, "mem", None, object(), 1.5], ids=repr)
def test_a_handle_that_is_none_is_refused(mem: Any) -> None:
    with pytest.raises(REFUSALS):
        xd.from_opencl(mem, shape=(4,), dtype="float32")


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
@pytest.mark.parametrize(
    "words",
    [
        {"shape": (-1,)},
        {"shape": (1 << 62, 1 << 62)},
        {"shape": "23"},
        {"shape": (5,)},
        {"dtype": "no"},
        {"dtype": None},
        {"offset": -4},
        {"offset": 1 << 70},
        {"offset": 4},
        {"offset": "4"},
    ],
    ids=repr,
)
def test_a_part_of_a_handle_that_is_none_is_refused(words: dict[str, Any]) -> None:
    memory = xd.zeros(4, dtype="float32", device=OPENCL)
    whole = {"shape": (4,), "dtype": "float32", **words}
    with pytest.raises(REFUSALS):
        xd.from_opencl(memory.cl_mem, **whole)
    assert memory.tolist() == [0] * 4
