"""Programs in C++ whose scripts share the package `crossdock` with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import crossdock as xd

ROOT = Path(__file__).resolve().parents[2]


def test_scripts_in_cpp_see_the_tensors_of_their_program(tmp_path: Path) -> None:
    package, program = Path(xd.__file__).parent, tmp_path / "scripts"
    source = ROOT / "host/capi/tests/cpp/scripts.cpp"
    command = [os.environ.get("CXX", "c++"), "-std=c++17", f"-I{xd.get_include()}", str(source)]
    link = [str(package / "libcrossdock.so.1"), f"-Wl,-rpath,{package}", "-pthread"]
    subprocess.run([*command, *link, "-o", str(program)], check=True)
    named = {"CROSSDOCK_PYTHON": sys.executable, "PYTHONPATH": str(package.parent)}
    plugins = list((package / "crossdock/plugins").glob("*.so"))
    run = subprocess.run(
        [program, *plugins], capture_output=True, text=True, env={**os.environ, **named}
    )
    assert run.returncode == 0, run.stderr
    assert "skipped" not in run.stdout
