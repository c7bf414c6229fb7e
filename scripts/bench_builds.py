"""The builds that scripts/bench-counts and scripts/bench-copies compare: this tree's, and another's."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(what):
    """A line of progress."""
    print(f"bench: {what}", file=sys.stderr, flush=True)


def stop(why):
    """Ends the program as a wrong call of it does."""
    say(why)
    sys.exit(2)


def git(*arguments):
    """What git answers, or None."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


class Build:
    """A tree and the folder that cargo builds it in."""

    def __init__(self, name, tree, target):
        self.name, self.tree, self.target = name, tree, target

    def cargo(self, *arguments):
        """Builds in release."""
        command = ["cargo", "build", "--quiet", "--locked", "--release", *arguments]
        environment = os.environ | {"CARGO_TARGET_DIR": str(self.target)}
        if subprocess.run(command, cwd=self.tree, env=environment).returncode != 0:
            stop(f"{self.name} does not build: {' '.join(command)} in {self.tree}")

    def example(self, name):
        """Where an example's program lies."""
        return self.target / "release/examples" / name

    def module(self):
        """A folder with `crossdock` for Python, of what was built: without the command and plugins."""
        folder = self.target / "bench-python"
        made = folder / "crossdock"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(self.tree / "host/python/python/crossdock", made, ignore=shutil.ignore_patterns("*.so*", "command"))
        shutil.copy(self.target / "release/lib_crossdock.so", made / "_crossdock.abi3.so")
        shutil.copy(self.target / "release/libcrossdock_capi.so", made / "libcrossdock.so.1")
        return folder


def ours():
    """This tree as it stands."""
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    return Build("now", ROOT, target)


def other(which, *programs):
    """The build of `which`: a folder with another checkout, or a revision, which is unpacked under
    `target/against`. An unpacked tree gets these `programs` of ours, so that both builds run the same."""
    if os.path.isfile(os.path.join(which, "Cargo.toml")):
        tree = pathlib.Path(which).resolve()
        return Build("before", tree, tree / "target")
    commit = git("rev-parse", "--verify", "--quiet", f"{which}^{{commit}}")
    if commit is None:
        stop(f"{which} is neither a checkout's folder nor a revision")
    tree = ours().target / "against" / commit
    if not (tree / "Cargo.toml").exists():
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", tree], check=True, input=archive.stdout)
    for program in programs:
        put_if_other(ROOT / program, tree / program)
    return Build("before", tree, tree / "target")


def put_if_other(source, target):
    """Copies, but for what is the same already: cargo would build it again."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def table(rows):
    """Prints rows in columns: the first to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip(), flush=True)
