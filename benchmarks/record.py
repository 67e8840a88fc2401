"""What recording costs: malloc-tuner against heaptrack, and what either loses.

Each program runs bare, under ``malloc-tuner record`` and with heaptrack's library
preloaded, in interleaved rounds.  What counts is what the program itself
spends: the median of its CPU time under a tool less the bare median (wall time
is kept too, but says little on a busy machine).  Both tools write raw data to
disk meanwhile and make something of it later.  Ours is shown beside the program's
as the CPU time of the whole command, the start of Python and the building of the trace
included; heaptrack's later part (packing, and an interpreter that needs gigabytes for the
compiler) is left out, so that share is an upper bound.  Lost events are counted against
``valgrind --trace-malloc=yes`` on single-threaded programs.

Targets: added time at most a third of heaptrack's, at most 4 bytes an event on
disk, no event lost.  Exit status 1 when a target is missed.  The same third is aimed at
for the whole command; that is shown and does not count for the exit status.

    benchmarks/record.py             all programs, 7 rounds
    benchmarks/record.py --print     the table of the last results
    benchmarks/record.py --smoke     tiny programs, one round, no judgement

Raw samples go to ``benchmarks/results/record.json``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import scipy.stats

from benchmarks.provenance import make_stamp, provenance_lines, write_results
from tuner.measure.warm import warm_memory
from tuner.trace.file import Op, Trace

RESULTS: Final = Path(__file__).parent / "results" / "record.json"
ADDED_TIME_TARGET: Final = 1 / 3
BYTES_PER_EVENT_TARGET: Final = 4.0
TOOLS: Final = ("bare", "ours", "heaptrack")
_SEED: Final = 20251120
_REDIS_PORT: Final = 7391

Argv = list[str]


class MakeCommand(Protocol):
    """Makes the input of a program and returns its command line."""

    def __call__(self, folder: Path, *, smoke: bool) -> Argv:
        """Write into `folder`; for a smoke run a tiny input."""


class Drive(Protocol):
    """Works with a running program and ends it."""

    def __call__(self, *, smoke: bool) -> None:
        """Put little load on it in a smoke run."""


@dataclass(frozen=True)
class Sample:
    """One run of one program under one tool."""

    program: str
    tool: str
    round: int
    cpu_s: float
    """User and system time of the program alone."""
    wall_s: float
    """Of the program alone, from start to end."""
    command_wall_s: float
    """Of the whole command; with our recorder that includes building the trace."""
    command_cpu_s: float
    """User and system time of the whole command, with all that it started."""
    n_events: int | None
    """Events recorded by us."""
    file_bytes: int
    """What the tool wrote; 0 for bare."""


@dataclass(frozen=True)
class Program:
    """A program to record."""

    name: str
    needs: tuple[str, ...]
    """Programs that must be installed."""
    command: MakeCommand
    """Makes its input in a folder, for smoke or not, and returns its command line."""
    drive: Drive | None = None
    """What puts load on it and ends it; None: it ends by itself."""


# Programs

_CXX_HEADERS = ("algorithm", "functional", "map", "memory", "regex", "string", "variant", "vector")

_CXX_USE = """
std::map<std::string, std::variant<int, std::string, std::vector<double>>> table{n};
std::vector<std::function<int(int)>> functions{n};
bool match{n}(const std::string &text) {{
    table{n}["k"] = std::vector<double>{{1, 2, {n}}};
    functions{n}.push_back([](int x) {{ return x + {n}; }});
    std::sort(functions{n}.begin(), functions{n}.end(),
              [](auto &a, auto &b) {{ return a({n}) < b({n}); }});
    return std::regex_match(text, std::regex("a{n}(b|c)*d"));
}}
"""


def _compiler(folder: Path, *, smoke: bool) -> Argv:
    """Preprocess a file heavy in templates and return the call of the compiler proper."""
    source, preprocessed = folder / "large.cc", folder / "large.ii"
    lines = [f"#include <{name}>" for name in _CXX_HEADERS[: 1 if smoke else None]]
    if not smoke:
        lines += [_CXX_USE.format(n=n) for n in range(20)]
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(["g++", "-std=c++20", "-E", source, "-o", preprocessed], check=True)
    done = subprocess.run(
        ["g++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True
    )
    flags = ["-quiet", "-fpreprocessed", "-std=c++20", "-O0" if smoke else "-O1"]
    return [done.stdout.strip(), *flags, str(preprocessed), "-o", str(folder / "large.s")]


_POSTSCRIPT = """%!PS
/page {{ /p exch def
  1 1 {n} {{ /i exch def
    gsave i 37 mul p add 500 mod i 91 mul 700 mod translate i rotate
    i 17 mod 17 div i 13 mod 13 div i 11 mod 11 div setrgbcolor
    newpath 0 0 moveto 40 0 lineto 40 30 80 i 50 mod 60 20 curveto closepath fill
    /Times-Roman findfont i 20 mod 6 add scalefont setfont
    0 0 moveto (paragraph ) show i 10 string cvs show
    grestore }} for showpage }} def
1 1 {pages} {{ page }} for
"""


def _ghostscript(folder: Path, *, smoke: bool) -> Argv:
    """Make a PDF with Ghostscript itself and return the call that renders it."""
    source, document = folder / "pages.ps", folder / "pages.pdf"
    source.write_text(_POSTSCRIPT.format(n=40 if smoke else 400, pages=1 if smoke else 6))
    batch = ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER"]
    subprocess.run([*batch, "-sDEVICE=pdfwrite", f"-sOutputFile={document}", source], check=True)
    return [*batch, "-sDEVICE=png16m", "-r72", f"-sOutputFile={folder}/page%d.png", str(document)]


_SCRIPT = """
import json, collections
words = [f"word{i * 7919 % 5003}" for i in range(N)]
count = collections.Counter(words)
records = [{"id": i, "name": w, "tags": [w, str(i)], "score": i / 3} for i, w in enumerate(words)]
text = json.dumps(records)
back = json.loads(text)
groups = collections.defaultdict(list)
for record in back:
    groups[record["name"]].append(record["score"])
print(len(text), max(count.values()), sum(len(g) for g in groups.values()))
"""


def _python(folder: Path, *, smoke: bool) -> Argv:
    """Return the call of a script whose every object goes through malloc."""
    script = folder / "script.py"
    script.write_text(_SCRIPT.replace("N)", "500)" if smoke else "40000)"))
    python = os.path.realpath(sys.executable)
    return ["env", "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0", python, "-S", "-s", str(script)]


def _redis(folder: Path, *, smoke: bool) -> Argv:
    del smoke
    return [
        *["redis-server", "--port", str(_REDIS_PORT), "--save", "", "--dir", str(folder)],
        *["--daemonize", "no", "--logfile", str(folder / "redis.log")],
    ]


def _drive_redis(*, smoke: bool) -> None:
    """Wait for the server, put a fixed load on it, shut it down."""
    client = ["redis-cli", "-p", str(_REDIS_PORT)]
    deadline = time.monotonic() + 30
    while subprocess.run([*client, "ping"], capture_output=True, check=False).stdout != b"PONG\n":
        if time.monotonic() > deadline:
            sys.exit("record.py: redis-server does not answer")
        time.sleep(0.01)
    load = ["-n", "1000" if smoke else "40000", "-r", "20000", "-d", "200", "-c", "20", "-q"]
    subprocess.run(
        ["redis-benchmark", "-p", str(_REDIS_PORT), *load, "-t", "set,get,lpush,lpop,hset,zadd"],
        check=True,
        capture_output=True,
    )
    subprocess.run([*client, "shutdown", "nosave"], capture_output=True, check=False)


PROGRAMS: Final = (
    Program("compiler", ("g++",), _compiler),
    Program("ghostscript", ("gs",), _ghostscript),
    Program("redis", ("redis-server", "redis-benchmark", "redis-cli"), _redis, _drive_redis),
    Program("python", (), _python),
)

# Measuring


def _unwrap(command: Argv) -> tuple[Argv, dict[str, str]]:
    """Take leading ``env NAME=VALUE`` words off, so that no tool follows ``env`` itself."""
    if command[0] != "env":
        return command, dict(os.environ)
    n = next(i for i, word in enumerate(command[1:], 1) if "=" not in word)
    return command[n:], dict(os.environ) | dict(word.split("=", 1) for word in command[1:n])


def _recording(output: Path, words: Argv) -> Argv:
    return [sys.executable, "-m", "tuner.cli.main", "record", "-o", str(output), "--", *words]


def _heaptrack() -> Path | None:
    """Return the library heaptrack preloads."""
    program = shutil.which("heaptrack")
    if program is None:
        return None
    root = Path(program).resolve().parent.parent
    return next(root.glob("lib*/**/libheaptrack_preload.so"), None)


def measure(program: Program, tool: str, number: int, command: Argv, *, smoke: bool) -> Sample:
    """Run a program once under a tool."""
    words, environment = _unwrap(command)
    with tempfile.TemporaryDirectory(prefix="record-") as name:
        output = Path(name) / "record"
        if tool == "ours":
            words = _recording(output, words)
        elif tool == "heaptrack":
            environment |= {"LD_PRELOAD": str(_heaptrack()), "DUMP_HEAPTRACK_OUTPUT": str(output)}
        start = time.monotonic()
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if program.drive:
            program.drive(smoke=smoke)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        command_wall_s = time.monotonic() - start
        if process.returncode != 0:
            sys.exit(f"record.py: {program.name} under {tool} failed: {process.returncode}")
        command_cpu_s = cpu_s = usage.ru_utime + usage.ru_stime
        wall_s = command_wall_s
        n_events: int | None = None
        if tool == "ours":
            with Trace(output) as trace:
                cpu_s, wall_s = trace.metadata["cpu_s"], trace.metadata["wall_s"]
                n_events = trace.totals.n_events
        file_bytes = output.stat().st_size if output.exists() else 0
    return Sample(program.name, tool, number, cpu_s, wall_s, command_wall_s, command_cpu_s,
                  n_events, file_bytes)  # fmt: skip


# Lost events


def valgrind_events(command: Argv) -> Counter[tuple[str, int]]:
    """Count what valgrind sees: operation and size; a free has size 0."""
    words, environment = _unwrap(command)
    flags = ["--tool=dhat", "--dhat-out-file=/dev/null", "--trace-malloc=yes"]
    no_extra = ["--run-libc-freeres=no", "--run-cxx-freeres=no"]
    process = subprocess.Popen(
        ["valgrind", *flags, *no_extra, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None  # noqa: S101 - for the type checker
    counts: Counter[tuple[str, int]] = Counter()
    with process.stderr:
        for line in process.stderr:
            event = _valgrind_event(line)
            if event:
                counts[event] += 1
    process.wait()
    return counts


def _valgrind_event(line: str) -> tuple[str, int] | None:
    match = re.match(r"--\d+-- (\w+)\((.*?)\)", line)
    if match is None:
        return None
    name, numbers = match[1], [int(n, 0) for n in re.findall(r"0x[0-9A-F]+|\d+", match[2])]
    if name == "free" or name.startswith(("_Zd", "free_")):  # _Zdl, _Zda: operator delete
        return ("free", 0) if numbers[0] else None
    if name == "calloc":
        return "calloc", numbers[0] * numbers[1]
    if name == "realloc":
        return ("realloc" if numbers[0] else "malloc"), numbers[1]
    if name in ("memalign", "posix_memalign"):
        return "aligned", numbers[-1]
    return "malloc", numbers[0]


VALGRIND_VARIABLES: Final = {
    "GLIBCPP_FORCE_NEW": "1",
    "GLIBCXX_FORCE_NEW": "1",
    "VALGRIND_PRELOAD": "",
}
"""What valgrind puts into a program's environment, the last one under another name (but for
LD_LIBRARY_PATH, which would make the loader search other folders).

Some programs copy their environment, which allocates.
"""


def our_events(command: Argv) -> Counter[tuple[str, int]]:
    """Count what our recorder sees, in the same terms."""
    words, environment = _unwrap(command)
    with tempfile.TemporaryDirectory(prefix="record-") as name:
        output = Path(name) / "trace"
        subprocess.run(
            _recording(output, words),
            env=environment | VALGRIND_VARIABLES,
            check=True,
            capture_output=True,
        )
        with Trace(output) as trace:
            events = trace.read_all()
    events = events[events["op"] < Op.THREAD_START]
    return Counter(
        (Op(op).name.lower(), size)
        for op, size in zip(events["op"].tolist(), events["size"].tolist(), strict=True)
    )


def lost_events(command: Argv) -> dict[str, int]:
    """Compare both counts, by operation.

    Sizes may differ without a loss, and are counted apart: of copies of the
    environment, and of Python's numbers that hold an address, which valgrind
    chooses lower.
    """
    seen, ours = valgrind_events(command), our_events(command)
    ops_seen, ops_ours = _by_operation(seen), _by_operation(ours)
    lost = sum((ops_seen - ops_ours).values())
    return {
        "valgrind": sum(seen.values()),
        "ours": sum(ours.values()),
        "lost": lost,
        "extra": sum((ops_ours - ops_seen).values()),
        "other_size": sum((seen - ours).values()) - lost,
    }


def _by_operation(events: Counter[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (operation, _), n in events.items():
        counts[operation] += n
    return counts


# Judging


Floats = npt.NDArray[np.float64]


def _added(bare: Floats, tool: Floats) -> float:
    return float(np.median(tool) - np.median(bare))


def added_share(times: dict[str, Sequence[float]]) -> tuple[float, float, float] | None:
    """Return our added time as a share of heaptrack's, with a 95 % bootstrap interval.

    Rounds are resampled as a whole, since the runs of a round share its noise.
    None when heaptrack itself adds nothing that stands out of the noise.
    """
    if len(times["heaptrack"]) < 2:
        return None
    columns = [np.array(times[tool]) for tool in TOOLS]

    def share(bare: Floats, ours: Floats, heaptrack: Floats) -> float:
        return _added(bare, ours) / max(1e-9, _added(bare, heaptrack))

    if columns[2].min() <= columns[0].max():
        return None
    result = scipy.stats.bootstrap(
        columns, share, paired=True, vectorized=False, method="percentile", n_resamples=2000,
        rng=np.random.default_rng(_SEED),
    )  # fmt: skip
    interval = result.confidence_interval
    return share(*columns), float(interval.low), float(interval.high)


def _medians(samples: Sequence[Sample], field: str) -> dict[str, float]:
    """Return the median of a field per tool that was run."""
    values = {
        tool: [getattr(sample, field) for sample in samples if sample.tool == tool]
        for tool in TOOLS
    }
    return {tool: float(np.median(times)) for tool, times in values.items() if times}


def _by_tool(samples: Sequence[Sample], field: str) -> dict[str, Sequence[float]]:
    return {tool: [getattr(s, field) for s in samples if s.tool == tool] for tool in TOOLS}


def summarise(program: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the figures of one program."""
    mine = [s for s in samples if s.program == program]
    ours = [s for s in mine if s.tool == "ours"]
    return {
        "program": program,
        "n_events": int(np.median([s.n_events or 0 for s in ours])),
        "cpu_s": _medians(mine, "cpu_s"),
        "wall_s": _medians(mine, "wall_s"),
        "command_wall_s": _medians(mine, "command_wall_s")["ours"],
        "bytes_per_event": max(s.file_bytes / max(1, s.n_events or 0) for s in ours),
        "command_cpu_s": _medians(mine, "command_cpu_s"),
        "added_share": added_share(_by_tool(mine, "cpu_s")),
        "added_command_share": added_share(_by_tool(mine, "command_cpu_s")),
    }


def command_share(figures: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the whole command's added CPU time over heaptrack's, lowest and highest program.

    Where the highest is above the target, that is said.  None: no program has it.
    """
    found = (row.get("added_command_share") for row in figures)
    shares = [share[0] for share in found if share is not None]
    if not shares:
        return None
    verdict = "" if max(shares) <= ADDED_TIME_TARGET else ", **more than the third** aimed at"
    return f"{min(shares):.2f} to {max(shares):.2f}{verdict}"


def print_table(figures: Sequence[dict[str, Any]], lost: dict[str, dict[str, int]]) -> None:
    """Print what `summarise` and `lost_events` returned."""
    print(f"{'':<12}{'events':>11}{'bare':>9}{'ours':>9}{'heaptrack':>11}"
          f"{'added/heaptrack added':>27}{'B/event':>9}{'command':>10}"
          f"{'added/heaptrack added':>27}")  # fmt: skip
    for row in figures:
        cpu, share = row["cpu_s"], row["added_share"]
        whole = row.get("command_cpu_s", {}).get("ours")
        command = "-" if whole is None else f"{whole:.2f} s"
        heaptrack = f"{cpu['heaptrack']:.2f} s" if "heaptrack" in cpu else "-"
        print(f"{row['program']:<12}{row['n_events']:>11,}{cpu['bare']:>7.2f} s"
              f"{cpu['ours']:>7.2f} s{heaptrack:>11}{_share(share):>27}"
              f"{row['bytes_per_event']:>9.2f}{command:>10}"
              f"{_share(row.get('added_command_share')):>27}")  # fmt: skip
    for name, counts in lost.items():
        print(f"{name}: {counts['valgrind']:,} events seen by valgrind, {counts['lost']} lost, "
              f"{counts['extra']} extra, {counts['other_size']} of another size")  # fmt: skip
    print("times are CPU seconds: of the program, and of the command with all that it starts")
    print("targets: share at most 0.333, at most 4 bytes an event, 0 lost")


def _share(share: Sequence[float] | None) -> str:
    return "-" if share is None else f"{share[0]:.3f} [{share[1]:.3f}, {share[2]:.3f}]"


def missed_targets(figures: Sequence[dict[str, Any]], lost: dict[str, dict[str, int]]) -> list[str]:
    """Return what is not as it should be."""
    missed = [f"{name}: {c['lost']} events lost" for name, c in lost.items() if c["lost"]]
    for row in figures:
        share = row["added_share"]
        if share is not None and share[0] > ADDED_TIME_TARGET:
            missed.append(f"{row['program']}: adds {share[0]:.2f} of what heaptrack adds")
        if row["bytes_per_event"] > BYTES_PER_EVENT_TARGET:
            missed.append(f"{row['program']}: {row['bytes_per_event']:.2f} bytes an event")
    return missed


# The whole


def _available(programs: Sequence[Program]) -> list[Program]:
    found = []
    for program in programs:
        missing = [name for name in program.needs if shutil.which(name) is None]
        if missing:
            print(f"{program.name}: left out, {', '.join(missing)} not installed", file=sys.stderr)
        else:
            found.append(program)
    return found


def run_rounds(
    commands: dict[str, Argv], programs: Sequence[Program], rounds: int, *, smoke: bool
) -> list[Sample]:
    """Run all programs under all tools; each round begins with another tool."""
    tools = [tool for tool in TOOLS if tool != "heaptrack" or _heaptrack()]
    samples = []
    for number in range(rounds):
        for program in programs:
            for i in range(len(tools)):
                tool = tools[(i + number) % len(tools)]
                sample = measure(program, tool, number, commands[program.name], smoke=smoke)
                print(f"round {number} {program.name} {tool}: {sample.cpu_s:.2f} s",
                      file=sys.stderr)  # fmt: skip
                samples.append(sample)
    return samples


def _print_last() -> int:
    """Print the last results; return the exit status."""
    kept = json.loads(RESULTS.read_text())
    print("\n".join(provenance_lines(kept["provenance"])))
    print_table(kept["figures"], kept["lost_events"])
    return 1 if missed_targets(kept["figures"], kept["lost_events"]) else 0


def main() -> int:
    """Parse the command line, measure, judge; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny programs, one round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", nargs="+", choices=[p.name for p in PROGRAMS])
    parser.add_argument("--output", type=Path, help="where the raw samples go")
    parser.add_argument("--print", action="store_true", help="print the last results only")
    options = parser.parse_args()
    if options.print:
        return _print_last()
    programs = _available([p for p in PROGRAMS if p.name in (options.programs or p.name)])
    with tempfile.TemporaryDirectory(prefix="record-input-") as name:
        folders = {p.name: Path(name) / p.name for p in programs}
        for folder in folders.values():
            folder.mkdir()
        commands = {p.name: p.command(folders[p.name], smoke=options.smoke) for p in programs}
        rounds = 1 if options.smoke else options.rounds
        warm_memory()
        samples = run_rounds(commands, programs, rounds, smoke=options.smoke)
        lost: dict[str, dict[str, int]] = {}
        for program in programs:
            is_enough = options.smoke and lost
            if program.drive is None and shutil.which("valgrind") and not is_enough:
                small = Path(name) / f"{program.name}-small"
                small.mkdir()
                lost[program.name] = lost_events(program.command(small, smoke=True))
    figures = [summarise(p.name, samples) for p in programs]
    print_table(figures, lost)
    result = {
        "schema": "malloc-tuner.benchmark.record",
        "version": 2,
        "provenance": [
            make_stamp("record", sys.argv, of=[p.name for p in programs], rounds=rounds)
        ],
        "figures": figures,
        "lost_events": lost,
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }
    output = options.output or (None if options.smoke else RESULTS)
    if output is not None:
        write_results(output, result)
    missed = [] if options.smoke else missed_targets(figures, lost)
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
