"""Right exchanges between pairs of public clients, drawn by seeds: `exchanges.py SEEDS COUNT CLIENT CLIENT .. [without]`.

The one writes on a stream of its own and hands over by DLPack or by the CUDA Array Interface, with that stream; the
other one waits as the protocol says, and reads on a stream of its own. Then all ends in an order that is right: the
host waits for the reader, or the writer's stream does.

Clients: `cuda.core`, `cuda.bindings`, `numba-cuda`, `hip-python`, and `crossdock` where its package is. With `without`
some takers leave their first wait out. For each of so many seeds it prints how often each pair was drawn, or how many
waits were left out and how many of those were reported; a few streams are ordered by their kind, too.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections import Counter

from pairs.parts import Client, Given, Words, chance, pages, pattern

MODULES = {"hip-python": "hip_python", "crossdock": "crossdock"}
clients: dict[str, Client] = {}
simulator = ctypes.CDLL("libcrossdock_sim.so")


def staged(given: Given, vendor: str) -> Given:
    """The same for a client of the other vendor, through a page of both. Only the host can wait between the two."""
    readers = [client for client in clients.values() if client.vendor == given.vendor]
    page = chance.choice(readers).take(given).words()
    given.end(None)
    writers = [client for client in clients.values() if client.vendor == vendor]
    there = chance.choice(writers).give(page, vendor)

    def end(reader: int | None) -> None:
        there.end(reader)
        pages.give_back(page)

    return Given(there.array, vendor, end)


def handed_over(giver: str, taker: str, values: Words) -> Given:
    """What a giver has for a taker: where that is of the other vendor, brought to it."""
    own = clients[giver].vendor or clients[taker].vendor or "cuda"
    given = clients[giver].give(values, own)
    there = clients[taker].vendor or own
    if there == own:
        return given
    if "crossdock" in clients and chance.random() < 0.5:
        moved: Given = importlib.import_module("pairs.crossdock").moved(given, there)
        return moved
    return staged(given, there)


def exchange(giver: str, taker: str, lost: Lost | None) -> None:
    values = pattern()
    given = handed_over(giver, taker, values)
    if lost:
        lost.begin()
    taken = clients[taker].take(given)
    is_lost = lost is not None and lost.end()
    if taken.reader is not None and not is_lost and chance.random() < 0.5:
        given.end(taken.reader)
        found = taken.words()
    else:
        found = taken.words()
        given.end(None)
    if lost:
        lost.count(is_lost)
    assert is_lost or (found == values).all(), (giver, taker)
    pages.give_back(values)
    if clients[taker].vendor:
        pages.give_back(found)


class Lost:
    """Waits that are left out, and what is reported of that."""

    WAITS = (b"cuStreamWaitEvent", b"cuStreamSynchronize", b"hipStreamWaitEvent")

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(1 << 20)
        self.waits = self.reported = 0

    def begin(self) -> None:
        self.name = chance.choice(self.WAITS)
        simulator.crossdock_sim_drop_call(self.name, ctypes.c_uint64(1))

    def end(self) -> bool:
        """Whether one was left out."""
        is_to_come: int = simulator.crossdock_sim_drop_call(self.name, ctypes.c_uint64(0))
        return is_to_come == 0

    def count(self, is_lost: bool) -> None:
        simulator.crossdock_sim_take_reports(self.text, ctypes.c_size_t(len(self.text)))
        is_reported = bool(self.text.value)
        assert is_lost or not is_reported, self.text.value
        self.waits += is_lost
        self.reported += is_reported


def run(count: int, lost: Lost | None) -> Counter[str]:
    """So many exchanges: how often each pair."""
    pairs = [(giver, taker) for giver in clients for taker in clients if giver != taker]
    drawn: Counter[str] = Counter()
    while drawn.total() < count:
        chance.shuffle(pairs)
        for giver, taker in pairs[: count - drawn.total()]:
            exchange(giver, taker, lost)
            drawn[f"{giver} -> {taker}"] += 1
    return drawn


def main(seeds: int, count: int, names: list[str]) -> None:
    for name in names:
        if name != "without":
            module = importlib.import_module(f"pairs.{MODULES.get(name, 'cuda')}")
            clients[name] = module.CLIENTS[name]
    for seed in range(seeds):
        simulator.crossdock_sim_seed(ctypes.c_uint64(seed))
        chance.seed(seed)
        lost = Lost() if "without" in names else None
        drawn = run(count, lost)
        print(json.dumps([lost.waits, lost.reported] if lost else drawn), flush=True)


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
