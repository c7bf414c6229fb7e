"""Calls of `__dlpack__` whose keywords are one constant: the values decide each time."""

from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest

NEW, OLD = "dltensor_versioned", "dltensor"
TODAY = (1, 3)


def ask(tensor: xd.Tensor, copy: Any, version: Any) -> Any:
    """One tuple of keywords for all calls."""
    return tensor.__dlpack__(copy=copy, max_version=version)


@pytest.fixture
def tensor() -> xd.Tensor:
    made = xd.from_dlpack(np.arange(6.0))
    for _ in range(3):
        assert handmade.name_of(ask(made, None, TODAY)) == NEW.encode()
    return made


def test_another_version_is_read(tensor: xd.Tensor) -> None:
    assert handmade.name_of(ask(tensor, None, (0, 8))) == OLD.encode()
    assert handmade.name_of(ask(tensor, None, (2, 0))) == NEW.encode()


def test_a_copy_is_made_where_one_is_asked_for(tensor: xd.Tensor) -> None:
    shared, copied = (xd.from_dlpack(ask(tensor, copy, TODAY)) for copy in (None, True))
    assert shared.data_ptr() == tensor.data_ptr() != copied.data_ptr()


@pytest.mark.parametrize("version", [[1, 3], (1.0, 3), (1,), ("1", "3"), (1, -1)])
def test_what_is_no_version_is_refused(tensor: xd.Tensor, version: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ask(tensor, None, version)


def test_so_is_a_copy_that_is_no_bool(tensor: xd.Tensor) -> None:
    with pytest.raises(TypeError):
        ask(tensor, "yes", TODAY)
