"""What is handed over and what is taken, and host memory that each vendor here has registered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = 4096
Words = np.ndarray[Any, np.dtype[np.uint32]]
chance = random.Random()


@dataclass
class Given:
    """An array whose content is still on its way, on a stream that its protocols name."""

    array: Any
    vendor: str
    # Gives the memory back: behind what a reader's stream has to do now, or at once where nobody reads any more.
    end: Callable[[int | None], None]


@dataclass
class Taken:
    """A read that was submitted: its stream, if one of the taker's own is still at work, and what it read, after a wait."""

    reader: int | None
    words: Callable[[], Words]


@dataclass
class Client:
    vendor: str | None
    give: Callable[[Words, str], Given]
    take: Callable[[Given], Taken]


class Described:
    """An array with nothing but the interface."""

    def __init__(self, address: int, stream: int | None, kept: Any = None) -> None:
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (SIZE // 4,), "typestr": "<u4", "data": (address, False), "strides": None,
            "stream": stream,
        }  # fmt: skip
        self.kept = kept


class Pages:
    """Pages of host memory that all vendors have registered, so that copies of each of them are asynchronous."""

    def __init__(self) -> None:
        self.register: list[Callable[[Words], None]] = []
        self.idle: list[Words] = []

    def take(self) -> Words:
        if self.idle:
            return self.idle.pop(chance.randrange(len(self.idle)))
        page = np.zeros(SIZE // 4, np.uint32)
        for register in self.register:
            register(page)
        return page

    def give_back(self, page: Words) -> None:
        """Of which no stream has anything to do any more."""
        self.idle.append(page)


pages = Pages()


def pattern() -> Words:
    page = pages.take()
    page[:] = np.frombuffer(chance.randbytes(SIZE), np.uint32)
    return page
