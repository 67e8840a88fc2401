"""What load generators print: requests, requests per second, latencies, errors.

A reader is known by a mark that its tool always prints, so a script that calls the tool is read as
well.  For every other tool there is a regular expression with named groups.

Source of the formats: output of wrk 4.1, ab 2.3, hey 0.1.4, redis-benchmark 7.0, pgbench 15 and
sysbench 1.0 as packaged; k6's end-of-test summary and the JSON of oha and autocannon as documented.
"""

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from tuner.errors import ProgramError, SpecError

PERCENTILES: Final = {"50": "p50", "90": "p90", "95": "p95", "99": "p99", "99.9": "p999"}
"""Percentile as tools print it -> name of its metric."""

_NS: Final = {
    "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "secs": 1e9, "m": 60e9, "h": 3600e9,
}  # fmt: skip
"""Unit as tools print it -> ns."""

_GROUPS: Final = ("rate", "requests", "failed", "seconds")
"""Of an expression, beside percentiles with their unit."""

AUTO: Final = "auto"

_PGBENCH_COLUMNS = 6
"""Client, transaction, latency in us, script, seconds, microseconds; pgbench(1)."""

_MOST_CLIENTS = 10**6
"""A first number beyond that is a time, in seconds since 1970."""

_OHA_AT_THE_END = "aborted due to deadline"
"""What oha calls the requests under way when its ``-z`` is over, one of each connection."""


@dataclass(frozen=True)
class LoadReport:
    """What a load generator says of its run."""

    rate: float | None = None
    """Requests per second."""
    requests: float | None = None
    """How many were served; None where the tool does not say."""
    failed: float = 0.0
    """Requests that failed."""
    latencies: Mapping[str, float] = field(default_factory=dict)
    """Name of a percentile -> ns."""
    hint: str = ""
    """Why requests that are well may count as failed, behind a semicolon."""


Reader = Callable[[str], LoadReport]


def read_load(text: str, reader: str = AUTO) -> LoadReport:
    r"""Read what a load generator printed.

    Args:
        text: its standard output and standard error.
        reader: a name of `READERS`, `AUTO`, or a regular expression with at least one of the
            groups ``rate``, ``requests``, ``failed``, ``seconds`` and percentiles with their unit
            such as ``p99_ms``.

    Raises:
        SpecError: the reader is no name and no such expression.
        ProgramError: nothing was understood, or what a group matches is no number; says what to
            give.

    Example:
        >>> read_load("did 900 requests, 3 ms at most 99 %", r"(?P<p99_ms>[\d.]+) ms").latencies
        {'p99': 3000000.0}
    """
    if reader == AUTO:
        known = [one for mark, one in _MARKS if re.search(mark, text, re.MULTILINE)]
        if not known:
            raise ProgramError(_not_understood(text))
        return _checked(known[0], text)
    if reader in READERS:
        return _checked(READERS[reader], text)
    return _checked(partial(_by_pattern, check_reader(reader)), text)


def check_reader(reader: str) -> str:
    """Return a reader as it was given.

    Raises:
        SpecError: it is no name of a tool and no expression with the groups that count alone.
    """
    if reader == AUTO or reader in READERS:
        return reader
    try:
        groups = re.compile(reader).groupindex
    except re.error as error:
        raise SpecError(f"{reader!r} is no regular expression: {error}") from error
    if not groups:
        raise SpecError(
            f"{reader!r} is neither one of {', '.join((AUTO, *READERS))} nor an expression with "
            "groups such as (?P<rate>...), (?P<requests>...), (?P<failed>...) or (?P<p99_ms>...)"
        )
    if unknown := [name for name in groups if not _is_group(name)]:
        raise SpecError(
            f"{reader!r}: no group is named {unknown[0]}: they are {', '.join(_GROUPS)} and "
            f"{', '.join(PERCENTILES.values())} with _ns, _us, _ms or _s; others are (?:...)"
        )
    return reader


# ---- tools that print text ----


def _wrk(text: str) -> LoadReport:
    errors = re.search(
        r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text
    )
    failed = sum(map(float, errors.groups())) if errors else 0.0
    failed += _number(r"Non-2xx or 3xx responses: ([\d.]+)", text) or 0.0
    asked = text.partition("Uncorrected Latency")[0]  # with -U of wrk2, without its waits, too
    return LoadReport(
        _number(r"Requests/sec: +([\d.]+)", text),
        _number(r"(\d+) requests in ", text),
        failed,
        _percentiles(re.findall(r"^ +([\d.]+)% +([\d.]+)(us|ms|s|m|h) *$", asked, re.MULTILINE)),
    )


def _ab(text: str) -> LoadReport:
    rows = re.findall(r"^ +(\d+)% +(\d+)", text, re.MULTILINE)
    failed = _number(r"Failed requests: +(\d+)", text) or 0.0
    hint = "; ab takes another length than the first one for a failure: -l"
    return LoadReport(
        _number(r"Requests per second: +([\d.]+)", text),
        _number(r"Complete requests: +(\d+)", text),
        failed + (_number(r"Non-2xx responses: +(\d+)", text) or 0.0),
        # It prints whole milliseconds: 0 means less than 0.5.
        _percentiles((name, str(max(float(ms), 0.5)), "ms") for name, ms in rows),
        hint if _number(r"Length: (\d+)", text) else "",
    )


def _hey(text: str) -> LoadReport:
    """Hey, and oha without JSON, which prints the same with its own words for errors."""
    good = [
        int(n) for status, n in re.findall(r"\[(\d+)\]\s+(\d+) responses", text) if status < "4"
    ]
    every = [int(n) for n in re.findall(r"\[\d+\]\s+(\d+) responses", text)]
    errors = re.findall(
        rf"^\s*\[(\d+)\](?!\s+{_OHA_AT_THE_END})",
        text.partition("Error distribution:")[2],
        re.MULTILINE,
    )
    failed = sum(every) - sum(good) + sum(map(int, errors))
    # oha's unit is of its slowest request, from ns to hr: also 10 sec and 10 min.
    rows = re.findall(r"^ +([\d.]+)%%? in ([\d.]+) (10 )?(ns|us|ms|s|m|h)", text, re.MULTILINE)
    return LoadReport(
        _number(r"Requests/sec:\s+([\d.]+)", text),
        float(sum(good)),
        float(failed),
        _percentiles((name, f"{value}e{bool(ten):d}", unit) for name, value, ten, unit in rows),
    )


def _redis_benchmark(text: str) -> LoadReport:
    rows = re.findall(r'^"[^"]+"((?:,"[\d.]+"){7})$', text, re.MULTILINE)
    if rows:
        tests = [[float(cell) for cell in re.findall(r"[\d.]+", row)] for row in rows]
        return _tests([row[0] for row in tests], None, [(r[3], r[4], r[5]) for r in tests])
    counts = [float(n) for n in re.findall(r"(\d+) requests completed in", text)]
    rates = [float(n) for n in re.findall(r"([\d.]+) requests per second", text)]
    found = re.findall(r"avg +min +p50 +p95 +p99 +max\s+((?:[\d.]+ +){5}[\d.]+)", text)
    summaries = [[float(cell) for cell in row.split()] for row in found]
    middles = [(float(p50),) for p50 in re.findall(r"per second, p50=([\d.]+) msec", text)]
    return _tests(rates, sum(counts) or None, [(r[2], r[3], r[4]) for r in summaries] or middles)


def _tests(
    rates: Sequence[float], requests: float | None, latencies: Sequence[Sequence[float]]
) -> LoadReport:
    """Return several tests of equal counts as one: the time of all, the mean of a percentile.

    One hiccup of the machine reaches one test: the worst test of a run varies more than their mean.
    """
    names = ("p50", "p95", "p99")
    typical = {
        name: fmean(row[at] for row in latencies) * 1e6
        for at, name in enumerate(names)
        if latencies and at < len(latencies[0])
    }
    rate = len(rates) / sum(1.0 / rate for rate in rates) if rates and min(rates) > 0 else None
    return LoadReport(rate, requests, 0.0, typical)


def _pgbench(text: str) -> LoadReport:
    latencies = {}
    average = _number(r"latency average = ([\d.]+) ms", text)
    if average is not None:
        latencies["latency"] = average * 1e6
    return LoadReport(
        _number(r"^tps = ([\d.]+)", text),
        _number(r"number of transactions actually processed: (\d+)", text),
        _number(r"number of failed transactions: (\d+)", text) or 0.0,
        latencies,
    )


def _sysbench(text: str) -> LoadReport:
    rows = re.findall(r"(\d+)th percentile: +([\d.]+)", text)
    return LoadReport(
        _number(r"transactions: +\d+ +\(([\d.]+) per sec", text)
        or _number(r"events per second: +([\d.]+)", text),
        _number(r"transactions: +(\d+)", text) or _number(r"total number of events: +(\d+)", text),
        # What it ignores, such as a deadlock, it does again.
        _number(r"reconnects: +(\d+)", text) or 0.0,
        _percentiles((name, ms, "ms") for name, ms in rows),
    )


def _k6(text: str) -> LoadReport:
    times = re.search(r"http_req_duration\.*:(.*)", text)
    line = times.group(1) if times else ""
    found = re.findall(r"(med|p\(([\d.]+)\))=(\S+)", line)
    rows = ((name or "50", str(_go_ns(duration)), "ns") for _, name, duration in found)
    # Its share has two digits, so the counts behind it: ✓ 4  ✗ 96, or 4 out of 100.
    failed = _number(r"http_req_failed\.*: *[\d.]+%[^\d\n]*(\d+)", text) or 0.0
    requests = _number(r"http_reqs\.*: *(\d+)", text)
    dropped = _number(r"dropped_iterations\.*: *(\d+)", text) or 0.0
    return LoadReport(
        _number(r"http_reqs\.*: *\d+ +([\d.]+)/s", text),
        requests,
        failed + dropped,
        _percentiles(rows),
    )


def _go_ns(duration: str) -> float:
    """Return what Go prints as 1h2m3.5s."""
    parts = re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", duration)
    return sum(float(number) * _NS[unit] for number, unit in parts)


# ---- tools that print JSON ----


def _oha(text: str) -> LoadReport:
    found = _json(text)
    summary = found["summary"]
    statuses = found.get("statusCodeDistribution", {})
    good = sum(n for status, n in statuses.items() if status < "4")
    errors = found.get("errorDistribution", {})
    failed = sum(statuses.values()) - good
    failed += sum(n for error, n in errors.items() if error != _OHA_AT_THE_END)
    rows = ((name[1:], str(s), "s") for name, s in found["latencyPercentiles"].items() if s)
    return LoadReport(summary["requestsPerSec"], float(good), float(failed), _percentiles(rows))


def _autocannon(text: str) -> LoadReport:
    found = _json(text)
    failed = found["errors"] + found["non2xx"]  # timeouts are errors
    latency = found["latency"]
    names = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9"}
    # It prints whole milliseconds: 0 means less than 0.5.
    rows = ((names[n], str(max(latency[n], 0.5)), "ms") for n in names if n in latency)
    total = found["requests"]
    return LoadReport(
        float(total["average"]), float(total["total"]), float(failed), _percentiles(rows)
    )


READERS: Final[dict[str, Reader]] = {
    "wrk": _wrk,
    "ab": _ab,
    "hey": _hey,
    "oha": lambda text: _oha(text) if '"summary"' in text else _hey(text),
    "k6": _k6,
    "autocannon": _autocannon,
    "redis-benchmark": _redis_benchmark,
    "pgbench": _pgbench,
    "sysbench": _sysbench,
}
"""Reader of every tool that is known by name."""

_MARKS: Final = (
    (r"^Running .* test @ ", _wrk),
    (r"^Requests per second:", _ab),
    (r'"latencyPercentiles"', _oha),
    (r'"non2xx"', _autocannon),
    (r"http_req_duration", _k6),
    (r'^"test","rps"|requests per second, p50=|throughput summary:', _redis_benchmark),
    (r"^tps = ", _pgbench),
    (r"th percentile:", _sysbench),
    (r"Requests/sec:", _hey),
)
"""What each tool always prints, the surest first."""


# ---- parts ----


def _by_pattern(pattern: str, text: str) -> LoadReport:
    values: dict[str, float] = {}
    for match in re.finditer(pattern, text):
        for name, value in match.groupdict().items():
            if value is not None:
                values[name] = _value_of(name, value)
    rows = (
        (name.partition("_")[0], value, name.partition("_")[2])
        for name, value in values.items()
        if name.startswith("p")
    )
    latencies = {name: value * _NS[unit] for name, value, unit in rows}
    rate = values.get("rate")
    if rate is None and values.get("requests") and values.get("seconds"):
        rate = values["requests"] / values["seconds"]
    return LoadReport(rate, values.get("requests"), values.get("failed", 0.0), latencies)


def _value_of(group: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.0 <= (value := float(text)) < math.inf:
            return value
    raise ProgramError(
        f"--read: the group {group} matches {text!r}, which is no number from 0 on: let the load "
        "print it with digits and a point alone, or change the expression"
    )


def _is_group(name: str) -> bool:
    percentile, _, unit = name.partition("_")
    return name in _GROUPS or (percentile in PERCENTILES.values() and unit in _NS)


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match.group(1)) if match else None


def _percentiles(rows: Iterable[tuple[str, str, str]]) -> dict[str, float]:
    """Return name -> ns of rows of percentile, value and unit; others than ours are left out."""
    found = {}
    for percentile, value, unit in rows:
        name = PERCENTILES.get(f"{float(percentile):g}")
        if name is not None:
            found[name] = float(value) * _NS[unit]
    return found


def _json(text: str) -> Any:  # noqa: ANN401 - JSON
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError as error:
        raise ProgramError(_not_understood(text)) from error


def _checked(reader: Reader, text: str) -> LoadReport:
    """Return what a reader understands.

    Raises:
        ProgramError: that is nothing, or JSON without what it should have.
    """
    try:
        report = reader(text)
    except (KeyError, TypeError, AttributeError) as error:
        raise ProgramError(_not_understood(text)) from error
    if report.rate is None and report.requests is None and not report.latencies:
        raise ProgramError(_not_understood(text))
    return report


def _not_understood(text: str) -> str:
    last = "\n  ".join(text.strip().splitlines()[-3:])
    words = f"; it ends with\n  {last}" if last else "; it printed nothing"
    return (
        "the output of the load is not understood: name its tool or give a regular expression "
        rf"with --read, such as '(?P<requests>\d+) requests'{words}"
    )


def pgbench_latencies(logs: Iterable[Path]) -> dict[str, float]:
    """Return percentiles of the transactions in files that ``pgbench -l`` wrote; none without.

    In place of a latency, those that were skipped or failed have a word.  Sums over an interval
    (``--aggregate-interval``), which begin with its time, have no percentiles.
    """
    rows = (row.split() for log in logs for row in log.read_text().splitlines())
    latencies_us = (
        row[2] for row in rows if len(row) >= _PGBENCH_COLUMNS and int(row[0]) < _MOST_CLIENTS
    )
    ns = [float(latency) * 1e3 for latency in latencies_us if not latency.isalpha()]
    if not ns:
        return {}
    return {name: float(np.percentile(ns, float(p))) for p, name in PERCENTILES.items()}
