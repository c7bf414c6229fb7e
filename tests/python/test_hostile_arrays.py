"""Arrays and sequences that lie to `asarray`: an exception each time, and Python lives on."""

from __future__ import annotations

import array
import ctypes
import sys
from typing import Any

import crossdock as xd
import numpy as np
import pytest

REFUSALS = (BufferError, TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError)
MEMORY = (ctypes.c_uint8 * 4096)()
ADDRESS = ctypes.addressof(MEMORY)
HUGE = 1 << 62


def lying(**members: Any) -> Any:
    return type("Liar", (), members)()


def interface(**changes: Any) -> dict[str, Any]:
    whole = {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False)}
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


INTERFACES: dict[str, Any] = {
    "none": 3,
    "an empty one": {},
    "no shape": interface(shape=...),
    "no type": interface(typestr=...),
    "a shape that is none": interface(shape=7),
    "a shape that is a set": interface(shape={2, 3}),
    "a shape that is a frozen set": interface(shape=frozenset((2, 3))),
    "a shape that is a dict": interface(shape={2: 3, 3: 2}),
    "a shape that is the keys of a dict": interface(shape={2: 0, 3: 0}.keys()),
    "a negative extent": interface(shape=(2, -3)),
    "a size that overflows": interface(shape=(HUGE, HUGE)),
    "an extent beyond 64 bits": interface(shape=(1 << 70,)),
    "a rank of 65": interface(shape=(1,) * 65),
    "an extent that is a text": interface(shape=("2", 3)),
    "no memory": interface(data=(0, False)),
    "an address that is negative": interface(data=(-1, False)),
    "an address beyond 64 bits": interface(data=(1 << 70, False)),
    "an address that is a text": interface(data=("here", False)),
    "data with one word": interface(data=(ADDRESS,)),
    "data that has no buffer": interface(data=object()),
    "data that is too short": interface(data=bytes(4)),
    "data with a negative offset": interface(data=bytes(64), offset=-8),
    "data behind its end": interface(data=bytes(64), offset=63),
    "another byte order": interface(typestr=">f4"),
    "a type of Python objects": interface(typestr="|O8"),
    "a type of the future": interface(typestr="<q9"),
    "a type without a size": interface(typestr="<f"),
    "an empty type": interface(typestr=""),
    "a type that is no text": interface(typestr=4),
    "strides of parts of elements": interface(strides=(12, 3)),
    "strides that overflow": interface(strides=(HUGE, HUGE)),
    "strides of a lower rank": interface(strides=(4,)),
    "strides of a higher rank": interface(strides=(12, 4, 4)),
    "strides of rank 0": interface(strides=()),
    "strides for a number": interface(shape=(), strides=(4,)),
    "strides that are a set": interface(strides={12, 4}),
    "strides that are texts": interface(strides=("12", "4")),
}


@pytest.mark.parametrize("words", INTERFACES.values(), ids=INTERFACES)
def test_an_array_interface_that_lies_is_refused(words: Any) -> None:
    with pytest.raises(REFUSALS):
        xd.asarray(lying(__array_interface__=words))


@pytest.mark.parametrize("name", ["__array_interface__", "__array__", "__cuda_array_interface__"])
@pytest.mark.parametrize("error", [RuntimeError("mine"), MemoryError("mine"), SystemExit(2)])
def test_what_a_protocol_raises_arrives(name: str, error: BaseException) -> None:
    """Rule 76."""

    def raising(*_: Any, **__: Any) -> Any:
        raise error

    member = raising if name == "__array__" else property(raising)
    with pytest.raises(type(error), match="mine|2"):
        xd.asarray(lying(**{name: member}))


@pytest.mark.parametrize("answer", [None, 3, "array", [1, 2], object()], ids=repr)
def test_an_array_method_that_gives_no_array_is_refused(answer: Any) -> None:
    with pytest.raises(REFUSALS):
        xd.asarray(lying(__array__=lambda self, *_, **__: answer))


BUFFERS = [
    np.zeros(3, "S5"),
    np.zeros(3, "U5"),
    np.zeros(3, "O"),
    np.zeros(3, ">i4"),
    np.zeros(3, "V16"),
    np.zeros(3, "M8[s]"),
    np.zeros(3, [("a", "i4"), ("b", "f8")]),
    array.array("u", "abc"),
    memoryview(b"abcd").cast("c"),
]


@pytest.mark.parametrize("buffer", BUFFERS, ids=lambda b: getattr(b, "format", None) or repr(b))
def test_a_buffer_without_a_dtype_of_ours_is_refused(buffer: Any) -> None:
    """Rules 28 and 126."""
    with pytest.raises(REFUSALS):
        xd.asarray(buffer)


def test_a_released_view_is_refused() -> None:
    view = memoryview(bytearray(8))
    view.release()
    with pytest.raises(REFUSALS):
        xd.asarray(view)


def test_memory_does_not_go_while_a_tensor_has_it() -> None:
    """Rule 125."""
    memory = bytearray(8)
    tensor = xd.asarray(memory)
    with pytest.raises(BufferError):
        memory.extend(bytes(1 << 20))
    del tensor
    memory.extend(b"more")


class Growing(list[Any]):
    """A list that grows while it is read."""

    def __getitem__(self, at: Any) -> Any:
        self.append(0)
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for value in list(self):
            self.append(value)
            yield value


class Endless(list[Any]):
    """A list that says it is longer than it is."""

    def __len__(self) -> int:
        return sys.maxsize


class Negative(list[Any]):
    """A list of negative length."""

    def __len__(self) -> int:
        return -1


def itself() -> list[Any]:
    """A list that holds itself."""
    whole: list[Any] = []
    whole.append(whole)
    return whole


SEQUENCES = [
    itself(),
    Endless([1]),
    Negative([1]),
    [[1, 2], [3]],
    [1, [2]],
    [[], 1],
    [1, "2"],
    [1, None],
    [object()],
    {1, 2},
    {"a": 1},
    "text",
    (number for number in range(3)),
    [1 << 64],
    [-1, 1 << 63],
    [xd.zeros(2), 1],
]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda s: repr(s)[:40])
def test_a_sequence_that_is_no_array_is_refused(sequence: Any) -> None:
    with pytest.raises((*REFUSALS, RecursionError)):
        xd.asarray(sequence)


def test_a_list_that_grows_meanwhile_gives_a_tensor_or_an_exception() -> None:
    try:
        assert xd.asarray(Growing([1, 2, 3])).ndim == 1
    except REFUSALS:
        pass


SHAPES: list[Any] = [(-1,), (HUGE, HUGE), (1 << 70,), "23", (2, None), (1.5,), object(), (1,) * 65]
# What has no order, also where it is empty: `list()` of it would be the shape of a number.
SHAPES += [{}, {2: 3}, set(), {2, 3}, frozenset(), {2: 3}.keys(), iter((2, 3))]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_a_shape_that_is_none_is_refused(shape: Any) -> None:
    makers: list[Any] = [xd.empty, xd.zeros, lambda shape: xd.full(shape, 3)]
    for make in makers:
        with pytest.raises((*REFUSALS, MemoryError)):
            make(shape)
    if shape != (-1,):
        with pytest.raises((*REFUSALS, MemoryError)):
            xd.zeros((2, 3)).reshape(shape)


KEYS: list[Any] = [
    2,
    -3,
    (0, 0, 0),
    "a",
    1.0,
    [0, 1],
    slice(0, 2, 0),
    (..., ...),
    1 << 70,
    object(),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_an_index_that_is_none_is_refused(key: Any) -> None:
    tensor = xd.zeros((2, 3))
    with pytest.raises(REFUSALS):
        tensor[key]
    with pytest.raises(REFUSALS):
        tensor[key] = 1
    assert tensor.tolist() == [[0, 0, 0], [0, 0, 0]]
