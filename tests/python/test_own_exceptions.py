"""What the caller's own methods raise arrives as it is, wherever a value of theirs is converted."""

from __future__ import annotations

import sys
from typing import Any, cast

import crossdock as xd
import pytest


class MineError(Exception):
    """Of no class that means anything here."""


class MineTypeError(TypeError):
    """Of a class by which Python refuses a value."""


class MineOverflowError(OverflowError):
    """As above."""


ERRORS = [MineError, MineTypeError, MineOverflowError, MemoryError, TypeError, ValueError]


def number(error: type[Exception]) -> Any:
    """A number whose conversions fail."""

    def convert(self: object) -> int:
        raise error("mine")

    names = ("__index__", "__int__", "__float__", "__bool__")
    return type("Number", (), dict.fromkeys(names, convert))()


def described(error: type[Exception], name: str) -> Any:
    """An object one of whose attributes fails."""

    def get(self: object) -> Any:
        raise error("mine")

    return type("Described", (), {name: property(get)})()


def sequence(error: type[Exception], length: int = 2) -> Any:
    """A shape whose items fail."""

    def item(self: object, _at: int) -> int:
        raise error("mine")

    return type("Sequence", (), {"__getitem__": item, "__len__": lambda self: length})()


def cuda_array(**entries: Any) -> Any:
    """An object with a CUDA array interface."""
    described = {"version": 3, "typestr": "<f4", "shape": (2,), "data": (64, False), **entries}
    return type("Array", (), {"__cuda_array_interface__": described})()


def producer(**methods: Any) -> Any:
    methods = {"__dlpack_device__": lambda self: (1, 0), **methods}
    return type("Producer", (), methods)()


def tensor() -> xd.Tensor:
    return xd.zeros((2, 2), dtype="float32")


CALLS = {
    "device": lambda e: xd.device((number(e), 0)),
    "device id": lambda e: xd.device((1, number(e))),
    "device by an enumeration": lambda e: xd.device((described(e, "value"), 0)),
    "__dlpack_device__": lambda e: xd.from_dlpack(
        producer(__dlpack_device__=lambda self: (number(e), 0), __dlpack__=lambda self, **_: 0)
    ),
    "dl_device": lambda e: tensor().__dlpack__(dl_device=(number(e), 0)),
    "max_version": lambda e: tensor().__dlpack__(max_version=(number(e), 0)),
    "version": lambda e: tensor().__dlpack__(version=number(e)),
    "stream": lambda e: tensor().__dlpack__(stream=number(e)),
    "native": lambda e: xd.Stream("cpu", native=number(e)),
    "native by a property": lambda e: xd.Stream("cpu", native=described(e, "ptr")),
    "native by the protocol": lambda e: xd.Stream("cpu", native=described(e, "__cuda_stream__")),
    "dtype": lambda e: xd.zeros(2, dtype=described(e, "name")),
    "dtype's order": lambda e: xd.zeros(2, dtype=described(e, "isnative")),
    "index": lambda e: tensor()[number(e)],
    "slice": lambda e: tensor()[number(e) :],
    "shape": lambda e: xd.zeros(number(e)),
    "shape's item": lambda e: xd.zeros((number(e),)),
    "shape as a sequence": lambda e: xd.zeros(sequence(e)),
    "reshape": lambda e: tensor().reshape(number(e)),
    "reshape by two": lambda e: tensor().reshape(2, number(e)),
    "reshape by a sequence": lambda e: tensor().reshape(sequence(e)),
    "permute_dims": lambda e: tensor().permute_dims((number(e), 0)),
    "permute_dims by a sequence": lambda e: tensor().permute_dims(sequence(e)),
    "explain": lambda e: xd.explain("cpu", "cpu", shape=sequence(e)),
    "fill": lambda e: tensor().fill(number(e)),
    "full": lambda e: xd.full(2, number(e)),
    "asarray of a number": lambda e: xd.asarray(number(e)),
    "asarray of a list": lambda e: xd.asarray([1, number(e)]),
    "assignment": lambda e: tensor().__setitem__(0, [1, number(e)]),
    "address": lambda e: xd.as_cuda_array(cuda_array(data=(number(e), False))),
    "interface's shape": lambda e: xd.as_cuda_array(cuda_array(shape=sequence(e))),
    "interface's strides": lambda e: xd.as_cuda_array(cuda_array(strides=sequence(e))),
    "interface's type": lambda e: xd.as_cuda_array(cuda_array(descr=sequence(e, 1))),
    "pointer_info": lambda e: xd.pointer_info(number(e)),
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_arrives(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="^mine$") as caught:
        call(error)
    assert type(caught.value) is error


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have `__buffer__` from 3.12 on")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_what_a_buffer_raises_arrives(error: type[Exception]) -> None:
    def buffer(self: object, _flags: int) -> Any:
        raise error("mine")

    with pytest.raises(error, match="^mine$"):
        xd.asarray(type("Lender", (), {"__buffer__": buffer})())


class Unshown(int):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Swapped(Unshown):
    isnative = False


class Elsewhere:
    def __dlpack__(self, **_options: object) -> object:
        raise AssertionError("its device is asked for first")

    def __dlpack_device__(self) -> Any:
        return (Unshown(1), "0")


@pytest.mark.parametrize(
    "call",
    [
        lambda: xd.zeros(3)[Unshown(99)],
        lambda: xd.zeros(3).__dlpack__(max_version=cast(Any, Unshown(1))),
        lambda: xd.zeros(3).__dlpack__(copy=cast(Any, Unshown(1))),
        lambda: xd.zeros(3, dtype=cast(Any, Unshown(1))),
        lambda: xd.zeros(3, dtype=cast(Any, Swapped(1))),
        lambda: xd.from_dlpack(Elsewhere()),
        lambda: xd.Stream("cpu", native=Unshown(5)),
        lambda: xd.Stream("cpu", native=Unshown(1 << 70)),
    ],
)
def test_what_a_value_raises_while_it_is_shown_arrives(call: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        call()


def test_a_refusal_in_better_words_is_caused_by_pythons() -> None:
    text: Any = "a"
    for call in (
        lambda: tensor()[text],
        lambda: tensor().__dlpack__(stream=text),
        lambda: tensor().__dlpack__(max_version=(-1, 0)),
    ):
        with pytest.raises((IndexError, TypeError, ValueError)) as caught:
            call()
        assert isinstance(caught.value.__cause__, (TypeError, ValueError, OverflowError))


def test_the_first_refusal_of_several_protocols_is_the_cause() -> None:
    mine = BufferError("mine")

    def dlpack(self: object, **_: Any) -> Any:
        raise mine

    with pytest.raises(BufferError, match="__dlpack__: mine") as caught:
        xd.asarray(producer(__dlpack__=dlpack))
    assert caught.value.__cause__ is mine


def test_an_array_whose_first_protocol_refuses_is_not_kept_by_the_refusal() -> None:
    import weakref

    def dlpack(self: object, **_: Any) -> Any:
        raise BufferError("mine")

    array = producer(__dlpack__=dlpack, __array__=lambda self: xd.zeros(2))
    assert xd.asarray(array).shape == (2,)
    watched = weakref.ref(array)
    del array
    assert watched() is None


@pytest.mark.parametrize("length", [1 << 40, sys.maxsize])
def test_a_sequence_that_says_too_long_a_length_takes_no_room(length: int) -> None:
    class Long:
        def __len__(self) -> int:
            return length

        def __getitem__(self, at: int) -> int:
            return (1, 0)[at]

    long: Any = Long()
    assert tensor().permute_dims(long).shape == (2, 2)
    with pytest.raises(ValueError, match="4 elements"):
        tensor().reshape(long)


@pytest.mark.parametrize(
    "call",
    [lambda many: tensor().reshape(many), lambda many: tensor().permute_dims(many)],
)
def test_a_shape_without_an_end_is_refused(call: Any) -> None:
    with pytest.raises(ValueError, match="no tensor has so many axes"):
        call(range(1 << 60))
