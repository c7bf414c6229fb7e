"""Random indexes, axes, shapes and assignments: the answers are NumPy's, or both refuse."""

from __future__ import annotations

import math
import random
from typing import Any

import crossdock as xd
import numpy as np
import pytest

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64", "complex64"]
Chance = random.Random


def numbers(shape: Any, dtype: str) -> Any:
    return (np.arange(math.prod(shape)) % 100).reshape(shape).astype(dtype)


def any_slice(chance: Chance, extent: int) -> slice:
    first, end = (chance.choice([None, chance.randint(-extent - 2, extent + 2)]) for _ in range(2))
    return slice(first, end, chance.choice([None, None, 1, -1, 2, -2, 3, -7]))


def any_index(chance: Chance, shape: tuple[int, ...]) -> Any:
    parts: list[Any] = []
    for extent in shape:
        if ... not in parts and chance.random() < 0.15:
            parts.append(...)
        if chance.random() < 0.1:
            parts.append(None)
        if extent and chance.random() < 0.3:
            at = chance.randint(-extent, extent - 1)
            parts.append(chance.choice([at, np.int64(at)]))
        else:
            parts.append(any_slice(chance, extent))
    key = tuple(parts[: chance.randint(0, len(parts))])
    return key[0] if len(key) == 1 else key


def any_array(chance: Chance) -> Any:
    shape = [chance.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(chance.randint(0, 4))]
    array = numbers(shape, chance.choice(DTYPES))
    return array.transpose(chance.sample(range(array.ndim), array.ndim))


def outcome(act: Any) -> Any:
    """What it gives, or that it is refused."""
    try:
        return act()
    except (IndexError, ValueError) as error:
        return type(error).__mro__[-3]


@pytest.mark.parametrize("seed", range(4))
def test_any_chain_of_views_is_numpys(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        array = any_array(chance)
        tensor = xd.asarray(array).to(chance.choice(xd.devices()))
        for _ in range(3):
            key = any_index(chance, array.shape)
            theirs, ours = outcome(lambda: np.asarray(array[key])), outcome(lambda: tensor[key])
            if isinstance(theirs, type):
                assert ours is theirs, (seed, array.shape, key)
                continue
            array, tensor = theirs, ours
            axes = chance.sample(range(array.ndim), array.ndim)
            array, tensor = array.transpose(axes), tensor.permute_dims(axes)
            assert tensor.shape == array.shape and tensor.tolist() == array.tolist(), (seed, key)
        shape = (-1, *array.shape[1:], 1)
        if array.size:
            assert tensor.reshape(shape).tolist() == array.reshape(shape).tolist()


def any_source(chance: Chance, shape: tuple[int, ...], dtype: str) -> Any:
    """An array that fits, that is repeated to fit, or that does not fit."""
    extents = [1 if chance.random() < 0.3 else extent for extent in shape]
    extents = extents[chance.randint(0, len(extents)) :] if chance.random() < 0.3 else extents
    extents = [1, *extents] if chance.random() < 0.2 else extents
    extents = [*extents, 2] if chance.random() < 0.05 else extents
    return numbers(extents, dtype) + np.array(1, dtype)


@pytest.mark.parametrize("seed", range(4))
def test_any_assignment_is_numpys(seed: int) -> None:
    chance = random.Random(100 + seed)
    for _ in range(100):
        array = any_array(chance)
        tensor = xd.asarray(array).to(chance.choice(xd.devices()), copy=True)
        key = any_index(chance, array.shape)
        part = outcome(lambda: np.asarray(array[key]))
        if isinstance(part, type) or part.ndim == 0:
            continue
        if chance.random() < 0.5:
            source = any_source(chance, part.shape, array.dtype.name)
            # A list of nothing has lost its shape.
            values = source.tolist() if source.size else source
            given = chance.choice([source, xd.asarray(source), values])
        else:
            # Of the tensor's own memory.
            other = any_index(chance, array.shape)
            source, given = outcome(lambda: array[other]), outcome(lambda: tensor[other])
        if isinstance(source, type):
            continue
        theirs = outcome(lambda: array.__setitem__(key, source))
        assert outcome(lambda: tensor.__setitem__(key, given)) is theirs, (seed, key)
        assert tensor.tolist() == array.tolist(), (seed, key)


def test_what_is_repeated_may_lie_in_the_part_that_it_fills() -> None:
    array = np.arange(12.0).reshape(3, 4)
    tensor = xd.asarray(array.copy())
    for key, other in [(..., np.s_[::-1, 1:2]), (..., np.s_[1:2, ::-1]), (..., np.s_[2:, 3:])]:
        array[key] = array[other].copy()
        tensor[key] = tensor[other]
        assert tensor.tolist() == array.tolist()
