"""Crossdock as one more client, of both vendors, and as the way from one vendor's to the other's."""

from __future__ import annotations

import numpy as np

import crossdock as xd

from .parts import Words, Client, Given, Taken, chance


def behind(array: xd.Tensor, work: xd.Stream, vendor: str) -> Given:
    def end(reader: int | None) -> None:
        nonlocal array
        if reader is not None:
            work.wait(xd.Stream(f"{vendor}:0", native=reader).record())
        del array
        work.synchronize()

    return Given(array, vendor, end)


def give(values: Words, vendor: str) -> Given:
    work = xd.Stream(f"{vendor}:0")
    return behind(xd.asarray(values).to(f"{vendor}:0", stream=work, copy=True), work, vendor)


def take(given: Given) -> Taken:
    take_in = xd.from_dlpack if hasattr(given.array, "__dlpack__") and chance.random() < 0.5 else xd.as_cuda_array
    tensor = take_in(given.array)
    assert str(tensor.device) == f"{given.vendor}:0"

    def found() -> Words:
        nonlocal tensor
        read = np.asarray(tensor.to("cpu").numpy()).view(np.uint32)
        del tensor
        xd.wait_for_releases()
        return read

    return Taken(None, found)


def moved(given: Given, vendor: str) -> Given:
    """The same on a device of another vendor's."""
    work = xd.Stream(f"{vendor}:0")
    moved = behind(xd.as_cuda_array(given.array).to(f"{vendor}:0", stream=work, copy=True), work, vendor)

    def end(reader: int | None) -> None:
        moved.end(reader)
        xd.wait_for_releases()
        given.end(None)

    return Given(moved.array, vendor, end)


CLIENTS = {"crossdock": Client(None, give, take)}
