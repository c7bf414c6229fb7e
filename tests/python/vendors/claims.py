"""Each claim of a device, right or wrong, on CUDA and ROCm in one process: `claims.py VENDOR ..`.

Memory of every kind, made by its vendor's library, is called everything that DLPack has a name for. Prints a line of
tabs for each: the memory, the claim, and what came of it. The vendors are those whose plugin may be loaded: device
memory of another one is not called the host's, which nobody here could refute, and which the host would then read.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from handmade import Forged, Producer, struct_in

import crossdock as xd

BYTES = 4096
# By the numbers of `dlpack.h`.
CLAIMS = {
    "cpu:0": (1, 0), "cuda:0": (2, 0), "cuda:1": (2, 1), "cuda:9": (2, 9), "cuda_host:0": (3, 0),
    "opencl:0": (4, 0), "rocm:0": (10, 0), "rocm:1": (10, 1), "rocm:9": (10, 9), "rocm_host:0": (11, 0),
    "cuda_managed:0": (13, 0),
}  # fmt: skip
# What these name is taken for the host's where no plugin knows better.
HOSTS = ["cpu:0", "cuda_host:0", "rocm_host:0", "cuda_managed:0"]
NAMES = {pair: name for name, pair in CLAIMS.items()}


def driver_of(vendor: str) -> ModuleType:
    """The calls of a vendor, of which both have a module with this name."""
    sys.modules.pop("driver", None)
    sys.path.insert(0, str(HERE.parent / vendor))
    found = importlib.import_module("driver")
    sys.path.pop(0)
    found.start()
    return found


def filled(driver: ModuleType, address: int) -> int:
    driver.fill(address, 7, BYTES, driver.LEGACY)
    driver.synchronize(driver.LEGACY)
    return address


def memory() -> dict[str, int]:
    """Memory of every kind, with sevens in it."""
    cuda, rocm = driver_of("cuda"), driver_of("rocm")
    host = np.full(2 * BYTES, 7, np.uint8)
    _kept.append(host)
    made = {"host": host.ctypes.data}
    for vendor in (cuda, rocm):
        for device in (0, 1):
            vendor.on(device)
            made[f"{vendor.NAME}:{device}"] = filled(vendor, vendor.allocate(BYTES))
        vendor.on(0)
        made[f"{vendor.NAME} pinned"] = filled(vendor, vendor.allocate_pinned(BYTES))
    made["cuda managed"] = filled(cuda, cuda.made("cuMemAllocManaged", cuda.SIZE(BYTES), 1))
    made["rocm managed"] = filled(rocm, int(rocm.call("hipMallocManaged", BYTES, 1)))
    return made


_kept: list[Any] = []


def told(address: int, claim: tuple[int, int] | None) -> str:
    """What comes of memory that is claimed: where it is found and as what it is handed out, or why it is refused."""
    given = Forged((BYTES,), dtype=(1, 8, 1), device=claim or (2, 0), data=address, size=1)
    producer = Producer(given)
    try:
        if claim is None:
            described = {"version": 3, "shape": (BYTES,), "typestr": "|u1", "data": (address, False)}
            tensor = xd.from_cuda_array_interface(described)
        else:
            tensor = xd.from_dlpack(producer)
        # What is called the host's is looked at before it is used.
        values = set(tensor.to("cpu", copy=True).tolist())
    except (BufferError, ValueError, xd.UnsupportedDeviceError) as error:
        answer = f"{type(error).__name__}: {error}"
    else:
        stated = tensor.__dlpack_device__()
        if claim is not None:
            handed = struct_in(tensor.__dlpack__(max_version=(1, 3))).tensor
            assert (handed.device_type, handed.device_id) == stated, stated
        assert values == {7}, values
        answer = f"{tensor.device} as {NAMES[stated]}"
    tensor = None
    gc.collect()
    # What was taken is given back, once, whether it was refused or not.
    if claim is not None:
        asked = sum(name == "dlpack" for name, _ in producer.calls)
        assert given.deleted == asked, (given.deleted, asked)
    return answer


def main() -> None:
    for name, address in memory().items():
        is_known = name in ("host", "cuda pinned", "rocm pinned") or name[:4] in sys.argv[1:] or "managed" in name
        for claim, pair in {**CLAIMS, "interface": None}.items():
            if not is_known and claim in HOSTS:
                continue
            print(name, claim, told(address, pair), sep="\t")


main()
