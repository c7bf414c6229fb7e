"""What runs are written as: JSON, JUnit's XML, and SARIF 2.1.0."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from crossdock_sim.reports import Call, Report, different

if TYPE_CHECKING:
    from crossdock_sim.runs import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# `ReportKind` of `tests/sim/engine/src/report.rs`; docs/simulator.md has the same.
RULES = {
    "Race": "two operations use the same bytes, one of them writes, and nothing orders them",
    "HostRace": "host code uses bytes that an operation uses, and nothing orders the two",
    "UseAfterFree": "an operation uses memory after it was freed",
    "FreeInUse": "memory is freed or unregistered, and nothing orders that after an operation that uses it",
    "UseBeforeAllocation": "nothing orders a use after the operation that allocates the memory",
    "OutOfBounds": "a range of memory is not inside of one allocation",
    "Uninitialised": "bytes are read that no call wrote",
    "DoubleFree": "memory is freed that is no allocation, or was freed before",
    "Stale": "a stream or an event is used after it was destroyed",
    "Unrecorded": "a wait for an event that was never recorded does nothing",
    "InHostFunction": "a host function calls the driver",
    "Registration": "host memory is registered twice, unregistered that is not, or freed while it is registered",
    "Standstill": "everything waits, and nothing can complete it",
    "Leak": "something was left at the end",
}


def json_of(ran: Sequence[Run]) -> str:
    """All runs, each with its reports."""
    made = [
        {
            "seed": one.seed,
            "policy": one.policy,
            "command": list(one.command),
            "exit_code": one.ended,
            "reports": [report.object() for report in one.reports],
        }
        for one in ran
    ]
    return json.dumps({"runs": made}, indent=1) + "\n"


def junit_of(ran: Sequence[Run]) -> str:
    """A case for each run, which fails by its exit code and by each report."""
    failed = [one for one in ran if one.status]
    suites = ElementTree.Element("testsuites")
    counts = {"tests": str(len(ran)), "failures": str(len(failed)), "errors": "0"}
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "crossdock-sim", **counts})
    for one in ran:
        named = {"classname": f"crossdock-sim.{one.policy}.seed-{one.seed}", "name": clean(shlex.join(one.command))}
        case = ElementTree.SubElement(suite, "testcase", named)
        if one.status:
            told = [report.text() for report in different(one.reports)]
            why = [f"the exit code is {one.ended}"] * bool(one.ended) + told
            failure = {"message": clean(why[0].splitlines()[0])}
            ElementTree.SubElement(case, "failure", failure).text = clean("\n\n".join(why))
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def clean(text: str) -> str:
    """Text without the characters that XML cannot have."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def sarif_of(reports: Sequence[Report]) -> str:
    """A result for each defect: at its second call, with the first one as the related place."""
    found = different(reports)
    kinds = sorted({report.kind for report in found})
    rules = [{"id": kind, "shortDescription": {"text": RULES.get(kind, kind)}} for kind in kinds]
    driver = {"name": "crossdock-sim", "rules": rules}
    results = [result(report, kinds.index(report.kind)) for report in found]
    root = {"uri": Path.cwd().as_uri() + "/"}
    one = {"tool": {"driver": driver}, "originalUriBaseIds": {"SRCROOT": root}, "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [one]}, indent=1) + "\n"


def result(report: Report, rule: int) -> dict[str, Any]:
    """One report as SARIF has it."""
    at = report.second or report.first
    places = {"locations": [location(at)]}
    if report.second is not None:
        places["relatedLocations"] = [{"id": 1, **location(report.first)}]
    lines = [report.text(), *([f"test {report.test}"] if report.test else []), report.repeat]
    return {
        "ruleId": report.kind,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": "\n".join(lines)},
        **places,
        "properties": report.object(),
    }


def location(call: Call) -> dict[str, Any]:
    """The line of Python where one is known; else the place in a library."""
    message = {"text": f"`{call.function}` (call {call.number})"}
    return {"physicalLocation": place(call), "message": message}


def place(call: Call) -> dict[str, Any]:
    # A line of the program is where somebody can mend it.
    if (line := call.program or call.python) is not None:
        return {"artifactLocation": artifact(line["file"]), "region": {"startLine": max(line["line"], 1)}}
    if call.native is None:
        return {"artifactLocation": {"uri": "unknown"}}
    named = {"fullyQualifiedName": call.native["function"]} if call.native.get("function") else {}
    address = {"relativeAddress": call.native["offset"], **named}
    return {"artifactLocation": artifact(call.native["module"]), "address": address}


def artifact(file: str) -> dict[str, str]:
    """A file below the working folder by its name from there, as services of code want it."""
    path = Path(file)
    try:
        return {"uri": path.absolute().relative_to(Path.cwd()).as_posix(), "uriBaseId": "SRCROOT"}
    except ValueError:
        return {"uri": path.absolute().as_uri() if path.is_absolute() else path.as_posix()}
