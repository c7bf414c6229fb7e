"""The command `crossdock-sim`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from crossdock_sim import files, libraries, runs
from crossdock_sim.reports import Report, different

RUN = """Runs a command over simulated GPUs. The exit code is the command's; 3 where it ended with 0 and something was
reported. With --seeds it runs once a seed, and the exit code is the first that is not 0. `{seed}` in a word of the
command is the seed."""


WHEN = f"when work runs: {runs.POLICY}, with several seeds {runs.POLICY_OF_SEEDS}, unless said otherwise"

SETTING = "a setting, as mem=4G: in Crossdock's docs/simulator.md, and a WORD that there is not names all that there are"

USAGE = "%(prog)s [OPTION ..] -- COMMAND [WORD ..]"

SHRINK = """Runs a command with a seed by the policy `seeded`, and then again and again with fewer of the choices that
the seed made, while the command fails in the same way, or the same is reported. The line on stdout repeats it by those
that it needs; stderr tells of each run. The exit code is 0; 1 where nothing was found with the seed."""


class Parser(argparse.ArgumentParser):
    """Says what belongs after `--` where options of the command came before it."""

    def error(self, message: str) -> NoReturn:
        hint = "; COMMAND and its own options belong after --" if "unrecognized" in message else ""
        super().error(message + hint)


def natural(text: str, least: int = 0) -> int:
    """A number of devices, or a seed."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no number") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return number


def positive(text: str) -> int:
    """A number of runs, or of queues."""
    return natural(text, 1)


def setting(text: str) -> str:
    """Words of the simulator's with their values."""
    if not libraries.words_of(text) or any("=" not in word for word in text.split(";") if word.strip()):
        raise argparse.ArgumentTypeError(f"`{text}` is not WORD=VALUE, as mem=4G is")
    return text


def writable(text: str) -> Path:
    """A file in a folder that there is: it is written when all has run."""
    if not (path := Path(text)).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def version() -> str:
    """The version of the package, which a checkout has not."""
    try:
        return metadata.version("crossdock-sim")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    made = Parser(prog="crossdock-sim", description=__import__("crossdock_sim").__doc__)
    made.add_argument("--version", action="version", version=f"crossdock-sim {version()}")
    commands = made.add_subparsers(dest="what", required=True, metavar="SUBCOMMAND")
    run = commands.add_parser("run", usage=USAGE, description=RUN, help="runs a command over simulated GPUs")
    devices(run)
    run.add_argument("--policy", choices=runs.POLICIES, help=WHEN)
    run.add_argument("--seed", type=natural, default=runs.SEED, metavar="S", help="of every random choice (1)")
    run.add_argument("--seeds", type=positive, metavar="K", help="runs the command once with each of K seeds, from S on")
    run.add_argument("--json", type=writable, metavar="F", help="writes runs and reports as JSON")
    run.add_argument("--junit", type=writable, metavar="F", help="the same as JUnit's XML: a case for each run")
    run.add_argument("--sarif", type=writable, metavar="F", help="the reports as SARIF 2.1.0, with both places")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    makes = "makes the schedule of a finding small"
    shrink = commands.add_parser("shrink", usage=USAGE, description=SHRINK, help=makes)
    devices(shrink)
    # No `choices`: what is refused is told why.
    shrink.add_argument("--policy", metavar="seeded", help="no other policy makes choices, so it need not be said")
    shrink.add_argument("--seed", type=natural, default=runs.SEED, metavar="S", help="the seed that found it (1)")
    shrink.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    put = commands.add_parser("libraries", help="puts the libraries into a folder, to link a program with them")
    devices(put)
    put.add_argument("folder", type=Path, metavar="FOLDER", help="is made where it is not there")
    return made


def devices(command: argparse.ArgumentParser) -> None:
    """The options that say which devices there are."""
    command.set_defaults(parser=command)
    command.add_argument("--cuda", type=natural, metavar="N", help="number of CUDA devices: 1 unless --rocm is said")
    command.add_argument("--rocm", type=natural, metavar="N", help="number of ROCm devices")
    command.add_argument("--queues", type=positive, metavar="Q", help="hardware queues of each device (8)")
    several: dict[str, Any] = {"action": "append", "default": [], "metavar": "WORD=VALUE"}
    command.add_argument("--set", type=setting, **several, help=SETTING)


def words(options: argparse.Namespace) -> dict[str, str]:
    """The words of `CROSSDOCK_SIM` that options stand for."""
    said = {name: getattr(options, name, None) for name in ("cuda", "rocm", "queues", "seed")}
    if options.cuda is None and options.rocm is None:
        said["cuda"] = 1
    said["policy"] = runs.policy_of(getattr(options, "policy", None), getattr(options, "seeds", None))
    made = {name: str(value) for name, value in said.items() if value is not None}
    return made | libraries.words_of(";".join(options.set))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; its exit code."""
    options, others = parser().parse_known_args(arguments)
    if others:
        # With the usage of the subcommand, of which one takes no command.
        which = "unrecognized" if "command" in options else "unknown"
        options.parser.error(f"{which} arguments: {' '.join(others)}")
    if options.what == "libraries":
        options.folder.mkdir(parents=True, exist_ok=True)
        libraries.put(options.folder, runs.core(), words(options))
        return 0
    return shrink(options) if options.what == "shrink" else run(options)


def shrink(options: argparse.Namespace) -> int:
    """`crossdock-sim shrink`."""
    from crossdock_sim import shrink

    if options.policy not in (None, "seeded"):
        why = f"shrink needs the policy seeded, since {options.policy} makes no choices by a seed: leave out --policy"
        runs.exit_with_error(why)
    made = shrink.shrink(options.command, words(options))
    if made is None:
        print(f"crossdock-sim: nothing is found with seed {options.seed} by the policy seeded", file=sys.stderr)
        return 1
    repeat = f"--seed {made['seed']} --policy seeded"
    print(repeating(made, options.command, repeat))
    return 0


def run(options: argparse.Namespace) -> int:
    """`crossdock-sim run`."""
    made = words(options)
    first = int(made["seed"])
    if (options.seeds or 1) > 1 and made["policy"] == "lazy":
        print(runs.SAME, file=sys.stderr)
    ran: list[runs.Run] = []
    for seed in range(first, first + max(options.seeds or 1, 1)):
        ran.append(runs.run(options.command, made | {"seed": str(seed)}))
        if ran[-1].is_interrupted:
            break
    reports = [report for one in ran for report in one.reports]
    if reports or options.seeds:
        print(summary(ran, reports, lambda choice: repeating(made, options.command, choice)), file=sys.stderr)
    for path, text in (
        (options.json, files.json_of(ran)),
        (options.junit, files.junit_of(ran)),
        (options.sarif, files.sarif_of(reports)),
    ):
        if path is not None:
            path.write_text(text, "utf-8")
    runs.tell_of_nothing(ran, made)
    failed = [one.ended for one in ran if one.ended]
    return failed[0] if failed else 3 if reports else 0


def repeating(made: dict[str, str], command: list[str], choice: str) -> str:
    """The line that runs a command again, by a choice of seed and policy."""
    options = {name: made[name] for name in ("cuda", "rocm", "queues") if name in made}
    others = {name: value for name, value in made.items() if name not in {*options, "policy", "seed"}}
    said = [word for name, value in options.items() for word in (f"--{name}", value)]
    said += [word for name, value in others.items() for word in ("--set", f"{name}={value}")]
    return f"crossdock-sim run {shlex.join(said)} {choice} -- {shlex.join(command)}"


def summary(ran: list[runs.Run], reports: list[Report], line: Callable[[str], str]) -> str:
    """Which seeds reported what, and how to repeat it."""
    policy = ran[0].policy
    parts = []
    for report in different(reports):
        seeds = [str(one.seed) for one in ran if any(other.same == report.same for other in one.reports)]
        in_test = [f"  test    {report.test}"] if report.test else []
        which = f"  seeds   {', '.join(seeds)} of {ran[0].seed} to {ran[-1].seed}"
        parts.append("\n".join([report.text(), *in_test, which, f"  repeat  {line(report.repeat)}"]))
    ends = ", ".join(f"seed {one.seed}: exit code {one.ended}" for one in ran if one.ended)
    count = len(parts)
    told = f"{count} different report{'s' * (count != 1)} under {len(ran)} seed{'s' * (len(ran) != 1)} of {policy}"
    parts.append("crossdock-sim: " + "; ".join(filter(None, [told, ends])))
    return "\n".join(parts)
