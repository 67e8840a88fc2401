"""Recorded reports of the allocators' probes, and what adapters make of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.doubles.places import DATA
from tuner.allocators import HostFacts, Installation, WorkloadFacts, get_allocator
from tuner.allocators.probe import ProbeReport, Tunable
from tuner.config import Narrowing
from tuner.records import Configuration, Value
from tuner.space import Parameter

RECORDS = DATA / "probe"
VERSIONS = {
    path.stem: json.loads(path.read_text())["recorded_from"].split(",")[0].split()[1]
    for path in RECORDS.glob("*.json")
}
VERSIONS["exgen-st"] = VERSIONS["exgen"]
HOST = HostFacts("madvise", 4, 4096)
ONE_THREAD = WorkloadFacts(1, 10**9)
SERVER = WorkloadFacts(6, 60 * 10**9, freed_bytes=8 << 30)


def effective_settings(environment: Mapping[str, str], name: str) -> dict[str, Value]:
    """Return what the allocator of this machine makes of an environment, as far as it shows."""
    adapter = get_allocator(name)
    return adapter.effective(adapter.observe(environment))


def recorded(name: str, **changes: Any) -> ProbeReport:
    """Return the recorded report of an allocator's default with some observations replaced.

    Args:
        name: of the allocator.
        changes: observation -> value; ``tunables`` changes single tunables by value.
    """
    document = json.loads((RECORDS / f"{name.removesuffix('-st')}.json").read_text())
    if name == "exgen-st":  # which reports what exgen does
        document["report"]["exgen"]["library"] = name
    tunables = {k: Tunable(*v) for k, v in document.get("tunables", {}).items()}
    for key, value in changes.pop("tunables", {}).items():
        tunables[key] = replace(tunables[key], value=value)
    report = {**document["report"], "tunables": tunables}
    if changes:
        report[name] = {**report[name], **changes}
    return ProbeReport(report, document["messages"])


def problems(report: ProbeReport, allocator: str, **settings: Value) -> list[str]:
    """Return what read-back finds wrong with settings in a report."""
    found = get_allocator(allocator).mismatches(Configuration.of(allocator, settings), report)
    return [str(problem) for problem in found]


def installation(name: str, version: str | None = None) -> Installation:
    return Installation(name, None, version or VERSIONS[name])


def genes(
    name: str,
    version: str | None = None,
    host: HostFacts = HOST,
    workload: WorkloadFacts = ONE_THREAD,
    **narrowing: Any,
) -> dict[str, Parameter]:
    wishes = {key: Narrowing.model_validate(value) for key, value in narrowing.items()}
    found = get_allocator(name).parameters(installation(name, version), host, workload, wishes)
    return {parameter.name.removeprefix(f"{name}."): parameter for parameter in found}
