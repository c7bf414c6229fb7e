"""`crossdock-sim`: the wheel of the simulator, in projects that have neither a compiler nor a checkout."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
RACES = ROOT / "tests/sim/tests/clients/races.py"
WAITS = RACES.parent / "real_races/waits.py"
LONG = os.environ.get("CROSSDOCK_LONG") == "1"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder: with the core that the workspace has built, unless all is to be built."""
    folder = tmp_path_factory.mktemp("crossdock-sim")
    environment = dict(os.environ)
    if not LONG:
        core = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/libcrossdock_sim.so"
        environment.setdefault("CROSSDOCK_SIM_LIBRARY", str(core))
    make = "import sys, crossdock_sim_build as build; print(build.build_wheel(sys.argv[1]))"
    environment["PYTHONPATH"] = str(ROOT / "tests/sim/python/build_backend")
    subprocess.run([sys.executable, "-c", make, str(folder)], check=True, env=environment)
    (wheel,) = folder.glob("crossdock_sim-*.whl")
    install = ["install", "--quiet", "--no-index", "--no-deps", "--target", str(folder / "site")]
    subprocess.run([sys.executable, "-m", "pip", *install, str(wheel)], check=True)
    return folder / "site"


@pytest.fixture
def simulated(installed: Path, tmp_path: Path) -> Command:
    """The installed command, in an empty folder and without any other program."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere", "HOME": str(tmp_path)}
        command = [sys.executable, str(installed / "bin/crossdock-sim"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)

    return run


def line_of(file: Path, text: str) -> int:
    (number,) = (number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)
    return number


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


# Two streams that nothing orders, by the driver's own functions.
RACY = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
context, memory, streams = ctypes.c_void_p(), ctypes.c_uint64(), [ctypes.c_void_p(), ctypes.c_void_p()]
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemAlloc_v2(ctypes.byref(memory), 64) == 0
for stream in streams:
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert driver.cuMemsetD8Async(memory, 1, 64, stream) == 0
assert driver.cuCtxSynchronize() == 0
"""


def test_what_is_reported_is_told_with_both_places_and_with_the_seeds(simulated: Command, tmp_path: Path) -> None:
    pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")
    files = [tmp_path / name for name in ("told.json", "told.xml", "told.sarif")]
    options = ["--cuda", 2, "--seeds", 2, "--json", files[0], "--junit", files[1], "--sarif", files[2]]
    race = "weights_used_before_they_are_there"
    run = simulated("run", *options, "--", sys.executable, RACES, race)
    assert run.returncode == 3, run.stdout + run.stderr
    lines = [line_of(WAITS, text) for text in ("weights.copy_from(host, stream=transfer)", "copy_from(weights, stream=default)")]
    (told,) = (part for part in run.stderr.split("\n  repeat ") if "\nRace: " in part)
    told = told[told.rindex("Race: ") :]
    for line, stream in zip(lines, (1, 2)):
        assert f"{WAITS}:{line} in {race}\n" in told and f"on stream {stream}\n" in told
    assert told.count("cydriver") == 2 and "(4096 bytes)\n" in told and "missing nothing orders `cuMemcpyAsync`" in told
    assert told.endswith("\n  seeds   1, 2 of 1 to 2")
    repeat = run.stderr.partition("repeat  crossdock-sim ")[2].splitlines()[0]
    assert repeat.startswith("run --cuda 2 --seed 1 --policy seeded -- ")

    runs = json.loads(files[0].read_text())["runs"]
    assert [(one["seed"], one["exit_code"]) for one in runs] == [(1, 0), (2, 0)]
    races = [[report for report in one["reports"] if report["kind"] == "Race"] for one in runs]
    assert [[report["first"]["python"]["line"] for report in found] for found in races] == [lines[:1]] * 2
    assert [found[0]["streams"] for found in races] == [[1, 2]] * 2
    suite = ElementTree.parse(files[1]).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    assert all(f"waits.py:{line}" in "".join(suite.itertext()) for line in lines)
    assert races_in(files[2]) == [[(WAITS.as_uri(), lines[1]), (WAITS.as_uri(), lines[0])]]

    again = simulated(*shlex.split(repeat))
    assert again.returncode == 3 and f"waits.py:{lines[1]}" in again.stderr
    mended = simulated("run", "--cuda", 2, "--", sys.executable, RACES, race, "mended")
    assert (mended.returncode, mended.stdout, mended.stderr) == (0, "", "")


def races_in(file: Path) -> list[list[tuple[str, int]]]:
    """File and line of both places of each race that a SARIF file has."""
    sarif: dict[str, Any] = json.loads(file.read_text())
    assert sarif["version"] == "2.1.0"
    (run,) = sarif["runs"]
    results = []
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        if result["ruleId"] != "Race":
            continue
        both = [place["physicalLocation"] for place in [*result["locations"], *result["relatedLocations"]]]
        results.append([(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in both])
    return results


def test_the_exit_code_is_the_commands_or_tells_of_reports_also_of_children(simulated: Command) -> None:
    assert simulated("run", "--", *python("raise SystemExit(7)")).returncode == 7
    assert simulated("run", "--", *python("import os; os.kill(os.getpid(), 9)")).returncode == 137
    assert simulated("run", "--", "no-such-program").returncode == 127
    racy = simulated("run", "--seeds", 2, "--", *python(RACY))
    assert racy.returncode == 3 and racy.stderr.endswith("1 different report under 2 seeds of seeded\n"), racy.stderr
    assert simulated("run", "--", *python(RACY + "raise SystemExit(7)")).returncode == 7
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {RACY!r}], check=True)"
    run = simulated("run", "--rocm", 1, "--cuda", 1, "--", *python(child))
    assert run.returncode == 3 and "Race: `cuMemsetD8Async` and `cuMemsetD8Async`" in run.stderr
    told = simulated("run", "--seeds", 2, "--seed", 4, "--", *python("raise SystemExit({seed} % 2)"))
    assert told.returncode == 1 and "0 different reports under 2 seeds of seeded; seed 5: exit code 1" in told.stderr


NOTHING = "crossdock-sim: no process opened a simulated driver; --rocm N adds ROCm's\n"


def test_where_no_process_opened_a_driver_the_last_line_says_so(simulated: Command, installed: Path, tmp_path: Path) -> None:
    opens = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    for rest in (opens, f"import os; os.fork() or os.execv({sys.executable!r}, ['python', '-c', {opens!r}]); os.wait()"):
        run = simulated("run", "--", *python(rest + "; import os; os._exit(0)"))
        assert (run.returncode, run.stderr) == (0, "")
    run = simulated("run", "--rocm", 1, "--", *python(opens.replace("cuda.so.1", "amdhip64.so.7")))
    assert (run.returncode, run.stderr) == (0, "")
    for program, code in (("pass", 0), ("raise SystemExit(7)", 7)):
        run = simulated("run", "--json", "told.json", "--", *python(program))
        assert (run.returncode, run.stderr) == (code, NOTHING)
    # One of two seeds is enough.
    run = simulated("run", "--seeds", 2, "--", *python("if {seed} == 2: " + opens))
    assert run.returncode == 0 and run.stderr.endswith("2 seeds of seeded\n"), run.stderr
    run = simulated("run", "--seeds", 2, "--", *python("pass"))
    assert run.returncode == 0 and run.stderr.endswith("2 seeds of seeded\n" + NOTHING), run.stderr
    (tmp_path / "test_nothing.py").write_text("def test(): pass\n")
    environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--xd-sim-cuda", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert ran.returncode == 0 and "1 passed" in ran.stdout and ran.stderr == NOTHING.replace("--", "--xd-sim-"), ran.stderr
    for words, told in (("--rocm 1", "; --cuda N adds CUDA's"), ("--rocm 1 --cuda 1", "")):
        run = simulated("run", *words.split(), "--", *python("pass"))
        assert run.stderr == NOTHING.partition(";")[0] + told + "\n"


def test_with_sim_says_too_that_nothing_was_simulated() -> None:
    opens = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    for program, told in (("pass", NOTHING), (opens, "")):
        run = subprocess.run([ROOT / "scripts/with-sim", "--", *python(program)], capture_output=True, text=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, told)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_with_sim_hands_a_signal_on_and_keeps_the_drivers_until_the_command_ends(number: int) -> None:
    program = f"""if True:
        import os, pathlib, signal, sys
        work = pathlib.Path(os.environ["CROSSDOCK_SIM_DIR"])
        signal.alarm(30)
        signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])
        print("here", flush=True)
        signal.sigwait([{int(number)}])
        sys.exit(5 if (work / "libcuda.so.1").exists() and input() == "more" else 6)
    """
    command = [str(ROOT / "scripts/with-sim"), "--", *map(str, python(program))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin and run.stdout and run.stdout.readline() == "here\n"
        run.send_signal(number)
        run.stdin.write("more\n")
        run.stdin.close()
        assert run.wait() == 5


def test_the_libraries_are_those_of_the_vendors(simulated: Command, installed: Path, tmp_path: Path) -> None:
    look = "import ctypes; [print(hasattr(ctypes.CDLL(name), function)) for name, function in {}]"
    names = ["libcuda.so.1", "libcuda.so", "libamdhip64.so.{}", "libamdhip64.so"]
    for major, words in (("7", []), ("6", ["--set", "hip=6.4"])):
        asked = [(name.format(major), "hipInit" if "hip" in name else "cuInit") for name in names]
        run = simulated("run", "--cuda", 1, "--rocm", 1, *words, "--", *python(look.format(asked)))
        assert run.stdout.split() == ["True"] * 4, run.stderr
    # Versions are on AMD's alone, as programs that are linked to it want them.
    assert b"\0hip_6.5\0" in (installed / "crossdock_sim/lib/libamdhip64.so.7").read_bytes()
    hidden = look.format([("libcuda.so.1", name) for name in ("cuMemAllocAsync", "cuMemAlloc_v2")])
    run = simulated("run", "--set", "missing=cuMemAllocAsync", "--", *python(hidden))
    assert run.stdout.split() == ["False", "True"], run.stderr
    run = simulated("run", "--rocm", 1, "--", *python("import ctypes; ctypes.CDLL('libcrossdock_sim.so'); ctypes.CDLL('libamdhip64.so.7')"))
    assert run.returncode == 0, run.stderr
    assert simulated("libraries", "--rocm", 1, tmp_path / "for the linker").returncode == 0
    made = sorted(path.name for path in (tmp_path / "for the linker").iterdir())
    assert made == ["libamdhip64.so", "libamdhip64.so.7", "libcrossdock_sim.so"]
    assert ctypes.CDLL(str(tmp_path / "for the linker/libamdhip64.so.7")).crossdock_sim_version() == 1


def test_the_kinds_of_reports_are_all_in_the_document_and_in_what_services_show() -> None:
    enum = (ROOT / "tests/sim/engine/src/report.rs").read_text().partition("pub enum ReportKind {")[2].partition("}")[0]
    text = (ROOT / "docs/simulator.md").read_text().partition("## Kinds of reports\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    kinds = re.findall(r"^    (\w+),$", enum, re.MULTILINE)
    # As the package has them.
    path = [str(ROOT / "tests/sim/python")]
    show = f"import json, sys; sys.path = {path} + sys.path; from crossdock_sim.files import RULES; print(json.dumps(RULES))"
    rules = json.loads(subprocess.run(python(show), capture_output=True, text=True, check=True).stdout)
    assert kinds and list(rules) == kinds and list(told) == kinds
    assert [kind for kind, text in rules.items() if not told[kind].startswith(text)] == []


# A project of somebody else: libraries exchange memory, and one test forgets to wait.
PROJECT = """
import numpy as np
import pytest
from cuda.core import Device, LegacyPinnedMemoryResource
from numba import cuda


@pytest.fixture(scope="module")
def device():
    made = Device(0)
    made.set_current()
    return made


HOST = []


def filled(device, stream):
    host = LegacyPinnedMemoryResource().allocate(4096)
    # The end of pinned memory waits for the device.
    HOST.append(host)
    np.from_dlpack(host).view(np.uint8)[:] = 9
    memory = device.memory_resource.allocate(4096, stream=stream)
    stream.sync()
    memory.copy_from(host, stream=stream)
    return memory


class Array:
    def __init__(self, memory, stream):
        self.memory = memory
        self.__cuda_array_interface__ = {
            "shape": (4096,), "typestr": "|u1", "data": (int(memory.handle), False), "version": 3, "stream": stream
        }


def test_numba_waits_for_the_stream_of_the_interface(device):
    stream = device.create_stream()
    memory = filled(device, stream)
    assert (cuda.as_cuda_array(Array(memory, int(stream.handle))).copy_to_host() == 9).all()
    memory.close(stream)


def test_numba_is_not_told_of_the_stream(device):
    stream = device.create_stream()
    memory = filled(device, stream)
    cuda.as_cuda_array(Array(memory, None)).copy_to_host(stream=cuda.stream())
    cuda.synchronize()
    memory.close(stream)


def test_numbas_arrays_go_back(device):
    there = cuda.to_device(np.arange(100, dtype=np.uint8))
    cuda.synchronize()
    assert there.__cuda_array_interface__["data"][0] and (there.copy_to_host() == np.arange(100)).all()
"""


def verdicts(file: Path) -> dict[str, str]:
    """What each test of a file of JUnit's fails or errs by; nothing where it passed."""
    cases = ElementTree.parse(file).getroot().iter("testcase")
    wrong = {case.get("name", ""): [part for part in case if part.tag in ("failure", "error")] for case in cases}
    return {name: "".join(f"{part.tag}: {part.text}" for part in parts) for name, parts in wrong.items()}


RECIPES = re.findall(r"- run: (crossdock-sim run .*)", (ROOT / "docs/ci.md").read_text())


def run_as_documented(installed: Path, folder: Path, recipe: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of the documents in a project that has the package, and pytest."""
    path = os.pathsep.join([str(installed / "bin"), str(Path(sys.executable).parent)])
    environment = {"PYTHONPATH": str(installed), "PATH": path, "HOME": str(folder)}
    command = shlex.split(recipe)
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=600)


def test_the_document_has_a_right_test_of_two_vendors_that_needs_its_wait(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("hip", reason="skipped: hip-python is not installed")
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    (text,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/ci.md").read_text(), re.MULTILINE | re.DOTALL)
    project = tmp_path / "tests/test_both.py"
    project.parent.mkdir()
    project.write_text(text)
    run = run_as_documented(installed, tmp_path, RECIPES[1])
    assert run.returncode == 0 and run.stdout.count("1 passed") == 3, run.stdout + run.stderr
    wait = "        stream.synchronize()\n"
    assert wait in text
    project.write_text(text.replace(wait, ""))
    run = run_as_documented(installed, tmp_path, RECIPES[1])
    assert run.returncode == 1 and run.stdout.count("1 failed") == 3, run.stdout + run.stderr
    for seed in (1, 2, 3):
        (why,) = verdicts(tmp_path / f"junit-{seed}.xml").values()
        assert "Race: `cuMemcpyDtoHAsync_v2` and `hipMemcpy`" in why
        assert f"{project}:{line_of(project, 'hipMemcpyHostToDevice')} in " in why


def test_the_steps_of_the_document_install_the_versions_that_are_tested() -> None:
    wanted = (ROOT / "tests/python/requirements.txt").read_text().split()
    steps = re.findall(r"- run: pip install (.*)", (ROOT / "docs/ci.md").read_text())
    pinned = [re.sub(r"\[.*\]", "", word) for step in steps for word in shlex.split(step) if "==" in word]
    assert len(steps) == 2 and set(pinned) == {"numba-cuda==0.30.4", "hip-python==10.0.0.0.1.2"}
    assert set(pinned) <= set(wanted)


def test_one_test_of_another_project_races_and_it_alone_fails(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    project = tmp_path / "tests/test_exchanges.py"
    project.parent.mkdir()
    project.write_text(PROJECT)
    # As the documents say it.
    run = run_as_documented(installed, tmp_path, RECIPES[0] + " --xd-seeds 2 --xd-sarif=xd.sarif")
    assert run.returncode == 1 and run.stdout.count("1 failed, 2 passed") == 3, run.stdout + run.stderr
    racy = "test_numba_is_not_told_of_the_stream"
    for seed in (1, 2, 3):
        found = verdicts(tmp_path / f"junit-{seed}.xml")
        assert [name for name, why in found.items() if why] == [racy]
        assert f"seed {seed}, policy seeded" in found[racy]
    line, racing = line_of(project, "memory.copy_from(host"), line_of(project, "copy_to_host(stream=cuda.stream())")
    assert "Race: `cuMemcpyAsync` and `cuMemcpyDtoHAsync_v2`" in found[racy]
    assert f"{project}:{line} in filled" in found[racy] and "missing nothing orders" in found[racy]
    # Numba is Python itself: its own line is the innermost one, and the test's comes behind it.
    both = rf"numba\S+\.py:\d+ in \S+\n +{re.escape(str(project))}:{racing} in {racy}\n"
    assert re.search(both, found[racy]) and "(4096 bytes)" in found[racy]
    for file in ("races.sarif", "xd.sarif"):
        (race,) = races_in(tmp_path / file)
        assert race == [("tests/test_exchanges.py", racing), ("tests/test_exchanges.py", line)]
    assert f"test_exchanges.py::{racy}\n" in run.stderr


# Numba makes all calls of the driver at one line of its own.
TWO_PLACES = """
import pytest
from numba import cuda

@pytest.mark.xd_races(2)
def test_two():
    arrays = [cuda.device_array(64, "u1") for _ in range(2)]
    pages = [cuda.pinned_array(64, "u1") for _ in range(4)]
    writer, reader = cuda.stream(), cuda.stream()
    for array, page in zip(arrays, pages):
        array.copy_to_device(page, stream=writer)
    arrays[0].copy_to_host(pages[2], stream=reader)
    arrays[1].copy_to_host(pages[3], stream=reader)
    cuda.synchronize()
"""


def test_two_lines_that_call_one_line_of_a_package_are_two_places(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    (tmp_path / "test_two.py").write_text(TWO_PLACES)
    options = ["-p", "no:cacheprovider", "--xd-sim-cuda", "1"]
    environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


# The same by the driver's functions alone.
SMALL = f"""
import os, subprocess, sys
import pytest

RACY = {RACY!r}
{RACY}
def fill(stream=0):
    assert driver.cuMemsetD8Async(memory, 1, 64, streams[stream]) == 0

def race():
    fill(0); fill(1)
    assert driver.cuCtxSynchronize() == 0

@pytest.fixture
def freed_too_early():
    own = ctypes.c_uint64()
    assert driver.cuMemAllocAsync(ctypes.byref(own), 64, streams[0]) == 0
    yield own
    assert driver.cuMemFreeAsync(own, streams[1]) == 0

def test_right():
    fill(0); fill(0)

@pytest.mark.xd_races(1)
def test_as_expected():
    race()

@pytest.mark.xd_races(2)
def test_too_few():
    race()

def test_nobody_waits():
    fill(0); fill(1)

def test_child():
    subprocess.run([sys.executable, "-c", RACY], check=True)

def test_own():
    race()
    assert 1 == 2

def test_end(freed_too_early):
    assert driver.cuMemsetD8Async(freed_too_early, 1, 64, streams[0]) == 0

@pytest.mark.xfail
def test_known():
    race()

def test_seeds(request):
    with open("seeds", "a") as file:
        print(os.environ["CROSSDOCK_SIM"], file=file)

class TestClass:
    def test_that_shares(self):
        fill(1)
"""


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_a_report_fails_the_test_that_it_came_in(simulated: Command, tmp_path: Path, policy: str, installed: Path) -> None:
    (tmp_path / "test_small.py").write_text(SMALL)
    options = ["--xd-sim-cuda", "1", "--xd-policy", policy, "--xd-seeds", "2", "--xd-seed", "5", "--junitxml=junit.xml"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "--xd-json=told.json"]
    environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert run.returncode == 1 and f"policy {policy}, seed 5 to 6" in run.stdout, run.stdout + run.stderr
    found = verdicts(tmp_path / "junit.xml")
    wrong = {"test_too_few", "test_nobody_waits", "test_child", "test_own", "test_end"}
    assert {name for name, why in found.items() if why} == wrong, run.stdout
    assert "1 place in this test races, and xd_races says 2" in found["test_too_few"]
    assert found["test_end"].startswith("error") and "FreeInUse: " in found["test_end"]
    assert "assert 1 == 2" in found["test_own"] and "Race: `cuMemsetD8Async`" in found["test_own"]
    assert "<string>:9 in <module>" in found["test_child"]
    for name in sorted(wrong - {"test_end"}):
        (repeat,) = re.findall(r"repeat: (pytest .*)", found[name])
        said = f"pytest --xd-sim-cuda 1 --xd-policy {policy} --xd-seed 5 test_small.py::{name}"
        assert repeat.partition(" (alone")[0] == said
        again = [sys.executable, "-m", *shlex.split(said), "-p", "no:cacheprovider"]
        run = subprocess.run(again, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
        assert run.returncode == 1 and f"test_small.py::{name}" in run.stdout, run.stdout + run.stderr
        assert "Race: `cuMemsetD8Async`" in run.stdout, run.stdout
    assert re.findall(r"seed=(\d+)", (tmp_path / "seeds").read_text()) == ["5", "6"]
    told = {report["test"].partition("::")[2] for report in json.loads((tmp_path / "told.json").read_text())["runs"][0]["reports"]}
    # The module itself races as it is read.
    assert told == wrong | {""}


OUTSIDE = RACY + """
def test_right(): pass
"""


def test_what_a_module_does_as_it_is_read_fails_the_run_and_no_test(simulated: Command, tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text(OUTSIDE)
    run = simulated("run", "--json", "told.json", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    assert run.returncode == 1 and "1 passed" in run.stdout, run.stdout + run.stderr
    outside = run.stdout.partition("crossdock-sim: reported outside of tests")[2]
    assert "Race: `cuMemsetD8Async` and `cuMemsetD8Async`" in outside
    (one,) = json.loads((tmp_path / "told.json").read_text())["runs"]
    assert [report["kind"] for report in one["reports"]] == ["Race"]
    # As the documents say it, pytest's own file has nothing of it.
    options = ["-p", "no:cacheprovider", "--junitxml=told.xml"]
    run = simulated("run", "--sarif", "told.sarif", "--", sys.executable, "-m", "pytest", *options)
    assert run.returncode == 1 and verdicts(tmp_path / "told.xml") == {"test_right": ""}
    assert len(races_in(tmp_path / "told.sarif")) == 1


def test_an_interrupt_ends_all_runs(simulated: Command) -> None:
    ends = python("import os, signal; print('ran', flush=True); os.kill(os.getppid(), signal.SIGTERM); signal.pause()")
    run = simulated("run", "--seeds", 3, "--", *ends)
    assert (run.returncode, run.stdout) == (143, "ran\n"), run.stderr


def test_a_path_may_have_any_characters(simulated: Command, tmp_path: Path) -> None:
    folder = tmp_path / "\u2028 \x85 REPEAT"
    folder.mkdir()
    (folder / "racy.py").write_text(RACY)
    run = simulated("run", "--json", "told.json", "--junit", "told.xml", "--", sys.executable, folder / "racy.py", "\x1b")
    assert run.returncode == 3 and "REPEAT/racy.py" in run.stderr.partition("  repeat  ")[2], run.stderr
    (one,) = json.loads((tmp_path / "told.json").read_text("utf-8"))["runs"]
    assert one["reports"][0]["first"]["python"]["file"] == str(folder / "racy.py")
    assert ElementTree.parse(tmp_path / "told.xml").getroot()[0].get("failures") == "1"


MARKED = """
import pytest

@pytest.mark.xd_races
def test_nothing(): pass

@pytest.mark.xd_races("one")
def test_word(): pass

@pytest.mark.xd_races(count=0)
def test_right(): pass
"""


def test_a_mark_that_is_no_number_fails_its_test_alone(simulated: Command, tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    run = simulated("run", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    assert run.returncode == 1 and "1 passed, 2 errors" in run.stdout, run.stdout
    assert run.stdout.count("crossdock-sim: the mark is xd_races(COUNT), the number of places") >= 2


def test_what_cannot_be_meant_is_refused_before_anything_runs(
    simulated: Command, tmp_path: Path, installed: Path
) -> None:
    (tmp_path / "test_ran.py").write_text("def test_ran(): open('ran', 'w')")
    pytest_of = ["-m", "pytest", "-p", "no:cacheprovider"]
    for words, why in [
        (["run", "--set", "pollicy=seeded"], "`pollicy=seeded` is not understood: there is no such word"),
        (["run", "--set", "fault=cuMemAloc_v2@1=2"], "`cuMemAloc_v2` is no function"),
        (["run", "--seeds", "0"], "0 is less than 1"),
        (["run", "--sarif", "nowhere/races.sarif"], "there is no folder nowhere"),
        (["shrink", "--policy", "lazy"], "shrink needs the policy seeded"),
        (["run", "--set", "leaks"], "argument --set: `leaks` is not WORD=VALUE, as mem=4G is"),
        (["run", "--seed", "-1"], "argument --seed: -1 is less than 0"),
        (["run", "--queues", "two"], "argument --queues: two is no number"),
        (["run", "--nosuch"], "usage: crossdock-sim run [OPTION ..] -- COMMAND [WORD ..]\n"),
    ]:
        run = simulated(*words, "--", sys.executable, *pytest_of)
        assert run.returncode == 2 and why in run.stderr, run.stdout + run.stderr
        # Nobody here has to know of the variable in which they stand.
        assert "CROSSDOCK_SIM" not in run.stderr
    run = simulated("run", "pytest", "-q", "tests")
    assert run.returncode == 2 and "COMMAND and its own options belong after --" in run.stderr
    for words, why in [
        (["--xd-sim-cuda", "1", "--xd-set", "pollicy=seeded"], "there is no such word"),
        (["--xd-sim-cuda", "1", "--xd-set", "leaks"], "`leaks` is not WORD=VALUE"),
        (["--xd-sim-cuda", "-1"], "-1 is less than 0"),
        (["--xd-sim-cuda", "1", "--xd-sarif", "nowhere/races.sarif"], "there is no folder nowhere"),
        (["--xd-seeds", "3"], "--xd-seeds needs simulated GPUs: add"),
        (["--xd-policy", "lazy", "--xd-json", "told.json"], "--xd-policy --xd-json needs simulated GPUs: add"),
    ]:
        command = [sys.executable, *pytest_of, *words]
        environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere"}
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
        assert run.returncode not in (0, 1) and why in run.stderr, run.stdout + run.stderr
    assert not (tmp_path / "ran").exists()


def test_options_that_nobody_would_heed_are_refused(simulated: Command, tmp_path: Path) -> None:
    (tmp_path / "test_ran.py").write_text("def test_ran(): pass")
    run_of = ["run", "--cuda", 2, "--set", "mem=2G", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    for options, why in [
        (["--xd-sim-cuda", "3"], "--xd-sim-cuda asks for cuda=3, and this process runs over policy=lazy;seed=1;cuda=2;mem=2G already"),
        (["--xd-sim-rocm", "1"], "--xd-sim-rocm asks for rocm=1, and"),
        (["--xd-policy", "seeded"], "--xd-policy asks for policy=seeded, and"),
        (["--xd-set", "mem=4G"], "--xd-set asks for mem=4G, and"),
    ]:
        run = simulated(*run_of, *options)
        assert run.returncode == 4 and f"ERROR: {why}" in run.stderr, run.stdout + run.stderr
        assert "say it to crossdock-sim run, where that starts pytest" in run.stderr
    same = ["--xd-sim-cuda", "2", "--xd-policy", "lazy", "--xd-set", "mem=2G", "--xd-seed", "7"]
    run = simulated(*run_of, *same)
    assert run.returncode == 0 and "policy lazy, seed 7" in run.stdout, run.stdout + run.stderr


def test_several_seeds_by_a_policy_that_makes_no_choices_are_told(simulated: Command, tmp_path: Path) -> None:
    warning = "crossdock-sim: by the policy lazy all seeds do the same: choose seeded, or one seed\n"
    for words in (["--policy", "lazy"], ["--set", "policy=lazy"]):
        assert simulated("run", *words, "--seeds", 2, "--", *python("pass")).stderr.startswith(warning)
        assert warning not in simulated("run", *words, "--seeds", 1, "--", *python("pass")).stderr
    assert warning not in simulated("run", "--seeds", 2, "--", *python("pass")).stderr
    (tmp_path / "test_right.py").write_text("def test(): pass")
    of_pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--xd-seeds", 2]
    for policy, is_told in (("lazy", True), ("seeded", False)):
        run = simulated("run", "--policy", policy, "--", *of_pytest)
        assert run.returncode == 0 and (warning in run.stdout) == is_told, run.stdout + run.stderr


def test_the_command_says_which_version_it_is_and_what_belongs_where(simulated: Command) -> None:
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert simulated("--version").stdout == f"crossdock-sim {version}\n"
    run = simulated()
    assert run.returncode == 2 and run.stderr.endswith("the following arguments are required: SUBCOMMAND\n")
    for subcommand in ("run", "shrink"):
        told = simulated(subcommand, "--help").stdout
        assert told.startswith(f"usage: crossdock-sim {subcommand} [OPTION ..] -- COMMAND [WORD ..]\n")
    assert "--policy seeded" in told and "lazy" not in told and "threads" not in told
    run = simulated("libraries", "--nosuch", "folder")
    assert run.returncode == 2 and "unknown arguments: --nosuch" in run.stderr and "after --" not in run.stderr


UNSIMULATED = f"""
import ctypes
import pytest

{RACY}
table = ctypes.c_void_p()

def launch():
    return driver.cuLaunchKernel(*[None] * 11)

def test_kernel():
    assert launch() == 0

def test_nothing_of_the_test_before():
    assert driver.cuCtxSynchronize() == 1

def test_private():
    assert driver.cuGetExportTable(ctypes.byref(table), bytes(16)) == 0

def test_passes():
    assert launch() == 801 and launch() == 801
"""


def test_what_is_not_simulated_is_told_at_once_and_in_the_test_that_called_it(simulated: Command, tmp_path: Path) -> None:
    project = tmp_path / "test_calls.py"
    project.write_text(UNSIMULATED)
    run = simulated("run", "--", sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "--junitxml=junit.xml")
    assert run.returncode == 1, run.stdout + run.stderr
    told = [line for line in run.stderr.splitlines() if "is not simulated" in line]
    place = f"{project}:{line_of(project, 'return driver.cuLaunchKernel')} in launch"
    assert len(told) == 2 and told[0].startswith(f"crossdock-sim: cuLaunchKernel ({place}, "), run.stderr
    assert told[0].endswith("is not simulated, and answers 801") and "cuGetExportTable" in told[1]
    found = verdicts(tmp_path / "junit.xml")
    kernel, private = found["test_kernel"], found["test_private"]
    assert "`cuLaunchKernel` is not simulated, and answered 801: there are no kernels" in kernel and place in kernel
    assert "`cuGetExportTable` is not simulated, and answered 500: NVIDIA's private tables" in private
    assert "assert 0 == 1" in found["test_nothing_of_the_test_before"]
    assert "not simulated" not in found["test_nothing_of_the_test_before"] and not found["test_passes"]


# A stream reads what another one writes. In the order of submission the data are right.
WRONG = RACY + """
host = ctypes.c_void_p()
assert driver.cuMemHostAlloc(ctypes.byref(host), 64, 0) == 0
is_right = True
for value in range(2, 30):
    assert driver.cuMemsetD8Async(memory, value, 64, streams[0]) == 0
    assert driver.cuMemcpyDtoHAsync_v2(host, memory, 64, streams[1]) == 0
    assert driver.cuCtxSynchronize() == 0
    is_right = is_right and ctypes.string_at(host, 64) == bytes([value]) * 64
sys.exit(0 if is_right else 9)
"""


def test_wrong_data_come_down_to_the_one_choice_that_they_need(simulated: Command, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    program = [sys.executable, file]
    # In the order of submission the data are right, and the races are reported.
    assert simulated("run", "--policy", "seeded", "--set", "schedule=", "--", *program).returncode == 3
    seeds = (seed for seed in range(1, 50) if simulated("run", "--policy", "seeded", "--seed", seed, "--", *program).returncode == 9)
    shrunk = simulated("shrink", "--seed", next(seeds), "--", *program)
    assert shrunk.returncode == 0 and "has exit code 9 after" in shrunk.stderr, shrunk.stderr
    (line,) = shrunk.stdout.splitlines()
    (schedule,) = re.findall(r"schedule=(\S+)", line)
    assert re.fullmatch(r"\d+\.\d+:[12]", schedule), shrunk.stderr
    again = simulated(*shlex.split(line)[1:])
    assert again.returncode == 9, again.stderr
    # A report needs no choice: the checker sees it in each order.
    (tmp_path / "wrong.py").write_text(RACY)
    reported = simulated("shrink", "--", *program)
    assert reported.returncode == 0 and "schedule= " in reported.stdout, reported.stdout + reported.stderr
    (tmp_path / "wrong.py").write_text("")
    assert simulated("shrink", "--", *program).returncode == 1


def test_without_the_simulator_the_plugin_does_nothing(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "test_marked.py").write_text("import pytest\n@pytest.mark.xd_races(3)\ndef test(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers"]
    environment = {"PYTHONPATH": str(installed), "PATH": "/nowhere"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert run.returncode == 0 and "1 passed" in run.stdout and "crossdock-sim:" not in run.stdout
