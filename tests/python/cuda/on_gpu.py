"""Exchanges with the libraries that this Python has, both ways, on streams of theirs: `on_gpu.py`.

For a machine with a GPU (`scripts/gpu-test`). Prints a line for each exchange: the verdict, what was exchanged, and
with which version, separated by tabs. Work of a library is put behind much other work, so that who does not wait for
it reads what was there before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import crossdock as xd

COUNT, TIMES = 1 << 20, 10
HOST = xd.device("cpu")
Exchange = Callable[[int], None]


def values(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 30, COUNT, np.int32)


def check(found: Any, expected: np.ndarray[Any, Any]) -> None:
    different = np.flatnonzero(np.asarray(found) != expected)
    assert different.size == 0, f"{different.size} of {COUNT} differ, the first at {different[0]}"


def behind_work(there: Any, busy: Any) -> Any:
    """The same values, once much other work of the current stream is over."""
    for _ in range(20):
        busy = busy @ busy
    return there + (busy[0, 0] != busy[0, 0]) * 0


def arrays(
    make: Callable[[np.ndarray[Any, Any]], Any],
    squares: Any,
    take: Callable[[Any], Any],
    read: Callable[[Any], Any],
    on_stream: Callable[[], AbstractContextManager[Any]],
) -> Iterator[tuple[str, Exchange]]:
    """What libraries with kernels and a current stream exchange."""

    def produced(seed: int) -> None:
        expected = values(seed)
        with on_stream():
            array = behind_work(make(expected), squares)
            tensor = xd.from_dlpack(array)
        check(tensor.to(HOST).numpy(), expected)

    def consumed(seed: int) -> None:
        expected, work = values(seed), xd.Stream("cuda:0")
        tensor = xd.asarray(expected).to("cuda:0", stream=work, copy=True)
        with on_stream():
            found = read(take(tensor) + 1)
        check(found, expected + 1)

    def by_interface(seed: int) -> None:
        expected = values(seed)
        with on_stream():
            array = behind_work(make(expected), squares)
            tensor = xd.as_cuda_array(array)
        check(tensor.to(HOST).numpy(), expected)

    def freed_behind_its_use(seed: int) -> None:
        """A tensor of ours that goes while the library still reads it in its stream."""
        expected, work = values(seed), xd.Stream("cuda:0")
        tensor = xd.asarray(expected).to("cuda:0", stream=work, copy=True)
        with on_stream():
            taken = behind_work(take(tensor), squares)
            del tensor
            other = xd.asarray(values(seed + 1)).to("cuda:0", copy=True)
            found = read(taken)
        check(found, expected)
        check(other.to(HOST).numpy(), values(seed + 1))

    yield "DLPack, to Crossdock", produced
    yield "DLPack, from Crossdock", consumed
    yield "CUDA Array Interface, to Crossdock", by_interface
    yield "DLPack, freed behind its use", freed_behind_its_use


def with_torch() -> Iterator[tuple[str, Exchange]]:
    import torch

    if not torch.cuda.is_available():
        raise ImportError("it has no CUDA device")
    yield from arrays(
        make=lambda array: torch.from_numpy(array).to("cuda:0", non_blocking=True),
        squares=torch.eye(1024, device="cuda:0"),
        take=torch.from_dlpack,
        read=lambda array: array.cpu().numpy(),
        on_stream=lambda: torch.cuda.stream(torch.cuda.Stream()),
    )

    def pinned(seed: int) -> None:
        expected = values(seed)
        page_locked = torch.from_numpy(expected).pin_memory()
        check(xd.from_dlpack(page_locked).to("cuda:0", copy=True).to(HOST).numpy(), expected)

    yield "pinned memory, to Crossdock", pinned


def with_cupy() -> Iterator[tuple[str, Exchange]]:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise ImportError("it has no CUDA device")
    yield from arrays(
        make=cupy.asarray,
        squares=cupy.eye(1024, dtype=cupy.float32),
        take=cupy.from_dlpack,
        read=cupy.asnumpy,
        on_stream=lambda: cupy.cuda.Stream(non_blocking=True),
    )


def with_jax() -> Iterator[tuple[str, Exchange]]:
    import jax

    if jax.default_backend() != "gpu":
        raise ImportError(f"its backend is {jax.default_backend()}")

    def produced(seed: int) -> None:
        expected = values(seed)
        array = behind_work(jax.numpy.asarray(expected), jax.numpy.eye(1024))
        check(xd.from_dlpack(array).to(HOST).numpy(), expected)

    def consumed(seed: int) -> None:
        expected, work = values(seed), xd.Stream("cuda:0")
        tensor = xd.asarray(expected).to("cuda:0", stream=work, copy=True)
        check(jax.numpy.from_dlpack(tensor) + 1, expected + 1)

    yield "DLPack, to Crossdock", produced
    yield "DLPack, from Crossdock", consumed


def with_numba() -> Iterator[tuple[str, Exchange]]:
    from numba import cuda

    def produced(seed: int) -> None:
        expected, stream = values(seed), cuda.stream()
        with cuda.pinned(expected):
            array = cuda.to_device(expected, stream=stream)
            check(xd.asarray(array).to(HOST).numpy(), expected)
            stream.synchronize()

    def consumed(seed: int) -> None:
        expected, work = values(seed), xd.Stream("cuda:0")
        tensor = xd.asarray(expected).to("cuda:0", stream=work, copy=True)
        check(cuda.as_cuda_array(tensor).copy_to_host(), expected)

    produced(0)
    yield "CUDA Array Interface, to Crossdock", produced
    yield "CUDA Array Interface, from Crossdock", consumed


def main() -> int:
    failed = 0
    libraries = {"torch": with_torch, "cupy": with_cupy, "jax": with_jax, "numba": with_numba}
    for name, exchanges in libraries.items():
        try:
            found = list(exchanges())
        except Exception as error:
            # Whatever a library lacks, the next one may work: a missing part is told in many ways.
            print("skipped", name, f"{type(error).__name__}: {error}".replace("\n", " "), sep="\t")
            continue
        version = sys.modules[name].__version__
        for what, exchange in found:
            try:
                for seed in range(TIMES):
                    exchange(seed)
                print("ok", f"{name}: {what}", f"{version}, {TIMES} times", sep="\t", flush=True)
            except Exception as error:
                failed += 1
                print("failed", f"{name}: {what}", f"{version}: {error}".replace("\n", " "), sep="\t", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
