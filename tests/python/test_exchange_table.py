"""The C exchange API of DLPack 1.3, both ways (rules 93 to 103)."""

import builtins
import ctypes
import gc
import sys
import weakref
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
import structs

NAME = "__dlpack_c_exchange_api__"
CAPSULE = b"dlpack_exchange_api"

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(handmade.Tensor), ctypes.c_void_p, ctypes.c_void_p, SET_ERROR
)
FROM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
TO = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
VIEW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(handmade.Tensor))
STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class Table(ctypes.Structure):
    """`DLPackExchangeAPI`, with its functions as addresses."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("view", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def ours() -> Table:
    return Table.from_address(pointer(getattr(xd.Tensor, NAME), CAPSULE))


def tensor(**keywords: Any) -> xd.Tensor:
    return xd.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3), **keywords)


def exported(x: Any) -> tuple[int, Any]:
    out = ctypes.c_void_p()
    answer = FROM(ours().from_object)(x, ctypes.byref(out))
    return answer, handmade.Versioned.from_address(out.value) if out.value else None


def test_rule_93_the_attribute_is_a_capsule_on_the_type() -> None:
    assert NAME in vars(xd.Tensor)
    assert handmade.name_of(getattr(xd.Tensor, NAME)) == CAPSULE


def test_rules_94_96_the_table_has_the_layout_of_the_header_and_every_function() -> None:
    table = ours()
    assert (table.major, table.minor, table.prev) == (1, 3, None)
    offsets = [getattr(Table, field[0]).offset for field in Table._fields_]
    assert offsets == [0, 4, 8, 16, 24, 32, 40, 48]
    for name in ("allocate", "from_object", "to_object", "view", "stream"):
        assert getattr(table, name)
    gc.collect()
    assert ctypes.addressof(ours()) == ctypes.addressof(table)


def test_rule_97_an_object_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        exported(np.zeros(3))


def test_rule_98_an_export_is_the_same_memory_and_is_deleted_once() -> None:
    array = np.zeros(3)
    before = sys.getrefcount(array)
    x = xd.from_dlpack(array)
    answer, managed = exported(x)
    assert answer == 0 and managed.tensor.data == array.ctypes.data
    del x
    assert sys.getrefcount(array) > before
    handmade.delete(managed)
    assert sys.getrefcount(array) == before


def allocate(prototype: Any) -> Any:
    errors, out = [], ctypes.c_void_p()
    report = SET_ERROR(lambda context, kind, message: errors.append((kind, message)))
    answer = ALLOCATE(ours().allocate)(prototype, ctypes.addressof(out), None, report)
    return answer, out.value, errors


def test_rule_99_the_allocator_makes_a_tensor_like_the_prototype() -> None:
    prototype = handmade.Forged((3, 5)).managed.tensor
    answer, out, errors = allocate(prototype)
    managed = handmade.Versioned.from_address(out)
    assert (answer, errors) == (0, [])
    assert managed.tensor.data and list(managed.tensor.shape[:2]) == [3, 5]
    assert (managed.tensor.code, managed.tensor.bits) == (2, 32)
    handmade.delete(managed)


@pytest.mark.parametrize(
    "wrong", [{"shape": (-1,)}, {"dtype": (99, 3, 1)}, {"device": (2, 9)}, {"ndim": 9999}]
)
def test_rule_99_the_allocator_reports_through_its_callback_only(wrong: Any) -> None:
    answer, out, errors = allocate(handmade.Forged(**wrong).managed.tensor)
    assert (answer, out, len(errors)) == (-1, None, 1)
    assert issubclass(getattr(builtins, errors[0][0].decode()), Exception)
    assert errors[0][1]


def to_object(managed: Any) -> object:
    out = ctypes.c_void_p()
    assert TO(ours().to_object)(ctypes.addressof(managed), ctypes.byref(out)) == 0
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    return made


def test_rule_100_a_tensor_that_is_given_is_taken() -> None:
    forged = handmade.Forged()
    made = to_object(forged.managed)
    assert type(made) is xd.Tensor and made.data_ptr() == forged.address
    del made
    assert forged.deleted == 1


def test_rule_100_a_tensor_is_taken_also_when_that_fails() -> None:
    forged = handmade.Forged(device=(2, 9))
    with pytest.raises(BufferError):
        to_object(forged.managed)
    assert forged.deleted == 1


def test_rule_101_a_view_borrows_shape_and_strides() -> None:
    x, view = tensor(copy=True), handmade.Tensor()
    for _ in range(3):
        assert VIEW(ours().view)(x, ctypes.byref(view)) == 0
    assert view.data == x.data_ptr() and view.ndim == 2
    assert list(view.shape[:2]) == [2, 3] and list(view.strides[:2]) == [3, 1]


def test_rule_101_a_view_of_a_read_only_tensor_is_refused() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(BufferError):
        VIEW(ours().view)(xd.from_dlpack(array), ctypes.byref(handmade.Tensor()))


def test_rule_102_the_cpu_has_no_stream() -> None:
    out = ctypes.c_void_p(7)
    assert STREAM(ours().stream)(1, 0, ctypes.byref(out)) == 0
    assert out.value is None


def producer_type(table: Table, **members: Any) -> Any:
    capsule = structs.new_capsule(ctypes.addressof(table), CAPSULE, None)
    return type("Foreign", (), {NAME: capsule, **members})


class Counted:
    """A foreign table over a forged tensor."""

    def __init__(self, forged: handmade.Forged, major: int = 1) -> None:
        self.calls = 0

        def export(x: Any, out: Any) -> Any:
            self.calls += 1
            out[0] = ctypes.addressof(forged.managed)
            return 0

        self.functions = FROM(export), STREAM(lambda kind, number, out: 0)
        self.table = Table(major=major, minor=3)
        self.table.from_object = ctypes.cast(self.functions[0], ctypes.c_void_p)
        self.table.stream = ctypes.cast(self.functions[1], ctypes.c_void_p)
        structs.kept.append(self)


def test_a_type_with_a_table_is_asked_through_it() -> None:
    forged = handmade.Forged()
    counted = Counted(forged)
    x = xd.from_dlpack(producer_type(counted.table)())
    assert counted.calls == 1 and x.data_ptr() == forged.address
    del x
    assert forged.deleted == 1
    copied = xd.from_dlpack(producer_type(counted.table)(), copy=True)
    assert counted.calls == 2 and copied.data_ptr() != forged.address


def test_rule_95_an_older_table_is_found_behind_a_newer_one() -> None:
    forged = handmade.Forged()
    old = Counted(forged)
    new = Counted(forged, major=2)
    new.table.prev = ctypes.addressof(old.table)
    xd.from_dlpack(producer_type(new.table)())
    assert (new.calls, old.calls) == (0, 1)


def test_rule_95_a_table_of_an_unknown_version_is_not_used() -> None:
    counted = Counted(handmade.Forged(), major=9)
    with pytest.raises(AttributeError):
        xd.from_dlpack(producer_type(counted.table)())
    assert counted.calls == 0


def test_rule_97_a_subclass_is_not_asked_through_the_table_of_its_base() -> None:
    counted = Counted(handmade.Forged())
    base = producer_type(counted.table)
    other = handmade.Forged((5,))
    sub = type("Sub", (base,), {
        "__dlpack_device__": lambda self: (1, 0),
        "__dlpack__": lambda self, **_k: other.capsule(),
    })
    assert xd.from_dlpack(sub()).shape == (5,)
    assert counted.calls == 0


@pytest.mark.parametrize("value", [7, None, "capsule"])
def test_rule_93_an_attribute_that_is_no_table_is_ignored(value: Any) -> None:
    forged = handmade.Forged()
    kind = type("Odd", (handmade.Producer,), {NAME: value})
    assert xd.from_dlpack(kind(forged)).data_ptr() == forged.address


def test_rule_98_what_the_table_raises_is_raised() -> None:
    counted = Counted(handmade.Forged())
    # Our own function refuses every type but ours.
    counted.table.from_object = ours().from_object
    with pytest.raises(TypeError, match="crossdock.Tensor only"):
        xd.from_dlpack(producer_type(counted.table)())


def test_rule_98_a_table_that_fails_without_an_exception_is_a_buffer_error() -> None:
    counted = Counted(handmade.Forged())
    fails = FROM(lambda x, out: -1)
    counted.table.from_object = ctypes.cast(fails, ctypes.c_void_p)
    with pytest.raises(BufferError, match="exported nothing"):
        xd.from_dlpack(producer_type(counted.table)())


def test_what_is_known_of_a_type_dies_with_it() -> None:
    counted = Counted(handmade.Forged())
    kinds = []
    for at in range(200):
        if at % 2:
            kind = producer_type(counted.table)
        else:
            forged = handmade.Forged((at + 1,), size=1024)
            kind = type("Foreign", (handmade.Producer,), {})
            assert xd.from_dlpack(kind(forged)).shape == (at + 1,)
            kinds.append(weakref.ref(kind))
            del kind
            continue
        assert xd.from_dlpack(kind()).shape == (2, 3)
        kinds.append(weakref.ref(kind))
        del kind
        gc.collect()
    gc.collect()
    assert [known() for known in kinds if known() is not None] == []


@pytest.mark.parametrize("view", ["is_conj", "is_neg"])
def test_rule_61_a_deferred_view_is_not_read_through_the_table(view: Any) -> None:
    read = handmade.Forged(dtype=(5, 64, 1), strides=(6, 2))
    forged = handmade.Forged((5,))
    counted = Counted(read)
    answers = {name: lambda self, n=name: n == view for name in ("is_conj", "is_neg")}
    methods: dict[str, Any] = {"__dlpack_device__": lambda self: (1, 0)}
    methods["__dlpack__"] = lambda self, **_k: forged.capsule()
    kind = producer_type(counted.table, **answers, **methods)
    if view == "is_neg":
        with pytest.raises(BufferError, match="resolve_neg"):
            xd.from_dlpack(kind())
    else:
        assert xd.from_dlpack(kind()).shape == (5,)
    # A conjugated tensor is known by its dtype, which is in the export: it is released.
    assert counted.calls == read.deleted == (view == "is_conj")


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3), (3, 1)), ((2, 3), (6, 2)), ((3,), (0,)), ((1,), (1,)), ((), ()), ((0,), (1,))],
)
@pytest.mark.parametrize("has_table", [True, False])
def test_every_tensor_of_a_class_with_sign_bits_is_asked_for_its_negative_bit(
    shape: tuple[int, ...], strides: tuple[int, ...], has_table: bool
) -> None:
    forged = handmade.Forged(shape, strides=strides)
    asked: list[object] = []
    members: dict[str, Any] = {
        "is_conj": lambda self: False,
        "is_neg": lambda self: asked.append(self),
        "__dlpack_device__": lambda self: (1, 0),
        "__dlpack__": lambda self, **_: forged.capsule(),
    }
    kind: Any = producer_type(Counted(forged).table, **members) if has_table else type("Foreign", (), members)
    assert xd.from_dlpack(kind()).shape == shape
    assert len(asked) == 1
    members["is_neg"] = lambda self: True
    kind = type("Negated", (kind,), members)
    for keywords in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}):
        with pytest.raises(BufferError, match="resolve_neg"):
            xd.from_dlpack(kind(), **keywords)


@pytest.mark.parametrize("bit", ["conj", "neg"])
def test_a_description_of_a_tensor_with_a_sign_bit_is_rejected(bit: str) -> None:
    class Foreign:
        __cuda_array_interface__ = {"version": 3, "shape": (0,), "typestr": "<c8", "data": (0, False)}

        def is_conj(self) -> bool:
            return bit == "conj"

        def is_neg(self) -> bool:
            return bit == "neg"

    for take in (xd.as_cuda_array, xd.asarray):
        with pytest.raises(BufferError, match=f"resolve_{bit}"):
            take(Foreign())


def test_negated_tensors_of_torch_are_refused_until_they_are_resolved() -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    complex_ones = torch.ones(2, dtype=torch.complex64)
    for view in (whole, whole.T, whole[0, :1], torch.nn.Parameter(whole, requires_grad=False), complex_ones):
        negated = torch._neg_view(view)
        for take in (xd.from_dlpack, xd.asarray, lambda x: xd.from_dlpack(x, copy=True)):
            with pytest.raises(BufferError, match="resolve_neg"):
                take(negated)
            assert xd.asarray(negated.resolve_neg()).tolist() == negated.tolist()


def test_imaginary_parts_of_torch_are_refused_until_they_are_resolved() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.tensor([1 + 2j, 3 + 4j]).conj()
    for part in (numbers.imag, numbers.imag[:1], numbers[0].imag):
        with pytest.raises(BufferError, match="resolve_neg"):
            xd.from_dlpack(part)
        values = xd.from_dlpack(part.resolve_neg()).tolist()
        assert values == part.tolist()


def test_torch_is_asked_through_its_table() -> None:
    torch = pytest.importorskip("torch")
    there = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    ours = xd.from_dlpack(there)
    assert ours.data_ptr() == there.data_ptr()
    assert torch.from_dlpack(ours).tolist() == there.tolist()
    assert xd.from_dlpack(torch.nn.Parameter(there).detach()).shape == (2, 3)
