"""The workflow for CI that `crossdock new-plugin` writes and `docs/ci.md` shows, each step of it executed.

What fetches from a network is stood in for: `sudo`, `rustup` and `pip`, which say what they were asked. With
CROSSDOCK_LONG=1 `pip` builds and installs the real wheel, in an environment of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import crossdock as xd
import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(xd.__file__).parent
IS_LONG = os.environ.get("CROSSDOCK_LONG") == "1"

STAND_INS = {
    "sudo": 'echo "sudo $*" >>"$ASKED"',
    "rustup": 'echo "rustup $*" >>"$ASKED"',
    # The package that the tests run with is the one that is installed.
    "pip": 'echo "pip $*" >>"$ASKED"\n'
    'if [ "$1" = wheel ]; then test -f "$5/pyproject.toml"; mkdir wheels; : >wheels/crossdock-1.whl; fi',
    "python": f'exec {sys.executable} "$@"',
    "crossdock": f'exec {PACKAGE / "command"} "$@"',
}


def new_plugin(folder: Path, *language: str) -> Path:
    """A project named `my_dev`."""
    command = [str(PACKAGE / "command"), "new-plugin", "my_dev", *language]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / "my_dev"


def workflow(project: Path) -> dict[str, Any]:
    loaded = yaml.safe_load((project / ".github/workflows/ci.yml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def checkout(folder: Path) -> None:
    """Crossdock, as a repository of its own: where these tests run may be none."""
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name != ".git":
            (folder / entry.name).symlink_to(entry)
    me = ["-c", "user.name=me", "-c", "user.email=me@here"]
    for words in (["init", "--quiet"], [*me, "commit", "--quiet", "--allow-empty", "--message", "it"]):
        subprocess.run(["git", *words], check=True, cwd=folder)


class Runner:
    """Does the steps of a job as a runner does them, as far as this workflow asks."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project, self.folder = project, folder
        tools = folder / "bin"
        tools.mkdir()
        for name, text in STAND_INS.items():
            if IS_LONG and name in ("pip", "python", "crossdock"):
                continue
            (tools / name).write_text(f"#!/bin/sh\nset -e\n{text}\n")
            (tools / name).chmod(0o755)
        path = [str(tools), os.environ["PATH"]]
        if IS_LONG:
            subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
            path.insert(1, str(folder / "python/bin"))
        files = ("ASKED", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        self.files = {name: folder / name for name in files}
        for file in self.files.values():
            file.touch()
        own = ("CROSSDOCK_PLUGIN_PATH", "CROSSDOCK_PLUGINS", "RUSTUP_TOOLCHAIN", "RUSTFLAGS")
        self.environment = {key: value for key, value in os.environ.items() if key not in own}
        self.environment |= {name: str(file) for name, file in self.files.items()}
        self.environment |= {"PATH": ":".join(path), "CARGO_NET_OFFLINE": "true"}
        self.environment["PYTHONPATH"] = "" if IS_LONG else str(PACKAGE.parent)

    def text(self, name: str) -> str:
        return self.files[name].read_text()

    def used(self, action: str, inputs: dict[str, Any]) -> None:
        """Does what an action of others does, on this machine."""
        match action.partition("@")[0]:
            case "actions/checkout" if inputs:
                checkout(self.project / inputs["path"])
            case "actions/upload-artifact":
                for name in inputs["path"].split():
                    assert (self.project / name).stat().st_size > 1000, name
            case "actions/cache":
                assert not (self.project / inputs["path"]).exists()
            case name:
                assert name in ("actions/checkout", "actions/setup-python"), name

    def run(self, shell: str, script: str) -> None:
        file = self.folder / "step.sh"
        file.write_text(script)
        command = ["/bin/sh", "-c", shell.format(file)]
        ended = subprocess.run(
            command, cwd=self.project, env=self.environment, capture_output=True, text=True, umask=0o002
        )
        assert ended.returncode == 0, f"in {script}\n{ended.stdout}{ended.stderr}"

    def job(self, workflow: dict[str, Any]) -> None:
        """Fails as the first of its steps, behind those that run nevertheless."""
        (job,) = workflow["jobs"].values()
        self.environment |= workflow["env"]
        failure: AssertionError | None = None
        is_built = False
        for step in job["steps"]:
            match step.get("if"):
                case "vars.CROSSDOCK_REPOSITORY == ''":
                    continue  # it is named
                case "${{ !cancelled() && steps.build.outcome == 'success' }}":
                    is_to_run = is_built
                case "always()":
                    is_to_run = True
                case condition:
                    assert condition in (None, "steps.wheel.outputs.cache-hit != 'true'")
                    is_to_run = failure is None
            if not is_to_run:
                continue
            try:
                if "uses" in step:
                    self.used(step["uses"], step.get("with", {}))
                else:
                    self.run(job["defaults"]["run"]["shell"], step["run"])
                is_built = is_built or step.get("id") == "build"
            except AssertionError as error:
                failure = failure or error
        if failure:
            raise failure


@pytest.mark.parametrize("language", ["--c", "--rust"])
def test_each_step_works(language: str, tmp_path: Path) -> None:
    if "opencl" not in {device.type for device in xd.devices()}:
        pytest.skip("skipped: there is no OpenCL device, which the workflow asks for")
    project = new_plugin(tmp_path, *([language] if language == "--c" else []))
    if language == "--rust":
        # The versions that are here, for a build without a network, which the next run finds again.
        shutil.copy(ROOT / "Cargo.lock", project)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "ci-document"
        target.mkdir(parents=True, exist_ok=True)
        (project / "target").symlink_to(target)
    runner = Runner(project, tmp_path)
    runner.job(workflow(project))
    # By the best, a direct and a staged route, between three devices at least.
    summary = runner.text("GITHUB_STEP_SUMMARY")
    assert summary.count("### ") == 3 and summary.count(" | yes |") >= 27, summary
    assert re.fullmatch("commit=[0-9a-f]{40,}\n", runner.text("GITHUB_OUTPUT"))
    oldest = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert oldest and runner.text("GITHUB_ENV") == f"RUSTUP_TOOLCHAIN={oldest[1]}\n"
    # The packages that scripts/setup installs.
    asked = runner.text("ASKED")
    assert "apt-get install --yes --no-install-recommends ocl-icd-libopencl1 pocl-opencl-icd" in asked
    assert f"rustup toolchain install {oldest[1]} " in asked


def copies_too_little(folder: Path) -> Path:
    """A project whose plugin copies half of what it should."""
    project = new_plugin(folder, "--c")
    source = project / "src/plugin.c"
    text = source.read_text()
    wrong = text.replace("(size_t)args->bytes)", "(size_t)args->bytes / 2)")
    assert wrong != text
    source.write_text(wrong)
    return project


def test_a_plugin_that_copies_too_little_fails_the_job(tmp_path: Path) -> None:
    project = copies_too_little(tmp_path)
    (project / "tests/unit.c").write_text("int main(void) { return 0; }\n")
    with pytest.raises(AssertionError, match="^in crossdock conform"):
        Runner(project, tmp_path).job(workflow(project))


def test_a_unit_test_that_fails_hides_nothing_that_comes_behind_it(tmp_path: Path) -> None:
    project = copies_too_little(tmp_path)
    runner = Runner(project, tmp_path)
    with pytest.raises(AssertionError, match="^in make test"):
        runner.job(workflow(project))
    report = (project / "conform.xml").read_text()
    assert 'name="bytes_come_back_as_they_went"' in report and "<failure " in report
    assert "**different**" in runner.text("GITHUB_STEP_SUMMARY")
    assert (project / "matrix.html").exists()


def test_a_plugin_that_does_not_open_is_in_all_reports(tmp_path: Path) -> None:
    project = new_plugin(tmp_path, "--c")
    source = project / "src/plugin.c"
    text = source.read_text()
    wrong = text.replace("#include <pthread.h>", "#include <pthread.h>\n#include <stdlib.h>")
    wrong = re.sub(r"(static xd_status probe\([^{]*\{)", r"\1 abort();", wrong)
    assert wrong.count("abort();") == 1
    source.write_text(wrong)
    runner = Runner(project, tmp_path)
    with pytest.raises(AssertionError):
        runner.job(workflow(project))
    report = (project / "conform.xml").read_text()
    assert 'name="the_plugin_opens"' in report and "SIGABRT" in report
    summary = runner.text("GITHUB_STEP_SUMMARY")
    assert "**error**" in summary and "SIGABRT" in summary


def test_the_steps_for_another_service_work(tmp_path: Path) -> None:
    document = (ROOT / "docs/ci.md").read_text()
    shown = re.findall(r"^```yaml\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(shown[2]).values()
    project = new_plugin(tmp_path, "--c")
    runner = Runner(project, tmp_path)
    runner.environment |= job["variables"]
    runner.run("bash -e {}", "\n".join(job["script"]))
    artifacts = job["artifacts"]
    for name in [*artifacts["paths"], artifacts["reports"]["junit"]]:
        assert (project / name).stat().st_size > 200, name


def test_the_document_shows_the_workflow(tmp_path: Path) -> None:
    document = (ROOT / "docs/ci.md").read_text()
    shown = re.findall(r"^```yaml\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    written = new_plugin(tmp_path, "--c") / ".github/workflows/ci.yml"
    assert shown[0] == written.read_text()
    (tmp_path / "rust").mkdir()
    of_rust = (new_plugin(tmp_path / "rust") / ".github/workflows/ci.yml").read_text()
    assert shown[1] in of_rust
