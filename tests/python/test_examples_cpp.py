"""The programs of `examples/cpp`, built with sanitizers and run with the package's library."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import crossdock as xd
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
# Python and drivers keep what they have to the end.
ENVIRONMENT = {**os.environ, "CROSSDOCK_PYTHON": sys.executable, "ASAN_OPTIONS": "detect_leaks=0"}


def built(name: str, folder: Path) -> Path:
    package, program = Path(xd.__file__).parent, folder / name
    sources = [str(source) for source in sorted((EXAMPLES / name).glob("*.cpp"))]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags = ["-std=c++17", "-O1", *WARNINGS, *sanitizers, f"-I{xd.get_include()}"]
    link = [str(package / "libcrossdock.so.1"), f"-Wl,-rpath,{package}", "-pthread", "-ldl"]
    subprocess.run(
        [os.environ.get("CXX", "c++"), *flags, *sources, *link, "-o", str(program)], check=True
    )
    return program


def run(program: Path, *words: str) -> str:
    """What it prints. Its scripts import the package that is tried here."""
    environment = {**ENVIRONMENT, "PYTHONPATH": str(Path(xd.__file__).parents[1])}
    ended = subprocess.run([program, *words], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("picture", tmp_path_factory.mktemp("picture"))


def pixels(file: Path) -> np.ndarray:
    """The gray pixels of a PNG with one piece of data."""
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    columns, rows = np.frombuffer(content[16:24], ">u4")
    at = content.index(b"IDAT")
    size = int.from_bytes(content[at - 4 : at], "big")
    assert zlib.crc32(content[at : at + 4 + size]) == int.from_bytes(
        content[at + 4 + size : at + 8 + size], "big"
    )
    lines = np.frombuffer(zlib.decompress(content[at + 4 : at + 4 + size]), np.uint8)
    return lines.reshape(rows, columns + 1)[:, 1:]


def test_a_picture_becomes_the_same_kaleidoscope_on_every_device(
    picture: Path, tmp_path: Path
) -> None:
    drawn = np.arange(20, 120, dtype=np.uint8).reshape(4, 25)
    (tmp_path / "in.pgm").write_bytes(b"P5\n25 4\n255\n" + drawn.tobytes())
    levels = ((drawn.astype(np.int32) - 20) * 255 // 99).astype(np.uint8)
    half = np.hstack([levels, levels[:, ::-1]])
    for device in xd.devices():
        out = tmp_path / f"{device}.png"
        script = str(EXAMPLES / "picture/contrast.py")
        options = ("--device", str(device), "--script", script, "--out", str(out))
        printed = run(picture, str(tmp_path / "in.pgm"), *options)
        assert "contrast by " in printed and f"made on {device}" in printed
        np.testing.assert_array_equal(pixels(out), np.vstack([half, half[::-1]]))


def test_without_a_device_the_fastest_takes_the_picture(picture: Path, tmp_path: Path) -> None:
    script = str(EXAMPLES / "picture/contrast.py")
    printed = run(picture, "--script", script, "--out", str(tmp_path / "out.png"))
    assert all(f"{device} ({device.name}): " in printed for device in xd.devices())
    assert pixels(tmp_path / "out.png").shape == (512, 512)


@pytest.mark.parametrize(
    "content, why",
    [(b"P6\n1 1\n255\nabc", "is no gray picture"), (b"P5\n9 9\n255\nx", "ends before")],
)
def test_a_file_that_is_no_picture_is_an_error(
    picture: Path, tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "in.pgm").write_bytes(content)
    ended = subprocess.run(
        [picture, tmp_path / "in.pgm"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert ended.returncode == 1 and why in ended.stderr


def test_a_server_answers_what_can_be_answered(tmp_path: Path) -> None:
    server = built("server", tmp_path)
    script = str(EXAMPLES / "server/requests.py")
    printed = run(server, "--requests", "40", "--threads", "3", "--script", script, "--timeout", "1000")
    assert printed == "answered 34, endless 2, failed 4, timed out 2\n"


def test_onnx_runtime_gets_and_gives_tensors_without_a_copy(tmp_path: Path) -> None:
    library = os.environ.get("CROSSDOCK_ONNXRUNTIME")
    if library is None:
        pytest.skip("scripts/setup could not fetch ONNX Runtime")
    example = built("onnxruntime", tmp_path)
    for device in xd.devices():
        printed = run(example, library, str(device))
        assert f"on a tensor of {device}\ninto ONNX Runtime and out of it: 0 bytes copied\n" in printed
    ended = subprocess.run([example, "/nowhere.so"], capture_output=True, text=True, env=ENVIRONMENT)
    assert ended.returncode == 1 and "cannot load ONNX Runtime" in ended.stderr
