"""What the races share: a device of `cuda.core`'s, and the parts of libraries that nobody can install here."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.core import Buffer, Device, Event, LegacyPinnedMemoryResource, Stream

SIZE = 4096
device = Device(0)
device.set_current()
default = device.default_stream
pinned = LegacyPinnedMemoryResource()
host, result = pinned.allocate(SIZE), pinned.allocate(SIZE)
np.from_dlpack(host).view(np.uint8)[:] = 9


def memory(stream: Stream) -> Buffer:
    """Memory that is there for every stream, as what an allocator keeps is."""
    made = device.memory_resource.allocate(SIZE, stream=stream)
    stream.sync()
    return made


class Array:
    """A library's array: memory and the stream that its content is made on, handed out as DLPack says."""

    def __init__(self, memory: Buffer, stream: Stream) -> None:
        self.memory, self.stream = memory, stream

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **asked: Any) -> object:
        if stream not in (None, -1):
            Stream.from_handle(stream).wait(self.stream)
        return self.memory.__dlpack__(**asked)


class Capsule:
    """A capsule alone: whoever takes it can name no stream any more."""

    def __init__(self, capsule: object, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_asked: Any) -> object:
        return self.capsule


class CachingAllocator:
    """Blocks that are given back and used again, behind nothing but what their own stream has to do."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.blocks: list[Buffer] = []
        self.idle: list[Buffer] = []
        self.events: dict[int, Event] = {}

    def allocate(self, *, is_fresh: bool = False) -> Buffer:
        if not self.idle or is_fresh:
            self.blocks.append(memory(self.stream))
            return self.blocks[-1]
        block = self.idle.pop()
        if event := self.events.pop(int(block.handle), None):
            self.stream.wait(event)
        return block

    def record_use(self, block: Buffer, stream: Stream) -> None:
        """The next one to get this block waits for what the stream does with it now."""
        self.events[int(block.handle)] = stream.record()

    def free(self, block: Buffer) -> None:
        self.idle.append(block)

    def end(self) -> None:
        for block in self.blocks:
            block.close(self.stream)
