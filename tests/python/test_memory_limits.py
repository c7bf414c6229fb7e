"""Memory that is not to be had is a `MemoryError` and no end of the process."""

from __future__ import annotations

from pathlib import Path

from conftest import Child

PROGRAM = """
import pickle, resource
import crossdock as xd
import numpy as np

many = 1 << 27
np.savez_compressed({path!r}, a=np.zeros(many, np.uint8))
plain = xd.zeros(many, dtype="uint8")
square, halves = plain.reshape(1 << 14, 1 << 13), xd.zeros(many, dtype="float4_e2m1fn")
sixes, stream = xd.zeros(many // 2, dtype="float6_e2m3fn"), xd.current_stream("cpu")
# Threads start, and modules are imported, before there is too little memory for them.
xd.zeros((1 << 10, 1 << 10)).mT.to("cpu", stream=stream, copy=True)
stream.synchronize()
pickle.dumps(xd.zeros(2), protocol=4), xd.zeros(3, dtype="float6_e2m3fn").tolist()
calls = dict(
    zeros=lambda: xd.zeros(many, dtype="uint8"),
    copy=plain.copy,
    transposed=square.mT.copy,
    strided=lambda: square[:, ::2].copy(),
    tolist=plain.tolist,
    overlapping=lambda: plain.__setitem__(slice(1, None), plain[:-1]),
    packed=lambda: halves.reshape(1 << 14, 1 << 13).mT.copy(),
    filled=lambda: sixes.fill(1),
    reshaped=lambda: square.mT.reshape(-1),
    pickled=lambda: pickle.dumps(plain, protocol=4),
    numbers=lambda: xd.asarray(range(many)),
    loaded=lambda: xd.load({path!r}),
    shape=lambda: xd.zeros(range(1 << 60)),
    on_a_stream=lambda: square.mT.to("cpu", stream=stream, copy=True),
)
for name, call in calls.items():
    # What an earlier call left is used up as well.
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (32 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        call()
        print(name, "passed", flush=True)
    except MemoryError:
        print(name, flush=True)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""

CALLS = """zeros copy transposed strided tolist overlapping packed filled reshaped pickled numbers loaded shape
on_a_stream"""


def test_each_call_that_lacks_memory_says_so(child: Child, tmp_path: Path) -> None:
    run = child(PROGRAM.format(path=str(tmp_path / "zeros.npz")))
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == CALLS.split(), run.stderr


SMALL_STACK = """
import threading
import crossdock as xd

failed = []

def copies():
    try:
        for dtype in ("uint8", "float32", "complex128", "float4_e2m1fn"):
            tensor = xd.zeros((320, 320), dtype=dtype)
            for copy in (tensor.copy(), tensor.mT.copy(), tensor.to("cpu", copy=True)):
                assert copy.shape == (320, 320)
            tensor.mT.to("cpu", stream=xd.current_stream("cpu"), copy=True).synchronize()
    except BaseException as error:
        failed.append(error)

copies()
threading.stack_size(64 << 10)
thread = threading.Thread(target=copies)
thread.start()
thread.join()
print("copied", failed)
"""


def test_threads_with_a_small_stack_copy(child: Child) -> None:
    run = child(SMALL_STACK)
    assert (run.returncode, run.stdout) == (0, "copied []\n"), run.stderr
