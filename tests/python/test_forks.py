"""Children of a fork: a runtime of their own, and what they inherited. Each ends by its real end."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import crossdock as xd
import pytest
from crossdock import _late

pytestmark = [pytest.mark.ends, pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork")]

# A child does `in_child` and ends as a process does; its parent tells its code.
START = """
import os, sys, pickle
import crossdock as xd
import numpy as np

def forked(in_child):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        in_child()
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, code

def refusal(call):
    try:
        call()
    except xd.DeviceError as error:
        assert "fork" in str(error).lower(), error
        return str(error)
    raise AssertionError("no refusal")
"""


def run(child: Any, program: str) -> str:
    done = child(START + program)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return str(done.stdout)


def test_a_pool_of_forked_workers_is_sent_tensors_and_sends_some_back(child: Any) -> None:
    program = """
import multiprocessing

def work(tensor):
    return tensor.copy(), float(np.from_dlpack(tensor).sum()), tensor.device == xd.device("cpu")

xd.devices()
sent = [xd.asarray(np.full(5, float(number))).to("cpu", copy=True) for number in range(4)]
with multiprocessing.get_context("fork").Pool(2) as pool:
    answers = pool.map_async(work, sent).get(60)
for number, (copy, total, is_own) in enumerate(answers):
    assert copy.tolist() == [number] * 5 and total == 5 * number and is_own
print("done")
"""
    assert run(child, program) == "done\n"


def test_a_forked_worker_uses_crossdock_as_a_loader_does(child: Any) -> None:
    program = """
import multiprocessing

def batch(number):
    cpu = [device for device in xd.devices() if str(device) == "cpu:0"][0]
    taken = xd.from_dlpack(np.full((2, 3), number, "float32"))
    moved = taken.to(cpu, copy=True)
    stream = xd.Stream("cpu")
    moved.fill(number, stream=stream)
    return np.from_dlpack(moved)

kept = [xd.zeros(3, device=device) for device in xd.devices()]
with multiprocessing.get_context("fork").Pool(2) as pool:
    batches = pool.map_async(batch, range(6)).get(60)
assert [int(b[0, 0]) for b in batches] == list(range(6))
assert all(one.to("cpu").tolist() == [0, 0, 0] for one in kept)
print("done")
"""
    assert run(child, program) == "done\n"


def test_a_loader_of_pytorch_takes_tensors_in_its_forked_workers(child: Any) -> None:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    program = """
import torch
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __init__(self):
        self.all = xd.asarray(np.arange(8.0, dtype="float32")).to("cpu", copy=True)
    def __len__(self):
        return 8
    def __getitem__(self, index):
        assert xd.device("cpu") in xd.devices()
        return torch.from_dlpack(xd.from_dlpack(np.from_dlpack(self.all[index : index + 1])))

xd.devices()
loader = DataLoader(Numbers(), num_workers=2, multiprocessing_context="fork", timeout=60)
print(sorted(float(batch) for batch in loader))
"""
    assert run(child, program) == f"{[float(number) for number in range(8)]}\n"


def test_inherited_tensors_are_memory_of_others_on_the_childs_cpu(child: Any) -> None:
    """Also in the child of the child; the parent's own stay as they are."""
    program = """
array = np.arange(4.0)
lent = xd.from_dlpack(array)
used = xd.from_dlpack(np.arange(4.0))
assert used.tolist() == [0, 1, 2, 3]
made = xd.asarray([0.0, 1, 2, 3]).to("cpu", copy=True)
buffer = xd.asarray(bytearray(range(4)))
tensors = [lent, used, made, buffer]
views = [tensor[::2] for tensor in tensors]

def use():
    cpu = xd.device("cpu")
    for tensor, view in zip(tensors, views):
        assert tensor.device == view.device == cpu
        assert tensor.tolist() == [0, 1, 2, 3] and view.tolist() == [0, 2]
        assert tensor[1:3].tolist() == [1, 2]
        assert np.from_dlpack(tensor).tolist() == np.asarray(tensor).tolist() == [0, 1, 2, 3]
        assert pickle.loads(pickle.dumps(tensor)).tolist() == tensor.copy().tolist() == [0, 1, 2, 3]
        assert tensor.to("cpu").data_ptr() == tensor.data_ptr()
        assert all(tensor.to(device).to("cpu").tolist() == [0, 1, 2, 3] for device in xd.devices())
        tensor.fill(7)
        assert view.tolist() == [7, 7]
        tensor[:] = tensor.copy()
        np.from_dlpack(view)[:] = 8
        assert tensor.tolist() == [8, 7, 8, 7]
        tensor[:] = np.arange(4).astype(str(tensor.dtype))

def twice():
    use()
    forked(use)
    use()
    tensors.clear()
    views.clear()

forked(use)
forked(twice)
assert [tensor.tolist() for tensor in tensors] == [[0, 1, 2, 3]] * 4 and array[3] == 3
print("done")
"""
    assert run(child, program) == "done\n"


def test_an_inherited_stream_is_refused_where_there_is_nothing_to_do_too(child: Any) -> None:
    program = """
tensor, stream = xd.ones(4), xd.Stream("cpu")

def in_child():
    for call in (tensor.wait_to_read, tensor.wait_to_write, tensor.used_on, tensor.written_on):
        refusal(lambda: call(stream))
    refusal(lambda: tensor.to("cpu", stream=stream))
    refusal(lambda: xd.explain(tensor, "cpu", stream=stream))
    refusal(lambda: xd.zeros(0).fill(1, stream=stream))
    refusal(stream.record)
    refusal(stream.synchronize)

forked(in_child)
print("done")
"""
    assert run(child, program) == "done\n"


def test_nothing_that_was_inherited_is_given_back_in_a_child(child: Any) -> None:
    program = """
import handmade

deleted = []
forged = [handmade.Forged((4,), on_delete=lambda: deleted.append(os.getpid())) for _ in range(2)]
tensors = [xd.from_dlpack(one.capsule()) for one in forged]
tensors[0].tolist()

def drop():
    tensors[0].tolist()
    tensors.clear()
    assert deleted == [], deleted

forked(drop)
tensors.clear()
assert deleted == [os.getpid()] * 2
print("done")
"""
    assert run(child, program) == "done\n"


def test_what_is_first_used_in_a_child_is_the_parents_to_give_back(child: Any) -> None:
    program = """
import handmade

given_back = []
used, shared = (
    xd.from_dlpack(handmade.Forged((4,), on_delete=lambda: given_back.append(1)).capsule())
    for _ in range(2)
)
shared.tolist()

def in_child():
    global used, shared
    used.tolist(), shared.tolist()
    before = xd._crossdock._counted_leaks()
    del used, shared
    xd.wait_for_releases(10)
    assert not given_back and xd._crossdock._counted_leaks() > before

forked(in_child)
used.tolist()
del used, shared
assert len(given_back) == 2
print("done")
"""
    assert run(child, program) == "done\n"


def test_what_was_synchronized_is_the_childs_to_read_and_write(child: Any) -> None:
    program = """
stream = xd.Stream("cpu")
read = xd.asarray(np.arange(1000.0)).to("cpu", copy=True)
written = read.to("cpu", copy=True, stream=stream)
written.fill(3, stream=stream)
stream.synchronize()
for tensor in (read, written):
    tensor.synchronize()

def in_child():
    assert read.tolist() == list(range(1000)) and written.tolist() == [3] * 1000
    read[0] = 7
    assert read[0].item() == 7

forked(in_child)
print("done")
"""
    assert run(child, program) == "done\n"


def test_what_the_parent_has_open_stays_its_own(child: Any) -> None:
    program = """
there = xd.asarray([1.0, 2.0]).to("cpu", copy=True)
device, stream = xd.device("cpu"), xd.Stream("cpu")

def use():
    for call in (
        lambda: there.to(device, copy=True),
        lambda: xd.zeros(3, device=device),
        lambda: there.fill(1, stream=stream),
        lambda: stream.synchronize(),
        lambda: xd.Stream(device),
    ):
        assert "anew" in refusal(call)
    assert xd.zeros(3, device="cpu").tolist() == [0, 0, 0]

forked(use)
print("done")
"""
    assert run(child, program) == "done\n"


def test_a_tensor_with_work_answers_forked(child: Any, accelerators_library: Any) -> None:
    program = f"""
from pathlib import Path
from accelerators import Accelerators

loaded = Accelerators(Path({str(accelerators_library)!r}))
held, waiting = xd.Stream("cuda:0", native=4096), xd.Stream("cpu")
loaded.hold()
waiting.wait(held.record())
busy = xd.zeros(4).to("cpu", copy=True)
busy.fill(3, stream=waiting)
done = xd.zeros(4).to("cpu", copy=True)
done.fill(3, stream=xd.Stream("cpu"))
done.synchronize()

def use():
    for call in (busy.tolist, lambda: busy.fill(1), lambda: busy.to("cpu", copy=True), busy.copy):
        refusal(call)
    assert done.tolist() == [3] * 4
    assert "spawn" in refusal(lambda: xd.load_plugin({str(accelerators_library)!r}))

forked(use)
loaded.hold(False)
assert busy.tolist() == [3] * 4
print("done")
"""
    assert run(child, program) == "done\n"


def test_a_driver_that_the_parent_started_is_for_a_process_that_is_spawned(child: Any) -> None:
    program = """
there = [device for device in xd.devices() if device.type == "opencl"]
if not there:
    sys.exit(print("skipped"))
kept = xd.ones(3, device=there[0])

def use():
    assert [str(device) for device in xd.devices()] == ["cpu:0"]
    for call in (
        lambda: xd.device("opencl:0"),
        lambda: xd.zeros(3, device="opencl:0"),
        lambda: kept.to("cpu"),
        lambda: kept.fill(2),
    ):
        assert "spawn" in refusal(call)

forked(use)
assert kept.to("cpu").tolist() == [1, 1, 1]
print("done")
"""
    said = run(child, program)
    if said == "skipped\n":
        pytest.skip("no OpenCL device is here")
    assert said == "done\n"


def test_a_driver_that_the_parent_did_not_start_is_the_childs(child: Any) -> None:
    program = """
def use():
    for device in xd.devices():
        assert xd.asarray([1.0, 2.0]).to(device, copy=True).to("cpu").tolist() == [1, 2]
    print(len(xd.devices()))

forked(use)
assert xd.zeros(2, device=xd.devices()[-1]).to("cpu").tolist() == [0, 0]
print(len(xd.devices()))
"""
    first, second = run(child, program).split()
    assert first == second


FIRST_USES = {
    "values": "tensor.tolist()",
    "an assignment": "tensor[:] = [1, 2, 3]",
    "a fill": "tensor.fill(2)",
    "a text": "repr(tensor)",
    "an array": "tensor.numpy()",
    "a file of arrays": "xd.load(file)['a']",
}


@pytest.mark.parametrize("use", FIRST_USES.values(), ids=FIRST_USES.keys())
def test_a_fork_waits_for_a_thread_that_loads_a_part_of_the_package(use: str, child: Any) -> None:
    """Else the child finds the lock of that module held for ever."""
    program = f"""
import signal, tempfile, threading

file = tempfile.gettempdir() + f"/forks-{{os.getpid()}}.npz"
np.savez(file, a=np.ones(3))
for name in ("zipfile", "json", "mmap"):
    sys.modules.pop(name, None)
loads, go = threading.Event(), threading.Event()

class Stop:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is thread and not go.is_set():
            loads.set()
            go.wait()

def use():
    tensor = xd.from_dlpack(np.zeros(3))
    {use}

# The last that is registered is the first that is called.
os.register_at_fork(before=go.set)
sys.meta_path.insert(0, Stop())
thread = threading.Thread(target=lambda: (use(), loads.set()))
thread.start()
loads.wait()

def in_child():
    signal.alarm(20)
    use()

forked(in_child)
thread.join()
os.remove(file)
print("done")
"""
    assert run(child, program) == "done\n"


def test_all_that_the_package_loads_late_is_loaded_before_a_fork() -> None:
    folder = Path(xd.__file__).parent
    modules = {file.stem: ast.parse(file.read_text()) for file in folder.glob("*.py")}
    of_functions = {
        name
        for module in modules.values()
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        for name in (
            [alias.name for alias in statement.names]
            if isinstance(statement, ast.Import)
            else [statement.module]
            if isinstance(statement, ast.ImportFrom) and not statement.level and statement.module
            else []
        )
    }
    assert of_functions <= {*_late.OF_PYTHON, *_late.OF_OTHERS}


def test_no_part_of_the_package_is_loaded_late() -> None:
    # A signal handler that comes while a module loads sees half of it.
    names = {file.stem for file in Path(xd.__file__).parent.glob("*.py")}
    parts = {f"crossdock.{name}" for name in names - {"__init__", "_command"}}
    program = "import sys, crossdock; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert parts <= {*loaded.stdout.split()}


def test_a_package_that_must_not_be_imported_does_not_disturb_a_fork(child: Any) -> None:
    run = child("""
import os, sys
import crossdock
sys.modules["ml_dtypes"] = None
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
""")
    assert (run.returncode, run.stderr) == (0, "")
