"""Tensors between Crossdock's ROCm plugin and hip-python, on streams, both ways."""

import sys

import numpy as np
import pytest
from hip import hip

import crossdock as xd

SIZE = 4096


def done(answer):  # type: ignore[no-untyped-def]
    """What a call of HIP gives, which succeeded."""
    code, *rest = answer
    assert int(code) == 0, answer
    return rest[0] if len(rest) == 1 else rest


rng = np.random.default_rng(int(sys.argv[1]))
count = done(hip.hipGetDeviceCount())
for _ in range(int(sys.argv[2])):
    device = int(rng.integers(count))
    done(hip.hipSetDevice(device))
    stream = done(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    sent = rng.integers(0, 256, SIZE, dtype=np.uint8)
    # Theirs: bytes are on their way on a stream, and the array's description names it.
    theirs = done(hip.hipMalloc(SIZE))
    done(hip.hipMemcpyAsync(theirs, sent, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, stream))
    entry = {"version": 3, "shape": (SIZE,), "typestr": "|u1", "strides": None}
    entry |= {"data": (int(theirs), False), "stream": int(stream)}
    taken = xd.from_cuda_array_interface(entry)
    assert taken.device == xd.device(f"rocm:{device}"), taken.device
    assert (np.from_dlpack(taken.to("cpu")) == sent).all()
    # Ours: made on another device, and read by their copy, which waits for our work.
    ours = taken.to(f"rocm:{(device + 1) % count}", copy=True)
    described = ours.__cuda_array_interface__
    assert described["stream"] is None or described["stream"] > 2
    back = np.zeros(SIZE, dtype=np.uint8)
    done(hip.hipMemcpy(back, described["data"][0], SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert (back == sent).all()
    for number in (None, 0, int(stream) if device == ours.device.id else -1):
        ours.__dlpack__(stream=number)
    # 1 and 2 mean one stream on CUDA, and none here.
    for number in (1, 2):
        with pytest.raises(ValueError, match="on ROCm it is None, 0, a handle or -1"):
            ours.__dlpack__(stream=number)
    pinned = taken.to(f"rocm_host:{device}")
    assert pinned.__dlpack_device__() == (11, 0) and (np.from_dlpack(pinned) == sent).all()
    # The thread's device and last error are still the client's.
    assert done(hip.hipGetDevice()) == device
    assert int(hip.hipPeekAtLastError()[0]) == 0
    del taken, ours, pinned
    done(hip.hipStreamSynchronize(stream))
    done(hip.hipFree(theirs))
    done(hip.hipStreamDestroy(stream))
