"""Producers that lie: an exception each time, what was taken is given back once, Python lives on."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import crossdock as xd
import pytest
from conftest import Child
from forge import PADDED, Forged, Producer, forge, name_of, new_capsule

# No page is ever mapped here.
WILD = 0x10
HUGE = 1 << 62

Fields = dict[str, Any]

MALFORMED: dict[str, Fields] = {
    "a major version of the future": {"version": (99, 0)},
    "major version 0": {"version": (0, 9)},
    "a negative rank": {"ndim": -1},
    "a rank of 65": {"shape": (1,) * 65},
    "a rank of two billion": {"ndim": 2**31 - 1, "shape": None},
    "no shape": {"ndim": 2, "shape": None},
    "a negative extent": {"shape": (2, -3)},
    "the least extent": {"shape": (-(2**63),)},
    "a size that overflows": {"shape": (HUGE, HUGE)},
    "a size that overflows in bytes": {"shape": (HUGE,), "dtype": (2, 64, 1)},
    "strides that overflow": {"shape": (2, 2), "strides": (HUGE, HUGE)},
    "no memory": {"data": None},
    "an offset that overflows": {"byte_offset": 2**64 - 4},
    "a dtype without bits": {"dtype": (2, 0, 1)},
    "a dtype without lanes": {"dtype": (2, 32, 0)},
    "a dtype of the future": {"dtype": (99, 32, 1)},
    "a bool of one bit": {"dtype": (6, 1, 1)},
    "a float4 of eight bits": {"dtype": (17, 8, 1)},
    "a float of seven bits": {"dtype": (2, 7, 1)},
    "a device type of the future": {"device": (99, 0)},
    "device type 0": {"device": (0, 0)},
    "a negative device type": {"device": (-1, 0)},
    "a second CPU": {"device": (1, 1)},
    "a negative device id": {"device": (1, -1)},
    "an OpenCL handle that is none": {"device": (4, 0), "data": WILD},
    "an OpenCL handle that is a host address": {"device": (4, 0)},
}
VERSIONED_ONLY = {"a major version of the future", "major version 0"}
CASES = [
    pytest.param(fields, versioned, id=f"{name}, {'versioned' if versioned else 'legacy'}")
    for name, fields in MALFORMED.items()
    for versioned in (True, False)
    if versioned or name not in VERSIONED_ONLY
]


@pytest.mark.parametrize(("fields", "versioned"), CASES)
def test_a_malformed_tensor_is_refused_and_given_back(fields: Fields, versioned: bool) -> None:
    """Rules 6, 16, 24, 27, 36: an exception, the capsule is used up, one call of the deleter."""
    forged = forge(versioned=versioned, **fields)
    capsule = forged.capsule
    with pytest.raises((BufferError, TypeError, ValueError)):
        xd.from_dlpack(capsule)
    assert forged.deleted == 1
    assert name_of(capsule).startswith("used_")
    with pytest.raises((BufferError, TypeError, ValueError)):
        xd.from_dlpack(forge(versioned=versioned, **fields).producer())


@pytest.mark.parametrize("versioned", [True, False])
def test_a_malformed_tensor_without_a_deleter_is_refused(versioned: bool) -> None:
    """Rule 31: a deleter of NULL is not called."""
    with pytest.raises(BufferError):
        xd.from_dlpack(forge(versioned=versioned, data=None, deleter=False).capsule)


def test_fields_without_meaning_may_be_anything() -> None:
    """Rules 7 and 18: any minor version, and any stride of an extent of 1."""
    xd.from_dlpack(forge(version=(1, 99)).capsule)
    strided = xd.from_dlpack(forge(shape=(1, 4), strides=(-(2**63), 1)).capsule)
    assert strided.shape == (1, 4)


def test_a_struct_is_read_once() -> None:
    """A producer that changes its struct after the import changes nothing of ours."""
    forged = forge(shape=(2, 3))
    tensor = xd.from_dlpack(forged.capsule)
    forged.struct.tensor.ndim = 1 << 20
    forged.struct.tensor.shape = WILD
    forged.struct.tensor.data = WILD
    assert tensor.shape == (2, 3)
    copied = xd.from_dlpack(tensor, copy=True)
    assert copied.shape == (2, 3)
    del tensor, copied
    gc.collect()
    assert forged.deleted == 1


NUMBERS = [0, 1, 2, 3, 4, 8, 32, 64, 255, 2**31 - 1, -1, -(2**31), HUGE, -HUGE, 2**63 - 1, -(2**63)]


def test_headers_of_garbage_are_taken_or_refused_and_given_back() -> None:
    """Any numbers in every field: the deleter runs once, and nothing is read that is not there."""
    choose = random.Random(4)
    for _ in range(5_000):
        rank = choose.randrange(5)
        forged = forge(
            versioned=choose.random() < 0.5,
            shape=[choose.choice(NUMBERS) for _ in range(rank)],
            strides=choose.choice([None, [choose.choice(NUMBERS) for _ in range(rank)]]),
            dtype=(choose.randrange(256), choose.choice([1, 4, 8, 32, 255]), choose.randrange(3)),
            device=(choose.randrange(-1, 20), choose.randrange(-1, 3)),
            data=choose.choice([None, -1, WILD, 2**64 - 1]),
            byte_offset=choose.choice([0, 1, 8, HUGE, 2**64 - 1]),
            version=(choose.choice([0, 1, 1, 1, 2, 2**32 - 1]), choose.randrange(5)),
            flags=choose.choice([0, 1, 2, 4, 7, 2**64 - 1]),
        )
        try:
            tensor = xd.from_dlpack(forged.capsule)
            tensor.__dlpack__(max_version=(1, 3))
            del tensor
        except (BufferError, TypeError, ValueError, MemoryError):
            pass
        assert forged.deleted == 1, vars(forged.struct)


# Objects that lie.


def lying(**methods: Callable[..., Any]) -> Any:
    """An object of a new class with these methods, and `__dlpack_device__` of the CPU."""
    methods.setdefault("__dlpack_device__", lambda self: (1, 0))
    return type("Liar", (), methods)()


def raising(error: BaseException) -> Callable[..., Any]:
    def raise_(*_: Any, **__: Any) -> Any:
        raise error

    return raise_


ANSWERS = [None, 0, "capsule", b"", object(), [], (1, 2), float("nan"), type, sys]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_what_is_no_capsule_is_refused(answer: object) -> None:
    """Rule 45."""
    with pytest.raises((BufferError, TypeError)):
        xd.from_dlpack(lying(__dlpack__=lambda self, **_: answer))


@pytest.mark.parametrize(
    "name", [b"tensor", b"", b"dltensor_", b"used_dltensor", b"\xff\xfe", None]
)
def test_a_capsule_with_another_name_is_left_alone(name: bytes | None) -> None:
    """Rule 45: its pointer is not even read, and it keeps its name."""
    kept = None if name is None else ctypes.create_string_buffer(name)
    capsule = new_capsule(WILD, kept, None)
    for x in (capsule, lying(__dlpack__=lambda self, **_: capsule)):
        with pytest.raises((BufferError, TypeError, AttributeError)):
            xd.from_dlpack(x)


@pytest.mark.parametrize(
    "error", [ValueError("mine"), BufferError("mine"), KeyError("mine"), MemoryError("mine")]
)
@pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
def test_the_producers_exception_arrives(error: Exception, method: str) -> None:
    """Rule 76: unchanged, the same object."""
    forged = forge()
    methods = {"__dlpack__": lambda self, **_: forged.capsule, method: raising(error)}
    try:
        xd.from_dlpack(lying(**methods))
    except type(error) as caught:
        assert caught is error
    else:
        # `__dlpack_device__` need not be asked where no stream depends on it.
        assert method == "__dlpack_device__"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_exit_is_not_swallowed(error: BaseException) -> None:
    with pytest.raises(type(error)):
        xd.from_dlpack(lying(__dlpack__=raising(error)))


def test_a_type_error_of_the_producers_own_is_the_one_shown() -> None:
    """Rule 75: the second try, without keywords, does not hide the first one's reason."""

    def dlpack(self: object, **keywords: object) -> object:
        raise TypeError("from inside, the first time" if keywords else "the second time")

    with pytest.raises(TypeError, match="from inside"):
        xd.from_dlpack(lying(__dlpack__=dlpack))


def test_an_object_that_recurses_ends_in_an_exception() -> None:
    def dlpack(self: object, **_: object) -> object:
        return xd.from_dlpack(self)

    with pytest.raises((RecursionError, BufferError)):
        xd.from_dlpack(lying(__dlpack__=dlpack))


def test_an_attribute_that_raises_is_shown() -> None:
    class Raising:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError(f"{name} is not for you")

    with pytest.raises(RuntimeError, match="not for you"):
        xd.from_dlpack(Raising())


@pytest.mark.parametrize("method", [None, 3, "dlpack", lambda: None])
def test_a_method_that_is_none_is_refused(method: Any) -> None:
    with pytest.raises((TypeError, AttributeError, BufferError)):
        xd.from_dlpack(lying(__dlpack__=method))


def test_an_object_that_changes_its_class_meanwhile_is_read_as_it_was_asked() -> None:
    forged = forge()

    class Plain:
        pass

    class Changing:
        def __dlpack__(self, **_: object) -> object:
            self.__class__ = Plain  # type: ignore[assignment]
            return forged.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    tensor = xd.from_dlpack(Changing())
    assert tensor.shape == (2, 3)
    del tensor
    assert forged.deleted == 1


def test_the_same_capsule_from_every_call_is_taken_once() -> None:
    """Bug 6 and rule 43, also for a producer that keeps its capsule."""
    forged = forge()
    capsule = forged.capsule
    producer = lying(__dlpack__=lambda self, **_: capsule)
    first = xd.from_dlpack(producer)
    with pytest.raises(BufferError):
        xd.from_dlpack(producer)
    del first
    assert forged.deleted == 1


DEVICES = [None, 0, (), (1,), (1, 0, 0), ("cpu", 0), (1, None), (1 << 40, 0), (-1, -1), [1, 0]]


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_a_device_that_is_none_leads_to_an_exception_or_to_the_capsules(device: Any) -> None:
    """Rule 83: the capsule is authoritative; nothing is taken and forgotten."""
    forged = forge()
    producer = Producer(forged, device)
    try:
        tensor = xd.from_dlpack(producer)
        assert str(tensor.device) == "cpu:0"
        del tensor
    except (BufferError, TypeError, ValueError, OverflowError):
        pass
    assert forged.deleted == len(producer.asked)


@pytest.mark.parametrize("device", [(1, 1), (2, 0), (4, 0), (4, 99), (10, 0), (99, 0)])
def test_a_device_other_than_the_capsules_leads_to_no_wrong_tensor(device: tuple[int, int]) -> None:
    """Rule 83."""
    forged = forge()
    producer = Producer(forged, device)
    try:
        tensor = xd.from_dlpack(producer)
        assert str(tensor.device) == "cpu:0"
        del tensor
    except (BufferError, TypeError):
        pass
    assert forged.deleted == len(producer.asked)


# Arguments that lie.

NO_DEVICES = ["", "cpu:", "cpu:-1", "cpu:99999999999", "\0", "🦀", (1,), ("cpu",), 7, 1.5, [], {}]


@pytest.mark.parametrize("device", NO_DEVICES, ids=repr)
def test_a_device_that_is_none_is_refused(device: Any) -> None:
    tensor = xd.from_dlpack(forge().capsule)
    for call in (xd.device, tensor.to, lambda d: xd.from_dlpack(tensor, device=d)):
        with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
            call(device)


VERSIONS: list[Any] = ["1.3", (1,), (1, 2, 3), 1, (-1, 0), (1 << 40, 0), ("1", "3"), object()]


@pytest.mark.parametrize("version", VERSIONS, ids=repr)
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    forged = forge()
    tensor = xd.from_dlpack(forged.capsule)
    with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
        tensor.__dlpack__(max_version=version)
    del tensor
    assert forged.deleted == 1


def test_an_index_that_lies_about_itself_is_refused() -> None:
    class Index:
        def __index__(self) -> int:
            return "2"  # type: ignore[return-value]

    tensor = xd.from_dlpack(forge().capsule)
    with pytest.raises((TypeError, BufferError, ValueError)):
        tensor.to((Index(), 0))  # type: ignore[arg-type]


# Deleters.


def test_a_deleter_may_use_the_package_again() -> None:
    """A deleter is foreign code: it may import, export and drop."""
    forged, second = forge(), forge()

    def again() -> None:
        xd.from_dlpack(second.capsule)

    forged.when_deleted = again
    tensor = xd.from_dlpack(forged.capsule)
    del tensor
    assert (forged.deleted, second.deleted) == (1, 1)


def test_an_exception_in_flight_outlives_a_capsule() -> None:
    """Rule 44: a deleter that runs Python does not eat the exception under way."""
    forged = forge(versioned=True)
    forged.when_deleted = lambda: [int(x) for x in "123"] and None
    tensor = xd.from_dlpack(forged.capsule)

    def fails() -> None:
        capsule = tensor.__dlpack__(max_version=(1, 3))
        assert capsule
        raise LookupError("under way")

    with pytest.raises(LookupError, match="under way"):
        fails()
    del tensor
    assert forged.deleted == 1


def test_many_threads_race_for_one_capsule_and_one_gets_it() -> None:
    for _ in range(50):
        forged = forge()
        capsule = forged.capsule
        gate = threading.Barrier(4)
        got: list[object] = []

        def race() -> None:
            gate.wait()
            try:
                got.append(xd.from_dlpack(capsule))
            except BufferError:
                pass

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        got.clear()
        assert forged.deleted == 1


def test_refusals_leak_nothing() -> None:
    """Bug 3: ten thousand refusals leave no reference."""
    producer = lying(__dlpack__=lambda self, **_: None)
    tensor = xd.from_dlpack(forge().capsule)
    counted: list[object] = [producer, tensor, None.__class__]
    before = [sys.getrefcount(thing) for thing in counted]
    for _ in range(10_000):
        with pytest.raises((BufferError, TypeError)):
            xd.from_dlpack(producer)
        with pytest.raises((BufferError, TypeError, ValueError)):
            tensor.__dlpack__(dl_device=(99, 0))
    assert [sys.getrefcount(thing) for thing in counted] == before


AT_EXIT = """
import ctypes, sys
import crossdock as xd
from forge import forge

# A deleter that is no Python, and memory that is never given back.
forged = forge(versioned={versioned})
forged.struct.deleter = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
for kept in (forged.struct, forged.memory):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
tensor = xd.from_dlpack(forged.capsule)
capsule = tensor.__dlpack__(max_version=(1, 3))

class Late:
    def __init__(self):
        self.kept = tensor, capsule, xd.devices(), xd.plugins()

sys.modules["late"] = late = Late()
late.late = late
print("done")
"""


@pytest.mark.parametrize("versioned", [True, False])
def test_tensors_that_outlive_the_interpreter_are_harmless(child: Child, versioned: bool) -> None:
    """Rule 34, bug 2."""
    for _ in range(5):
        run = child(AT_EXIT.format(versioned=versioned))
        assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


def test_a_padded_flag_on_whole_bytes_changes_nothing() -> None:
    """Rule 25: the flag speaks of packed types only."""
    assert xd.from_dlpack(forge(flags=PADDED).capsule).shape == (2, 3)


def test_unknown_flags_are_accepted() -> None:
    """Rule 7: what a newer minor version may say is no error."""
    assert isinstance(forge(), Forged)
    assert xd.from_dlpack(forge(version=(1, 9), flags=1 << 40).capsule).shape == (2, 3)
