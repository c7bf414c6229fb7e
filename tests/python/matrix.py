"""The interchange matrix: every dtype in every layout, from each partner into us and out again.

    python matrix.py            prints it as a table

A cell is `shared`, `copied`, or `refused`. Values are compared each time, and sharing is proved by
a write on one side that the other sees.
"""

from __future__ import annotations

import ctypes
import mmap
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import array_api_strict
import crossdock as xd
import matrix_peers
import ml_dtypes
import numpy as np
import pyopencl as cl
import tvm_ffi

BOTH = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
# Of less than a byte; those of `ml_dtypes` take a whole one.
TINY = ["int2", "int4", "uint2", "uint4", "float4_e2m1fn"]
SMALL = ["bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"]
SMALL += ["float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "strided": lambda x: x[:, ::2],
    "transposed": lambda x: x.T,
    "zero-size": lambda x: x[:0],
    "0-d": lambda x: x[1, 2, ...],
    "read-only": lambda x: read_only(x),
    # For those who have one dimension.
    "flat": lambda x: x.reshape(-1),
    "flat and empty": lambda x: x.reshape(-1)[:0],
}
SHAPED = tuple(LAYOUTS)[:6]


def read_only(x: Any) -> Any:
    x.flags.writeable = False
    return x


@dataclass(frozen=True)
class Partner:
    """Another library."""

    name: str
    dtypes: list[str]
    # Makes one of its objects of NumPy's array, and of our tensor.
    give: Callable[[Any], Any]
    take: Callable[[Any], Any]
    # NumPy's view of one of its objects, with the shape and dtype of the second.
    look: Callable[[Any, Any], Any]
    # What takes its objects in.
    ours: Callable[[Any], xd.Tensor] = xd.from_dlpack
    layouts: tuple[str, ...] = SHAPED
    # Whether its objects view our memory, or have their own.
    views: bool = True
    # The outcome by direction, dtype and layout, where there are elements and it is its own.
    promised: Callable[[str, str, str], str] | None = None


def partners() -> Iterator[Partner]:
    """All of them."""
    dlpack = [*BOTH, *FLOATS, *COMPLEX]
    yield Partner(
        "NumPy", [*dlpack, "float16"], lambda x: x, np.from_dlpack, lambda x, _: np.asarray(x)
    )
    tvm: Callable[[Any], Any] = tvm_ffi.from_dlpack
    yield Partner("tvm-ffi", [*dlpack, "float16"], tvm, tvm, lambda x, _: np.from_dlpack(x))
    strict: Callable[[Any], Any] = array_api_strict.from_dlpack
    yield Partner("array-api-strict", dlpack, strict, strict, lambda x, _: np.from_dlpack(x))
    yield from matrix_peers.peers(Partner)
    # What speaks no DLPack comes in by `asarray`.
    if asarray := getattr(xd, "asarray", None):
        yield from of_the_host(asarray)


def of_the_host(asarray: Callable[[Any], xd.Tensor]) -> Iterator[Partner]:
    """Those whose exchange is the buffer protocol, or NumPy's."""
    yield Partner(
        "ml_dtypes",
        [*SMALL, *TINY],
        lambda x: x,
        lambda t: t.numpy(),
        lambda x, _: np.asarray(x),
        asarray,
    )
    numbers = [*BOTH, *FLOATS]
    yield Partner(
        "memoryview", numbers, memoryview, memoryview, lambda x, _: np.asarray(x), asarray
    )

    def look(x: Any, like: Any) -> Any:
        flat = np.frombuffer(x, like.dtype, like.size) if like.size else np.zeros(0, like.dtype)
        return flat.reshape(like.shape)

    def arrays(x: Any) -> Any:
        view = memoryview(x)
        made = array(view.format)
        made.frombytes(view.tobytes())
        return made

    def maps(x: Any) -> Any:
        words = memoryview(x).tobytes()
        made = mmap.mmap(-1, len(words))
        made.write(words)
        return made

    flat = ("flat", "flat and empty")
    queue = queue_of_ours()
    if queue is not None:
        made: Callable[[Any], Any] = lambda _: queue  # noqa: E731
        yield Partner("PyOpenCL", numbers[1:], made, made, look, layouts=flat[:1])
    yield Partner("array.array", numbers[1:], arrays, arrays, look, asarray, flat, False)
    yield Partner("bytes", ["uint8"], bytes, bytes, look, asarray, flat, False)
    yield Partner("mmap", ["uint8"], maps, maps, look, asarray, flat[:1], False)


@dataclass(frozen=True)
class Cell:
    """One exchange."""

    partner: Partner
    way: str
    dtype: str
    layout: str

    def __str__(self) -> str:
        return f"{self.partner.name} {self.way} {self.dtype} {self.layout}"

    def promise(self) -> str:
        """The outcome that is promised."""
        if "empty" in self.layout or self.layout == "zero-size":
            return "empty"
        if self.partner.promised:
            return self.partner.promised(self.way, self.dtype, self.layout)
        if self.partner.name == "tvm-ffi" and self.layout == "read-only":
            # It asks NumPy for a struct that cannot say so, and our type for its C functions.
            by_functions = hasattr(xd.Tensor, "__dlpack_c_exchange_api__")
            return "not made" if self.way == "into" else "shared" if by_functions else "refused"
        if self.way == "into":
            return "shared"
        # Our elements of less than a byte may be packed, and `numpy` unpacks them.
        return "shared" if self.partner.views and self.dtype not in TINY else "copied"

    def outcome(self) -> str:
        """Makes the exchange; `shared`, `copied`, or `refused` by us or by the partner."""
        reference: Any = LAYOUTS[self.layout](numbers(self.dtype))
        expected = reference.copy()
        if self.way == "into":
            try:
                given = self.partner.give(reference)
            except (BufferError, RuntimeError, ValueError, TypeError):
                return "not made"
            tensor = self.partner.ours(given)
            assert (tensor.shape, str(tensor.dtype)) == (expected.shape, self.dtype)
            seen = by_address(tensor)
            same(seen, expected)
            return shared(self.partner.look(given, expected), seen)
        tensor = self.partner.ours(reference)
        try:
            taken = self.partner.take(tensor)
        except (BufferError, RuntimeError):
            return "refused"
        seen = self.partner.look(taken, expected)
        same(seen, expected)
        return shared(reference, seen)


class Shared(Cell):
    """An exchange of a buffer of PyOpenCL, whose memory NumPy sees by a copy only."""

    def outcome(self) -> str:
        queue: Any = self.partner.give(None)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        expected: Any = LAYOUTS[self.layout](numbers(self.dtype))
        mem: Any = cl.Buffer(queue.context, flags, hostbuf=expected)
        tensor = xd.from_opencl(mem, shape=expected.shape, dtype=self.dtype)
        if self.way == "out of":
            # Memory of another context than the queue's would be another's.
            mem = cl.MemoryObject.from_int_ptr(tensor.cl_mem, retain=True)
        seen = np.zeros_like(expected)
        cl.enqueue_copy(queue, seen, mem)
        same(seen, expected)
        assert tensor.tolist() == expected.tolist()
        tensor.fill(1)
        tensor.synchronize()
        cl.enqueue_copy(queue, seen, mem)
        return "shared" if bool((seen == 1).all()) else "copied"


def queue_of_ours() -> Any:
    """A queue of PyOpenCL on a device that crossdock has too; `None` where there is none."""
    names = {device.name.strip() for device in xd.devices() if device.type == "opencl"}
    every = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    found = [device for device in every if device.name.strip() in names]
    return cl.CommandQueue(cl.Context(found[:1])) if found else None


def numbers(dtype: str) -> Any:
    """Values that no two of 24 elements share, where the dtype has so many."""
    values = np.arange(24) % 2 if dtype in TINY else np.arange(24)
    return aligned(values.reshape(4, 6).astype(numpys(dtype)))


def aligned(x: Any) -> Any:
    """The same at an address that everybody takes without a copy."""
    memory = np.empty(x.nbytes + matrix_peers.ALIGNED, np.uint8)
    start = -memory.ctypes.data % matrix_peers.ALIGNED
    made = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def numpys(dtype: str) -> Any:
    """NumPy's dtype of a name, or that of `ml_dtypes`."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def by_address(tensor: xd.Tensor) -> Any:
    """NumPy's view of what a tensor says of itself, by no protocol but its address."""
    dtype = numpys(str(tensor.dtype))
    if tensor.size == 0:
        return np.zeros(tensor.shape, dtype)
    span = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.strides)) + 1
    memory = (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(tensor.data_ptr())
    strides = [step * dtype.itemsize for step in tensor.strides]
    seen: Any = np.ndarray(tensor.shape, dtype, memory, strides=strides)
    seen.flags.writeable = not tensor.readonly
    return seen


def same(seen: Any, expected: Any) -> None:
    """The same shape, dtype and values."""
    assert (seen.shape, seen.dtype) == (expected.shape, expected.dtype)
    assert seen.tobytes() == expected.tobytes()


def shared(ours: Any, theirs: Any) -> str:
    """Whether a write by one is seen by the other; memory that nobody writes is compared."""
    if ours.size == 0:
        return "empty"
    if not ours.flags.writeable or not theirs.flags.writeable:
        return "shared" if np.shares_memory(ours, theirs) else "copied"
    before = ours.tobytes()
    theirs[...] = 0 if ours.size == 1 and ours.item() else 1
    return "shared" if ours.tobytes() != before else "copied"


def cells() -> Iterator[Cell]:
    """All of them."""
    for partner in partners():
        for way in ("into", "out of"):
            for dtype in partner.dtypes:
                for layout in partner.layouts:
                    kind = Shared if partner.name == "PyOpenCL" else Cell
                    yield kind(partner, way, dtype, layout)


def table() -> str:
    """A row for each partner, direction and layout: the outcomes, and how many dtypes have each."""
    rows: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for cell in cells():
        row = rows.setdefault((cell.partner.name, cell.way, cell.layout), {})
        row.setdefault(cell.outcome(), []).append(cell.dtype)
    lines = ["| partner | crossdock | layout | outcome |", "| --- | --- | --- | --- |"]
    for (partner, way, layout), outcomes in rows.items():
        if len(outcomes) == 1:
            (outcome, dtypes), *_ = outcomes.items()
            text = f"{outcome} ({len(dtypes)} dtypes)"
        else:
            text = "; ".join(f"{outcome}: {' '.join(all_)}" for outcome, all_ in outcomes.items())
        lines.append(f"| {partner} | {way} | {layout} | {text} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
