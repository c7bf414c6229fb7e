"""Numbers of other classes than Python's own: converted exactly, as NumPy converts them, or refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import crossdock as xd
import numpy as np
import pytest


class OnlyFloat:
    """A number that can do nothing but become a float."""

    def __float__(self) -> float:
        return 3.0


class Gaussian:
    """A complex number with a `__float__`, which drops a part."""

    def __complex__(self) -> complex:
        return 1 + 2j

    def __float__(self) -> float:
        return 1.0


BIG = 2**53 + 1
EXACT: dict[str, Any] = {
    "Decimal": Decimal(BIG),
    "Decimal with a part": Decimal("-1.5"),
    "Decimal NaN": Decimal("nan"),
    "Decimal infinity": Decimal("-inf"),
    "Fraction": Fraction(BIG, 1),
    "Fraction with a part": Fraction(7, 2),
    "longdouble": np.longdouble(2**53) + 1,
    "clongdouble": np.clongdouble(1 + 2j),
    "clongdouble without a part": np.clongdouble(3),
    "complex64": np.complex64(1 + 2j),
    "__float__": OnlyFloat(),
    "__complex__": Gaussian(),
}
TARGETS = ["bool", "int64", "uint8", "float32", "float64", "complex64", "complex128"]


def numpys(value: Any, dtype: str) -> Any:
    """What NumPy makes of it, where nothing is lost but by rounding."""
    has_part = isinstance(value, (Gaussian, np.complexfloating)) and complex(value).imag
    if has_part or isinstance(value, np.clongdouble):
        if not dtype.startswith(("complex", "bool")):
            return TypeError
    if dtype.startswith(("int", "uint")):
        try:
            whole: int = int(value) if hasattr(value, "__int__") else int(float(value))
        except (ValueError, OverflowError):
            return ValueError
        fits = np.iinfo(dtype).min <= whole <= np.iinfo(dtype).max
        if not fits or whole != (value if hasattr(value, "__int__") else float(value)):
            return ValueError
        return [whole]
    converted: list[Any] = np.array([value], dtype=dtype).tolist()
    return converted


@pytest.mark.parametrize("dtype", TARGETS)
@pytest.mark.parametrize("value", EXACT.values(), ids=EXACT)
def test_a_number_of_any_class_is_converted_as_numpy_does_or_refused(value: Any, dtype: str) -> None:
    expected = numpys(value, dtype)
    tensor = xd.zeros(1, dtype=dtype)

    def filled() -> list[Any]:
        tensor.fill(value)
        numbers: list[Any] = tensor.tolist()
        return numbers

    made: list[Callable[[], list[Any]]] = [
        lambda: xd.asarray([value], dtype=dtype).tolist(),
        filled,
        lambda: xd.full(1, value, dtype=dtype).tolist(),
    ]
    for make in made:
        if isinstance(expected, type):
            with pytest.raises(expected):
                make()
        else:
            assert str(make()) == str(expected)


@pytest.mark.parametrize(
    "value",
    [
        np.str_("7"), np.bytes_(b"7"), np.void(b"7"), "7", b"7", np.datetime64(5, "ns"), np.timedelta64(5, "s"),
        np.datetime64("2020-01-01"), np.array("7"), np.array(None), None,
    ],
    ids=repr,
)  # fmt: skip
def test_texts_and_times_are_not_numbers(value: Any) -> None:
    tensor = xd.zeros(1, dtype="int64")
    with pytest.raises(TypeError):
        xd.full(1, value)
    with pytest.raises(TypeError):
        tensor.fill(value)
    for dtype in (None, "int64", "float64"):
        with pytest.raises((TypeError, BufferError)):
            xd.asarray([value], dtype=dtype)
    assert tensor.tolist() == [0]


def test_a_masked_value_is_not_a_number() -> None:
    tensor = xd.ones(1)
    uses: list[Callable[[Any], object]] = [
        tensor.fill,
        lambda value: xd.full(1, value),
        lambda value: xd.asarray([value]),
    ]
    for use in uses:
        with pytest.raises(NotImplementedError, match="mask"):
            use(np.ma.masked)
    assert tensor.tolist() == [1.0]


@pytest.mark.parametrize("value", [Decimal(BIG), Fraction(1, 3)], ids=repr)
def test_exact_numbers_need_a_dtype_and_take_that_of_a_tensor(value: Any) -> None:
    made: list[Callable[[], xd.Tensor]] = [
        lambda: xd.asarray([1, value]),
        lambda: xd.asarray(value),
        lambda: xd.full(2, value),
    ]
    for make in made:
        with pytest.raises(TypeError, match="dtype="):
            make()
    tensor = xd.zeros(2, dtype="float64")
    tensor[1] = value
    tensor[:1] = [value]
    assert tensor.tolist() == [float(value)] * 2


def test_the_dtype_of_numbers_of_other_classes_is_inferred() -> None:
    assert str(xd.asarray([np.longdouble(2), 1]).dtype) == "float64"
    assert str(xd.asarray([np.clongdouble(2), 1]).dtype) == "complex128"
    assert xd.asarray([Gaussian(), True]).tolist() == [1 + 2j, 1]
