"""Floats of 4, 6, 8 and 16 bits that `struct` has no letter for."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from functools import cache

# Bits of exponent and mantissa, the bias, and which codes are no finite number.
_KINDS = {
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "nan at the end"),
    "float8_e4m3b11fnuz": (4, 3, 11, "nan at minus zero"),
    "float8_e4m3fnuz": (4, 3, 8, "nan at minus zero"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e5m2fnuz": (5, 2, 16, "nan at minus zero"),
    "float6_e2m3fn": (2, 3, 1, "finite"),
    "float6_e3m2fn": (3, 2, 3, "finite"),
    "float4_e2m1fn": (2, 1, 1, "finite"),
}


@cache
def table(name: str) -> list[float]:
    """The value of every code."""
    if name == "float8_e8m0fnu":
        return [math.ldexp(1.0, code - 127) for code in range(255)] + [math.nan]
    if name not in _KINDS:
        raise TypeError(f"{name} has no Python value")
    exponent_bits, mantissa_bits, bias, special = _KINDS[name]
    half = 1 << exponent_bits + mantissa_bits
    positive = [_value(code, exponent_bits, mantissa_bits, bias, special) for code in range(half)]
    values = positive + [-value for value in positive]
    if special == "nan at minus zero":
        values[half] = math.nan
    return values


def _value(code: int, exponent_bits: int, mantissa_bits: int, bias: int, special: str) -> float:
    exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    top = exponent == (1 << exponent_bits) - 1
    if special == "ieee" and top:
        return math.nan if mantissa else math.inf
    if special == "nan at the end" and top and mantissa == (1 << mantissa_bits) - 1:
        return math.nan
    if exponent == 0:
        return math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


@cache
def _finite(name: str) -> tuple[list[float], list[int]]:
    """The finite values that are not negative, in order, with their codes."""
    values = table(name)
    not_negative = len(values) if name == "float8_e8m0fnu" else len(values) // 2
    known = [
        (value, code) for code, value in enumerate(values[:not_negative]) if math.isfinite(value)
    ]
    return [value for value, _ in known], [code for _, code in known]


@cache
def _specials(name: str) -> tuple[int | None, int | None]:
    """The codes of NaN and infinity."""
    values = table(name)
    nan = next((code for code, value in enumerate(values) if math.isnan(value)), None)
    inf = next((code for code, value in enumerate(values) if value == math.inf), None)
    return nan, inf


def nearest(name: str, value: float) -> int:
    """The code of the nearest value, ties to the even code.

    What is too large becomes an infinity, else a NaN, else (in types without either) the largest
    value. `ValueError` for what has no code at all.
    """
    values, codes = _finite(name)
    nan, inf = _specials(name)
    signed = name != "float8_e8m0fnu"
    sign = len(table(name)) // 2 if signed and math.copysign(1, value) < 0 else 0
    if math.isnan(value) or (not signed and value <= 0):
        if nan is None:
            raise ValueError(f"{name} cannot hold {value!r}")
        return nan
    size = abs(value)
    # What comes after the largest value, if the type went on.
    beyond = 2 * values[-1] - values[-2] if signed else 2 * values[-1]
    limit = (values[-1] + beyond) / 2
    is_odd = codes[-1] & 1
    if size > limit or (size == limit and is_odd):
        over = inf if inf is not None else nan
        if over is None:
            return codes[-1] + sign
        return over if over == nan else over + sign
    at = min(bisect_left(values, size), len(values) - 1)
    if at and size < values[at]:
        below, above = size - values[at - 1], values[at] - size
        if below < above or (below == above and codes[at] & 1):
            at -= 1
    code = codes[at] + sign
    is_minus_zero = sign and codes[at] == 0
    return 0 if is_minus_zero and nan == code else code


def bfloat16(value: float) -> int:
    """The code of the nearest bfloat16, ties to even."""
    if math.isnan(value):
        return 0x7FC0
    word: int
    try:
        (word,) = struct.unpack("=I", struct.pack("=f", value))
    except OverflowError:
        (word,) = struct.unpack("=I", struct.pack("=f", math.copysign(math.inf, value)))
    # Rounding a double to a float first may hide which side of a tie it was on.
    (narrow,) = struct.unpack("=f", struct.pack("=I", word))
    if word & 0xFFFF == 0x8000 and narrow != value:
        word += 1 if abs(value) > abs(narrow) else -1
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16 & 0xFFFF
