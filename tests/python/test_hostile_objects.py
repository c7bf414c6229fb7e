"""Objects and arguments that lie: an exception each time, and nothing is left behind."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import crossdock as xd
import pytest
from liars import Producer, forge, new_capsule

# No page is ever mapped here.
WILD = 0x10


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


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_exit_is_not_swallowed_by_the_second_question(error: BaseException) -> None:
    def dlpack(self: object, **keywords: object) -> object:
        if keywords:
            raise TypeError("an old producer")
        raise error

    choices: list[dict[str, Any]] = [{}, {"copy": True}]
    for keywords in choices:
        with pytest.raises(type(error)):
            xd.from_dlpack(lying(__dlpack__=dlpack), **keywords)


def test_a_type_error_of_the_producers_own_is_the_one_shown() -> None:
    """Rule 75: the second try, without keywords, does not hide the first one's reason."""

    def dlpack(self: object, **keywords: object) -> object:
        raise TypeError("from inside, the first time" if keywords else "the second time")

    with pytest.raises(TypeError, match="from inside"):
        xd.from_dlpack(lying(__dlpack__=dlpack))


def test_an_object_that_recurses_ends_in_an_exception() -> None:
    def dlpack(self: Any, **_: object) -> object:
        return xd.from_dlpack(self)

    with pytest.raises((RecursionError, BufferError)):
        xd.from_dlpack(lying(__dlpack__=dlpack))
    for device in xd.devices():
        with pytest.raises((RecursionError, BufferError)):
            xd.from_dlpack(lying(__dlpack__=dlpack), device=device)


def test_an_attribute_that_raises_is_shown() -> None:
    class Raising:
        def __getattr__(self, name: str) -> Any:
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
