"""The pytest plugin: over the simulator, what is reported during a test fails it, and each test runs under K seeds."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from crossdock_sim import control, files, libraries, runs
from crossdock_sim.command import SETTING, natural, positive, setting, writable
from crossdock_sim.reports import different
from crossdock_sim.watch import Watch

WATCH = pytest.StashKey[Watch]()
MARK = "xd_races(count): over the simulator, the test has so many places that race (0 unless said otherwise)"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crossdock-sim", "tests over simulated GPUs")
    for vendor in ("cuda", "rocm"):
        group.addoption(f"--xd-sim-{vendor}", type=natural, metavar="N", help=f"run over N simulated {vendor.upper()} devices")
    when = f"when work runs, with --xd-sim-..: {runs.POLICY}, with several seeds {runs.POLICY_OF_SEEDS}, unless said"
    group.addoption("--xd-policy", choices=runs.POLICIES, help=when)
    group.addoption("--xd-set", type=setting, action="append", default=[], metavar="WORD=VALUE", help=SETTING)
    group.addoption("--xd-seed", type=natural, metavar="S", help="the first seed")
    group.addoption("--xd-seeds", type=positive, metavar="K", help="run each test under K seeds, in one process")
    group.addoption("--xd-json", type=writable, metavar="F", help="write what was reported as JSON")
    group.addoption("--xd-sarif", type=writable, metavar="F", help="write what failed a test as SARIF 2.1.0")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Runs the same command again over the simulator, where that is asked for: before output is captured."""
    said = early_config.known_args_namespace
    asked = {name: getattr(said, f"xd_sim_{name}", None) for name in ("cuda", "rocm")}
    if any(count is not None for count in asked.values()) and not control.is_here():
        words = {name: str(count) for name, count in asked.items() if count is not None}
        seed = runs.SEED if said.xd_seed is None else said.xd_seed
        words |= {"policy": runs.policy_of(said.xd_policy, said.xd_seeds), "seed": str(seed)}
        command = [sys.executable, *sys.orig_argv[1:]]
        words |= libraries.words_of(";".join(said.xd_set))
        ran = runs.run(command, words)
        runs.tell_of_nothing([ran], words, "--xd-sim-")
        raise SystemExit(ran.status)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    if control.is_here():
        refuse_other_devices(config)
        worker = getattr(config, "workerinput", {}).get("workerid")
        watch = Watch(worker, config.getoption("--xd-seed"))
        config.stash[WATCH] = watch
        config.pluginmanager.register(Seeded(watch, config.getoption("--xd-seeds") or 1), "crossdock-sim-tests")
        return
    options = ("policy", "set", "seed", "seeds", "json", "sarif")
    said = " ".join(f"--xd-{name}" for name in options if config.getoption(f"--xd-{name}"))
    if said:
        raise pytest.UsageError(f"{said} needs simulated GPUs: add --xd-sim-cuda N or --xd-sim-rocm N, or start pytest by crossdock-sim run")


def refuse_other_devices(config: pytest.Config) -> None:
    """Refuses options that ask for what this process does not run over: nobody would heed them."""
    asked = {f"--xd-sim-{name}": {name: config.getoption(f"--xd-sim-{name}")} for name in ("cuda", "rocm")}
    asked["--xd-policy"] = {"policy": config.getoption("--xd-policy")}
    asked["--xd-set"] = libraries.words_of(";".join(config.getoption("--xd-set")))
    here = control.words()
    for option, words in asked.items():
        # Pytest has a seed of its own.
        for name in words.keys() - {"seed"}:
            if words[name] is not None and str(words[name]) != here.get(name):
                over = libraries.text_of(here)
                why = f"{option} asks for {name}={words[name]}, and this process runs over {over} already"
                raise pytest.UsageError(f"{why}: say it to crossdock-sim run, where that starts pytest")


def gives_back(item: pytest.Item, nextitem: pytest.Item | None) -> pytest.TestReport:
    """The end of what the next test does not need, where it is not the test's own."""

    def end() -> None:
        item.session._setupstate.teardown_exact(nextitem)

    call = pytest.CallInfo.from_call(end, when="teardown")
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report


class Seeded:
    """The hooks over the simulator."""

    def __init__(self, watch: Watch, seeds: int) -> None:
        self.watch = watch
        self.seeds = range(watch.seed, watch.seed + seeds)

    def pytest_report_header(self) -> str:
        words = control.words()
        vendors = ", ".join(f"{words[name]} of {name}" for name in ("cuda", "rocm") if name in words)
        seeds = f"seed {self.seeds[0]}" + (f" to {self.seeds[-1]}" if len(self.seeds) > 1 else "")
        return f"crossdock-sim: simulated GPUs ({vendors}), policy {self.watch.policy}, {seeds}"

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Runs the test under one seed after the other until it fails; the last time is what is told."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for seed in self.seeds:
            is_last = seed == self.seeds[-1]
            self.watch.begin(item, seed)
            # What the test shares with others stays: its parent comes next, which is the test without what is its own.
            comes: Any = nextitem if is_last else item.parent
            reports = runtestprotocol(item, log=False, nextitem=comes)
            if all(report.passed for report in reports):
                continue
            if not is_last:
                given_back = gives_back(item, nextitem)
                # A test has one end.
                reports[-1] = reports[-1] if reports[-1].failed else given_back
            break
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if self.watch.wrong_mark:
            pytest.fail(self.watch.wrong_mark, pytrace=False)
        return (yield from self.judged("setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self.judged("call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self.judged("teardown"))

    def judged(self, phase: str) -> Generator[None, Any, Any]:
        """Runs one phase of a test; what was reported then fails it, unless it failed by itself."""
        ended = "failed"
        try:
            result = yield
            ended = "passed"
        except (pytest.skip.Exception, unittest.SkipTest):
            # What was reported before is no less wrong.
            ended = "skipped"
            raise
        finally:
            wrong = self.watch.look(phase, ended)
            if wrong:
                pytest.fail(wrong, pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        """Tells beside a test's own failure what the simulator knows, and keeps what is no expected failure."""
        report = yield
        if report.skipped and self.watch.wrong and not hasattr(report, "wasxfail"):
            # A test of unittest, whose skip stands in the place of what this plugin raised.
            report.outcome, report.longrepr = "failed", self.watch.wrong
        self.watch.keep(is_known=hasattr(report, "wasxfail"))
        told = self.watch.aside() if report.failed else ""
        if told and hasattr(report.longrepr, "addsection"):
            report.longrepr.addsection("crossdock-sim", told)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tells what was reported outside of tests, which fails the run and no test, and of seeds that are in vain."""
        if len(self.seeds) > 1 and self.watch.policy == "lazy":
            terminalreporter.write_line(runs.SAME)
        found = different(self.watch.outside)
        if found:
            terminalreporter.section("crossdock-sim: reported outside of tests")
            terminalreporter.write_line("\n\n".join(report.text() for report in found))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.watch.end()
        if self.watch.outside and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        config = session.config
        if hasattr(config, "workerinput"):
            return
        json, sarif = config.getoption("--xd-json"), config.getoption("--xd-sarif")
        if json is not None:
            made = runs.Run(self.watch.seed, self.watch.policy, tuple(sys.orig_argv), int(session.exitstatus), self.watch.told())
            json.write_text(files.json_of([made]), "utf-8")
        if sarif is not None:
            sarif.write_text(files.sarif_of(self.watch.told()), "utf-8")
