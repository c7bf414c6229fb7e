"""CUDA and ROCm in one process, over the simulated drivers: clients of both, and what memory is called by the wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import crossdock as xd

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "vendors"
SEEDS = range(20 if os.environ.get("CROSSDOCK_LONG") == "1" else 1)

pytest.importorskip("hip", reason="skipped: hip-python is not installed")


def simulated(script: str, options: list[str], *words: str, plugins: str = "") -> str:
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPTS / script), *words]
    variables = {**os.environ, **({"CROSSDOCK_PLUGINS": plugins} if plugins else {})}
    run = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and "crossdock-sim" not in run.stderr, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
def test_clients_of_two_vendors_exchange_and_each_wait_counts(policy: str) -> None:
    pytest.importorskip("cuda.core", reason="skipped: cuda.core is not installed")
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    for seed in SEEDS:
        options = ["--cuda", "1", "--rocm", "1", "--policy", policy, "--seed", str(seed)]
        simulated("clients.py", options, str(seed))


# What DLPack calls memory of each kind.
STATED = {
    "cuda pinned": "cuda_host:0", "cuda managed": "cuda_managed:0", "rocm pinned": "rocm_host:0", "rocm managed": "rocm:0",
}  # fmt: skip
HOSTS = {"cpu:0", "cuda_host:0", "rocm_host:0", "cuda_managed:0"}


def expected(memory: str, claim: str, vendors: list[str]) -> str:
    """What comes of a claim: a pattern."""
    vendor, kind = (memory.replace(":", " ").split() + ["host"])[:2]
    owner = f"{vendor}:{kind if kind.isdigit() else 0}"
    is_known = vendor in vendors
    what_to_do = r"\(export the tensor with the device that owns its memory\)"
    here = f"{owner} as {STATED.get(memory, owner)}"
    its = f"BufferError: import a tensor on `{claim}`: plugin `{vendor}` owns this address, as memory of `{owner}` {what_to_do}"
    if claim == "interface":
        rejected = r"the description names 0x\w+ in its CUDA array interface, which no GPU here recognizes; it may be host memory"
        return here if is_known else rf"UnsupportedDeviceError: {rejected}: .* knows it \(run `crossdock devices` .*\)"
    if claim in HOSTS:
        if is_known and kind.isdigit():
            return its
        # Of the kind that its vendor confirms, and else the host's.
        return here if is_known and STATED.get(memory) == claim else "cpu:0 as cpu:0"
    claimed, number = claim.split(":")
    if claimed not in vendors or number == "9":
        return rf"UnsupportedDeviceError: find device `{claim}`: the devices here are .*\(run `crossdock devices` .*\)"
    if is_known:
        return here if claimed == vendor else its
    return f"BufferError: import a tensor on `{claim}`: plugin `{claimed}` does not know this data pointer, .* {what_to_do}"


@pytest.mark.parametrize("vendors", [["cuda", "rocm"], ["cuda"], ["rocm"], ["opencl", "cuda", "rocm"]], ids=",".join)
def test_each_wrong_claim_of_vendor_or_kind_is_corrected_or_refused(vendors: list[str]) -> None:
    told = simulated("claims.py", ["--cuda", "2", "--rocm", "2"], *vendors, plugins=",".join(["cpu", *vendors]))
    lines = [line.split("\t") for line in told.splitlines()]
    # Nine memories and twelve claims, without those that nobody could refute.
    assert len(lines) == 9 * 12 - 8 * len({"cuda", "rocm"} - set(vendors))
    if "opencl" in vendors and all(
        "UnsupportedDeviceError" in answer for _, claim, answer in lines if claim == "opencl:0"
    ):
        vendors = [vendor for vendor in vendors if vendor != "opencl"]
    wrong = [
        (memory, claim, answer)
        for memory, claim, answer in lines
        if not re.fullmatch(expected(memory, claim, vendors), answer)
    ]
    assert not wrong


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_memory_that_is_called_another_devices_is_awaited_where_it_is(vendor: str, policy: str) -> None:
    simulated("claimed_order.py", [f"--{vendor}", "2", "--policy", policy], vendor, plugins=f"cpu,{vendor}")


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
@pytest.mark.parametrize("waiting", ["rocm:0", "cpu:0", "opencl:0"])
def test_a_context_ends_while_another_plugins_stream_waited_for_it(waiting: str, policy: str) -> None:
    if waiting.startswith("opencl") and not any(device.type == "opencl" for device in xd.devices()):
        pytest.skip("skipped: no device of OpenCL is here")
    simulated("bridges.py", ["--cuda", "1", "--rocm", "1", "--policy", policy], waiting)


def test_the_example_of_two_vendors_in_the_documents_runs(tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda", reason="skipped: numba is not installed")
    page = (ROOT / "docs/rocm.md").read_text()
    (example,) = re.findall(r"```python\n(import types\n.*?)```", page, re.DOTALL)
    around = (SCRIPTS / "example.py").read_text()
    script = tmp_path / "example.py"
    script.write_text(around.replace("# The example.\n", example))
    simulated(str(script), ["--cuda", "1", "--rocm", "1"])
