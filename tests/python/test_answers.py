"""Which protocol's answer counts: every behavior of a producer, at every entry that takes arrays.

A producer that refuses to export leaves the answer to its next protocol. An export that Crossdock rejects is final:
another protocol would read the memory that the rejected export names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest

# What `__array__` of each producer returns: seen where it counts, and where it must not.
ELSEWHERE = np.array([7, 7], "f4")


class Producer:
    """An object with `__dlpack__` and `__array__`."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return ELSEWHERE


def exporting(export: Callable[[], Any], **members: Any) -> Any:
    return type("Exporting", (Producer,), {"__dlpack__": lambda self, **_: export(), **members})()


def refusing(error: BaseException) -> Any:
    def refuse() -> Any:
        raise error

    return exporting(refuse)


REJECTED: dict[str, Callable[[], Any]] = {
    "freed storage": lambda: exporting(handmade.Forged((2,), data=0).capsule),
    "an unknown dtype": lambda: exporting(handmade.Forged((2,), dtype=(99, 32, 1)).capsule),
    "a negative extent": lambda: exporting(handmade.Forged((-2,)).capsule),
    "no capsule": lambda: exporting(lambda: None),
    "another device than stated": lambda: exporting(handmade.Forged((2,), device=(3, 0)).capsule),
    "a device that is not here": lambda: exporting(
        handmade.Forged((2,)).capsule, __dlpack_device__=lambda self: (2, 77)
    ),
    "a device that is no pair": lambda: exporting(
        handmade.Forged((2,)).capsule, __dlpack_device__=lambda self: None
    ),
    "negated values": lambda: exporting(
        handmade.Forged((2,)).capsule, is_conj=lambda self: False, is_neg=lambda self: True
    ),
}
REFUSED: dict[str, Callable[[], Any]] = {
    "BufferError": lambda: refusing(BufferError("mine")),
    "TypeError": lambda: refusing(TypeError("mine")),
    "NotImplementedError": lambda: refusing(NotImplementedError("mine")),
    "CopyRequiredError": lambda: refusing(xd.CopyRequiredError("mine")),
    "UnsupportedDeviceError": lambda: refusing(xd.UnsupportedDeviceError("mine")),
}
RAISED: dict[str, Callable[[], Any]] = {
    "RuntimeError": lambda: refusing(RuntimeError("mine")),
    "AttributeError": lambda: refusing(AttributeError("mine")),
    "MemoryError": lambda: refusing(MemoryError("mine")),
    "KeyboardInterrupt": lambda: refusing(KeyboardInterrupt("mine")),
}


def assigned(x: Any) -> xd.Tensor:
    tensor = xd.zeros(2, dtype="float32")
    tensor[...] = x
    return tensor


def assigned_in_a_list(x: Any) -> xd.Tensor:
    tensor = xd.zeros((1, 2), dtype="float32")
    tensor[...] = [x]
    return tensor[0]


def saved(x: Any, folder: Path) -> Any:
    path = folder / "x.npy"
    try:
        xd.save(path, x)
    finally:
        assert [entry.name for entry in folder.iterdir()] == ["x.npy"] * path.exists()
    return xd.load(path)


ENTRIES: dict[str, Callable[[Any, Path], Any]] = {
    "asarray": lambda x, _: xd.asarray(x),
    "asarray to a device": lambda x, _: xd.asarray(x, device="cpu"),
    "asarray with a copy": lambda x, _: xd.asarray(x, copy=True),
    "asarray of a list": lambda x, _: xd.asarray([x])[0],
    "asarray of a list, first another": lambda x, _: xd.asarray([ELSEWHERE, x])[1],
    "assignment": lambda x, _: assigned(x),
    "assignment of a list": lambda x, _: assigned_in_a_list(x),
    "save": saved,
}
every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


@every_entry
@pytest.mark.parametrize("producer", REJECTED.values(), ids=REJECTED)
def test_an_export_that_is_rejected_is_final(producer: Any, entry: Any, tmp_path: Path) -> None:
    with pytest.raises((BufferError, TypeError)) as caught:
        entry(producer(), tmp_path)
    assert "__array__" not in str(caught.value)
    for take in (xd.empty_like, lambda x: xd.asarray(x, copy=False), xd.from_dlpack):
        with pytest.raises((BufferError, TypeError)):
            take(producer())


@every_entry
@pytest.mark.parametrize("producer", REFUSED.values(), ids=REFUSED)
def test_a_producer_that_refuses_is_asked_by_its_next_protocol(
    producer: Any, entry: Any, tmp_path: Path
) -> None:
    assert entry(producer(), tmp_path).tolist() == [7, 7]
    with pytest.raises((BufferError, TypeError, NotImplementedError), match="mine"):
        xd.from_dlpack(producer())


@every_entry
@pytest.mark.parametrize("producer", RAISED.values(), ids=RAISED)
def test_any_other_exception_of_a_producer_arrives(producer: Any, entry: Any, tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, AttributeError, MemoryError, KeyboardInterrupt), match="^mine"):
        entry(producer(), tmp_path)


def test_a_type_error_ends_a_call_that_forbids_a_copy() -> None:
    for name, producer in REFUSED.items():
        if name in ("TypeError", "UnsupportedDeviceError"):
            with pytest.raises(TypeError, match="^mine"):
                xd.asarray(producer(), copy=False)
        else:
            assert xd.asarray(producer(), copy=False).data_ptr() == ELSEWHERE.ctypes.data


@pytest.mark.parametrize("error", [None, TypeError("copy"), ValueError("Unable to avoid copy")], ids=repr)
def test_an_array_method_that_may_copy_is_not_used_where_a_copy_is_forbidden(error: Any) -> None:
    class Copying:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            if copy is False and error:
                raise error
            return ELSEWHERE

    assert xd.asarray(Copying()).data_ptr() == ELSEWHERE.ctypes.data
    if error:
        with pytest.raises(xd.CopyRequiredError, match="`Copying.__array__`"):
            xd.asarray(Copying(), copy=False)
    else:
        assert xd.asarray(Copying(), copy=False).data_ptr() == ELSEWHERE.ctypes.data


def test_an_array_method_without_the_keyword_copy_is_asked_unless_a_copy_is_forbidden() -> None:
    class Old:
        def __array__(self) -> Any:
            return ELSEWHERE

    assert xd.asarray(Old()).tolist() == [7, 7]
    with pytest.raises(xd.CopyRequiredError):
        xd.asarray(Old(), copy=False)


INTERFACE = {"version": 3, "shape": (2,), "typestr": "<f4", "data": (0, False)}
MEMBERS: dict[str, tuple[str, Any]] = {
    "the CUDA array interface": ("__cuda_array_interface__", INTERFACE),
    "the array interface": ("__array_interface__", INTERFACE),
}


@every_entry
@pytest.mark.parametrize(("member", "value"), MEMBERS.values(), ids=MEMBERS)
def test_a_description_that_is_rejected_is_final(
    member: str, value: Any, entry: Any, tmp_path: Path
) -> None:
    def refuse() -> Any:
        raise BufferError("mine")

    lying = exporting(refuse, **{member: value})
    with pytest.raises(BufferError, match=f"mine.*{member}") as caught:
        entry(lying, tmp_path)
    assert "__array__:" not in str(caught.value)


@pytest.mark.parametrize("member", ["__cuda_array_interface__", "__array_interface__"])
@pytest.mark.parametrize("error", [BufferError("mine"), TypeError("mine"), NotImplementedError("mine")], ids=repr)
def test_a_description_that_is_refused_leaves_the_next_protocol(member: str, error: Exception) -> None:
    def refuse(self: Any) -> Any:
        raise error

    kind = type("Refusing", (), {member: property(refuse), "__array__": Producer.__array__})
    assert xd.asarray(kind()).tolist() == [7, 7]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="skipped: `__buffer__` came with Python 3.12")
def test_a_buffer_that_is_refused_leaves_the_next_protocol() -> None:
    class Refusing(Producer):
        def __buffer__(self, flags: int) -> Any:
            raise BufferError("mine too")

    assert xd.asarray(Refusing()).tolist() == [7, 7]


def test_a_buffer_that_is_rejected_is_final() -> None:
    class Buffer(bytearray):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise TypeError("no bools")

    assert xd.asarray(Buffer(b"ab")).tolist() == [97, 98]

    class Pointers(np.ndarray[Any, Any]):
        def __array__(self, *_: Any, **__: Any) -> Any:
            return ELSEWHERE

    with pytest.raises(BufferError, match="buffer"):
        xd.asarray(np.zeros(2, "O").view(Pointers))


def test_freed_storage_of_pytorch_is_rejected_everywhere(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for entry in ENTRIES.values():
        freed = torch.zeros(2)
        freed.untyped_storage().resize_(0)
        with pytest.raises(BufferError):
            entry(freed, tmp_path)


def test_booleans_and_nulls_of_arrow_come_by_the_next_protocol() -> None:
    arrow = pytest.importorskip("pyarrow")
    assert xd.asarray(arrow.array([True, False])).tolist() == [True, False]
    values = xd.asarray(arrow.array([1, None])).tolist()
    assert values[0] == 1 and values[1] != values[1]
    with pytest.raises(TypeError):
        xd.asarray(arrow.array([True, False]), copy=False)
