"""The interchange matrix: each cell shares, copies or refuses as promised."""

from __future__ import annotations

import pytest
from matrix import Cell, cells


@pytest.mark.parametrize("cell", list(cells()), ids=str)
def test_an_exchange_does_what_is_promised(cell: Cell) -> None:
    assert cell.outcome() == cell.promise()
