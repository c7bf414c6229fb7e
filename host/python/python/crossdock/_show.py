"""A tensor as text: its values where the host reaches them, elided where there are many.

Many short axes, which are not elided, may leave too many: such a text has none.
"""

from __future__ import annotations

import math

from . import _values
from ._crossdock import DeviceError, Dtype, Tensor

# Checkers take this as true; `typing` takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# As NumPy's print options.
MOST = 1000
EDGE = 3
WIDTH = 88

HEAD = "crossdock.Tensor("


def show(tensor: Tensor) -> str:
    """`repr(tensor)`."""
    about = f"dtype={tensor.dtype}, device='{tensor.device}'"
    plain = f"<crossdock.Tensor shape={tensor.shape} {about.replace(', ', ' ')}>"
    shown = math.prod(min(extent, 2 * EDGE) for extent in tensor.shape)
    if not tensor._host_reachable or tensor.dtype.lanes != 1 or shown > 10 * MOST:
        return plain
    if tensor.size == 0:
        body = f"[], shape={tensor.shape}"
    else:
        try:
            rows = _rows(tensor, tensor.size > MOST)
        except (BufferError, DeviceError):
            # A tensor whose values cannot be read still has a text.
            return plain
        body = _text(rows, _writer(tensor.dtype), len(HEAD))
    if tensor.size > MOST:
        about = f"shape={tensor.shape}, {about}"
    last = len(body.rsplit("\n", 1)[-1])
    gap = ",\n" + " " * len(HEAD) if last + len(about) + len(HEAD) > WIDTH else ", "
    return f"{HEAD}{body}{gap}{about})"


def _rows(tensor: Tensor, elide: bool) -> Any:
    """Nested lists with `None` where something is left out."""
    if tensor.ndim == 0 or not elide:
        return tensor.tolist()
    extent = tensor.shape[0]
    if extent <= 2 * EDGE:
        return [_rows(part, elide) for part in tensor]
    if tensor.ndim == 1:
        return [*tensor[:EDGE].tolist(), None, *tensor[-EDGE:].tolist()]
    first, last = range(EDGE), range(extent - EDGE, extent)
    return [
        *(_rows(tensor[at], elide) for at in first),
        None,
        *(_rows(tensor[at], elide) for at in last),
    ]


def _writer(dtype: Dtype) -> Callable[[Any], str]:
    """How a number is written: with as few digits as its dtype needs to tell it apart."""
    if not dtype.name.startswith(("float", "bfloat", "complex")):
        return str
    whole = dtype.bits // (2 if dtype.name.startswith("complex") else 1)
    digits = 17 if whole == 64 else 9 if whole == 32 else 5

    def real(value: float) -> str:
        if whole == 64:
            return _short(repr(value))
        for count in range(1, digits + 1):
            text = f"{value:.{count}g}"
            if _same(float(text), value, dtype):
                break
        return _short(repr(float(text)))

    def write(value: Any) -> str:
        if isinstance(value, complex):
            imaginary = real(value.imag)
            sign = "" if imaginary.startswith("-") else "+"
            return f"{real(value.real)}{sign}{imaginary}j"
        return real(value)

    return write


def _same(text: float, value: float, dtype: Dtype) -> bool:
    if value != value:
        return True
    return _values.encode([text], dtype) == _values.encode([value], dtype)


def _short(text: str) -> str:
    return text[:-1] if text.endswith(".0") else text


def _text(rows: Any, write: Callable[[Any], str], indent: int) -> str:
    """Rows as NumPy writes them: numbers right-aligned, one line for each innermost row."""
    width = max((len(write(value)) for value in _leaves(rows)), default=0)
    return _block(rows, lambda value: write(value).rjust(width), indent)


def _leaves(rows: Any) -> list[Any]:
    if not isinstance(rows, list):
        return [] if rows is None else [rows]
    return [leaf for row in rows for leaf in _leaves(row)]


def _block(rows: Any, write: Callable[[Any], str], indent: int) -> str:
    if not isinstance(rows, list):
        return write(rows).strip()
    if not any(isinstance(row, list) for row in rows):
        words = ["..." if row is None else write(row) for row in rows]
        return "[" + _wrapped(words, indent + 1) + "]"
    depth = 1
    inner = next(row for row in rows if isinstance(row, list))
    while inner and isinstance(inner[0], list):
        depth, inner = depth + 1, inner[0]
    parts = ["..." if row is None else _block(row, write, indent + 1) for row in rows]
    return "[" + ("," + "\n" * depth + " " * (indent + 1)).join(parts) + "]"


def _wrapped(words: list[str], indent: int) -> str:
    lines, line = [], ""
    for word in words:
        longer = f"{line}, {word}" if line else word
        if line and indent + len(longer) > WIDTH:
            lines.append(line)
            longer = word
        line = longer
    return (",\n" + " " * indent).join([*lines, line])
