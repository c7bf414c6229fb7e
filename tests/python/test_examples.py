"""The examples run, and do what they say."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import crossdock as xd
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"
DEVICES = [str(device) for device in xd.devices()]
OPENCL = [name for name in DEVICES if name.startswith("opencl")]


def run(folder: Path, name: str, *arguments: str) -> str:
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def picture_in(path: Path) -> np.ndarray:
    """The pixels of a PNG as the examples write it."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


@pytest.mark.parametrize("device", DEVICES)
def test_weights_go_to_a_device_and_come_back_bit_for_bit(tmp_path: Path, device: str) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {
        "weight": xd.asarray(np.random.default_rng(1).random((33, 17), np.float32)),
        "not.a.number": xd.asarray(np.array([np.nan, -0.0])),
        "small": xd.full((3,), 0.5, dtype="float8_e4m3fn"),
        "half": xd.ones((5,), dtype="bfloat16"),
        "empty": xd.zeros((0, 4)),
    }
    xd.save(path, tensors)
    printed = run(tmp_path, "weights.py", str(path), device)
    assert printed.startswith("model.safetensors: 5 tensors (")
    assert f"cpu:0 -> {device}: " in printed and "GB/s" in printed
    assert printed.endswith("verified: 5 tensors came back bit for bit\n")


def test_weights_needs_no_file_of_ones_own(tmp_path: Path) -> None:
    assert "came back bit for bit" in run(tmp_path, "weights.py")


@pytest.mark.parametrize("device", OPENCL or [pytest.param("", marks=pytest.mark.skip("skipped: no OpenCL device"))])
def test_a_kernel_works_on_an_array_in_place(tmp_path: Path, device: str) -> None:
    pytest.importorskip("pyopencl")
    printed = run(tmp_path, "kernel.py", device)
    aliased = f"cpu:0 -> {device}: alias, 0 bytes copied" in printed
    assert "made the negative: True" in printed
    assert f"in the array's own memory, without a copy: {aliased}" in printed
    cpu = "cpu" in xd.device(device).capabilities or "CPU" in xd.device(device).name
    assert aliased or not cpu


@pytest.mark.parametrize("device", DEVICES)
def test_a_picture_is_saved_before_and_after(tmp_path: Path, device: str) -> None:
    pixels = np.arange(6 * 9, dtype=np.uint8).reshape(6, 9)
    np.save(tmp_path / "picture.npy", pixels)
    printed = run(tmp_path, "picture.py", "picture.npy", device)
    assert f"made on {device}" in printed
    assert np.array_equal(picture_in(tmp_path / "before.png"), pixels)
    halves = np.hstack([pixels, pixels[:, ::-1]])
    assert np.array_equal(picture_in(tmp_path / "after.png"), np.vstack([halves, halves[::-1]]))


def test_a_picture_needs_no_file_of_ones_own(tmp_path: Path) -> None:
    run(tmp_path, "picture.py")
    assert picture_in(tmp_path / "after.png").size == 4 * picture_in(tmp_path / "before.png").size
