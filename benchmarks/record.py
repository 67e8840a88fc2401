"""What recording costs: malloc-tuner against heaptrack, and what is lost.

Each program runs bare, under ``malloc-tuner record`` and with heaptrack's library preloaded, in
interleaved rounds.  What counts is what the program itself spends: the median of its CPU time
under a tool less the bare median.  Both tools write raw data to disk meanwhile and make something
of it later.  Ours is shown beside the program's as the CPU time of the whole command, the start of
Python and the building of the trace included; heaptrack's later part is left out, so that share is
an upper bound.  Lost events are counted against ``valgrind --trace-malloc=yes`` on
single-threaded programs.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.stats

from benchmarks.allocator_programs import Command, make_programs
from benchmarks.harness import Benchmark, Call, Target, table, verdict_on
from benchmarks.results import Parts
from benchmarks.rounds import Figures, Row, column, failed, failures, run_rounds
from tuner.stats import Interval
from tuner.trace.file import Op, Trace

ADDED_TIME_TARGET: Final = 1 / 3
BYTES_PER_EVENT_TARGET: Final = 4.0
TOOLS: Final = ("bare", "ours", "heaptrack")
_RECORDINGS: Final = 3
_FEWEST_ROUNDS: Final = 2
"""For an interval."""
PROGRAMS: Final = ("cc1plus", "ghostscript", "python", "redis")
_SEED: Final = 20251120
_REDIS_PORT: Final = 7391
_REDIS: Final = ("redis-server", "redis-benchmark", "redis-cli")

Events = Counter[tuple[str, int]]
"""Operation and size -> how often; a free has size 0."""


def measure(call: Call) -> None:
    """Run every program that is installed under every tool."""
    small = {command.name: command for command in make_programs(call.scratch, smoke=True)}
    commands = dict(small)
    if not call.is_smoke:
        commands = {one.name: one for one in make_programs(call.scratch, smoke=False)}
    if all(map(shutil.which, _REDIS)):
        commands["redis"] = small["redis"] = _redis(call.scratch)
    names = [name for name in PROGRAMS if name in commands]
    tools = [tool for tool in TOOLS if tool != "heaptrack" or _heaptrack()]
    for name in call.choose(names, ["python"]):
        command = commands[name]

        def run(_task: str, tool: str, command: Command = command) -> Figures:
            return _run(command, tool, call.scratch)

        rows = run_rounds(call, name, [name], tools, run, shown="cpu_s")
        has_valgrind = shutil.which("valgrind") and name != "redis"
        lost = lost_events(small[name]) if has_valgrind else None
        call.keep(name, {"rows": rows, "lost": lost}, rounds=call.rounds)


# Running


def _redis(folder: Path) -> Command:
    words = [*_REDIS[:1], "--port", str(_REDIS_PORT), "--save", "", "--dir", str(folder)]
    return Command("redis", (*words, "--daemonize", "no", "--logfile", str(folder / "redis.log")))


def _drive_redis() -> None:
    """Wait for the server, put a fixed load on it, shut it down."""
    client = ["redis-cli", "-p", str(_REDIS_PORT)]
    for _ in range(3000):
        if subprocess.run([*client, "ping"], capture_output=True, check=False).stdout == b"PONG\n":
            break
        time.sleep(0.01)
    load = ["-n", "40000", "-r", "20000", "-d", "200", "-c", "20", "-q"]
    subprocess.run(
        ["redis-benchmark", "-p", str(_REDIS_PORT), *load, "-t", "set,get,lpush,lpop,hset,zadd"],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run([*client, "shutdown", "nosave"], capture_output=True, check=False)


def _recording(output: Path, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tuner.cli.main", "record", "-o", str(output), "--", *words]


def _heaptrack() -> Path | None:
    """Return the library heaptrack preloads."""
    program = shutil.which("heaptrack")
    root = Path(program).resolve().parent.parent if program else None
    return next(root.glob("lib*/**/libheaptrack_preload.so"), None) if root else None


def _run(command: Command, tool: str, scratch: Path) -> Figures:
    """Run a program once under a tool; seconds of the program alone and of the whole command."""
    words, environment = list(command.words), {**os.environ, **command.variables}
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        output = Path(name) / "record"
        if tool == "ours":
            words = _recording(output, words)
        elif tool == "heaptrack":
            environment |= {"LD_PRELOAD": str(_heaptrack()), "DUMP_HEAPTRACK_OUTPUT": str(output)}
        start = time.monotonic()
        process = subprocess.Popen(
            words, env=environment, cwd=command.folder, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with _ended(process):
            if command.name == "redis":
                _drive_redis()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            return failed(f"exit status {process.returncode}")
        wall_s, cpu_s = time.monotonic() - start, usage.ru_utime + usage.ru_stime
        whole = {"command_wall_s": wall_s, "command_cpu_s": cpu_s}
        whole["file_bytes"] = output.stat().st_size if output.exists() else 0
        if tool != "ours":
            return Figures.succeeded({"cpu_s": cpu_s, "wall_s": wall_s, **whole})
        with Trace(output) as trace:
            own = {key: trace.metadata[key] for key in ("cpu_s", "wall_s")}
            return Figures.succeeded({**own, **whole, "n_events": trace.totals.n_events})


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process, and all that it started, where waiting for it is given up."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


# Lost events


def valgrind_events(command: Command) -> Events:
    """Count what valgrind sees."""
    flags = ["--tool=dhat", "--dhat-out-file=/dev/null", "--trace-malloc=yes"]
    no_extra = ["--run-libc-freeres=no", "--run-cxx-freeres=no"]
    done = subprocess.run(
        ["valgrind", *flags, *no_extra, *command.words], env={**os.environ, **command.variables},
        cwd=command.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    found = map(valgrind_event, done.stderr.splitlines())
    return Counter(event for event in found if event)


def valgrind_event(line: str) -> tuple[str, int] | None:
    """Return operation and size of a line of valgrind; None: it is no call, or frees nothing."""
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
LD_LIBRARY_PATH, which would make the loader search other folders): some programs copy it, which
allocates."""


def our_events(command: Command) -> Events:
    """Count what our recorder sees, in the same terms."""
    with tempfile.TemporaryDirectory(prefix="record-") as name:
        output = Path(name) / "trace"
        environment = {**os.environ, **command.variables, **VALGRIND_VARIABLES}
        subprocess.run(_recording(output, command.words), env=environment, cwd=command.folder,
                       check=True, capture_output=True)  # fmt: skip
        with Trace(output) as trace:
            events = trace.read_all()
    events = events[events["op"] < Op.THREAD_START]
    pairs = zip(events["op"].tolist(), events["size"].tolist(), strict=True)
    return Counter((Op(op).name.lower(), size) for op, size in pairs)


def lost_events(command: Command) -> dict[str, int]:
    """Compare both counts, by operation.

    Sizes may differ without a loss, and are counted apart: of copies of the environment, and of
    Python's numbers that hold an address, which valgrind chooses lower.  A compiler makes a call
    more in one run than in the next, by its addresses: of several recordings the nearest counts.
    """
    seen = valgrind_events(command)
    return min(
        (_compare(seen, our_events(command)) for _ in range(_RECORDINGS)), key=lambda c: c["lost"]
    )


def _compare(seen: Events, ours: Events) -> dict[str, int]:
    ops_seen, ops_ours = _by_operation(seen), _by_operation(ours)
    lost = sum((ops_seen - ops_ours).values())
    extra = sum((ops_ours - ops_seen).values())
    other_size = sum((seen - ours).values()) - lost
    return {"valgrind": seen.total(), "lost": lost, "extra": extra, "other_size": other_size}


def _by_operation(events: Events) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (operation, _), n in events.items():
        counts[operation] += n
    return counts


# Judging


Floats = npt.NDArray[np.float64]


def _columns(rows: Sequence[Row], field: str) -> list[Floats]:
    return [np.array(column(rows, field, subject=tool)) for tool in TOOLS]


def is_compared(rows: Sequence[Row]) -> bool:
    """Return whether every tool, heaptrack too, ran a program to its end in the same rounds."""
    counts = {len(one) for one in _columns(rows, "cpu_s")}
    return len(counts) == 1 and min(counts) >= _FEWEST_ROUNDS


def added_share(rows: Sequence[Row], field: str) -> tuple[float, float, float] | None:
    """Return our added time as a share of heaptrack's, with a 95 % bootstrap interval.

    Rounds are resampled as a whole, since the runs of a round share its noise.
    None when heaptrack itself adds nothing that stands out of the noise, or `is_compared` says no.
    """
    columns = _columns(rows, field)
    if not is_compared(rows):
        return None

    def share(bare: Floats, ours: Floats, heaptrack: Floats, axis: int = -1) -> Floats:
        usual = np.median(bare, axis)
        added = np.maximum(1e-9, np.median(heaptrack, axis) - usual)
        return np.asarray((np.median(ours, axis) - usual) / added)

    if columns[2].min() <= columns[0].max():
        return None
    found = scipy.stats.bootstrap(
        columns, share, paired=True, vectorized=True, method="percentile", n_resamples=2000,
        rng=np.random.default_rng(_SEED),
    ).confidence_interval  # fmt: skip
    bare, ours, heaptrack = columns
    return float(share(bare, ours, heaptrack)), float(found.low), float(found.high)


def bytes_per_event(rows: Iterable[Row]) -> float | None:
    """Return the most that a recording took on disk for an event; None where none was made."""
    found = [(r["file_bytes"], r["n_events"]) for r in rows if r.get("n_events")]
    return max((n_bytes / n for n_bytes, n in found), default=None)


def lines(parts: Parts) -> Iterator[str]:
    """Yield CPU seconds of every program, and what is lost."""
    rows = []
    for name, part in parts.items():
        cpu = [column(part["rows"], "cpu_s", subject=tool) for tool in TOOLS]
        whole = column(part["rows"], "command_cpu_s", subject="ours")
        events = column(part["rows"], "n_events", subject="ours")
        shares = (added_share(part["rows"], f) for f in ("cpu_s", "command_cpu_s"))
        rows.append([
            name, f"{median(events or [0]):,.0f}", *(_seconds(seconds) for seconds in cpu),
            *map(_share, shares), _size(bytes_per_event(part["rows"])), _seconds(whole),
            _lost(part["lost"]),
        ])  # fmt: skip
    titles = ["CPU time of", "events", *TOOLS, "added / heaptrack's", "of the whole command",
              "bytes an event", "whole command", "lost, extra, other size"]  # fmt: skip
    yield from table(titles, rows)
    for part in parts.values():
        yield from failures(part["rows"])


def _seconds(values: Sequence[float]) -> str:
    return f"{median(values):.2f} s" if values else "-"


def _size(n_bytes: float | None) -> str:
    return "-" if n_bytes is None else f"{n_bytes:.2f}"


def _share(share: Sequence[float] | None) -> str:
    return "-" if share is None else f"{share[0]:.3f} [{share[1]:.3f}, {share[2]:.3f}]"


def _lost(counts: Mapping[str, Any] | None) -> str:
    return "-" if counts is None else f"{counts['lost']}, {counts['extra']}, {counts['other_size']}"


def targets(parts: Parts) -> Iterator[Target]:
    """Yield added time, bytes an event and lost events of every program."""
    for name, part in parts.items():
        share = added_share(part["rows"], "cpu_s")
        if share is not None:
            yield Target(f"{name}: added / heaptrack's", share[0], ADDED_TIME_TARGET,
                         interval=Interval(*share[1:]))  # fmt: skip
        size = bytes_per_event(part["rows"])
        if size is not None:
            yield Target(f"{name}: bytes an event", size, BYTES_PER_EVENT_TARGET, form=".2f")
        if part["lost"] is not None:
            yield Target(f"{name}: events lost", part["lost"]["lost"], 0, form=".0f")


def summary(parts: Parts, verdict: str) -> str:
    """Return what counts: shares, bytes and losses, with the whole command's shares beside."""
    judged = list(targets(parts))
    shares = [t.value for t in judged if "heaptrack" in t.what]
    found = (added_share(part["rows"], "command_cpu_s") for part in parts.values())
    wholes = [share[0] for share in found if share is not None]
    sizes = [size for part in parts.values() if (size := bytes_per_event(part["rows"])) is not None]
    others = [name for name, part in parts.items() if not is_compared(part["rows"])]
    is_whole = bool(shares) and not others and len(sizes) == len(parts)
    words = verdict if is_whole else verdict_on(judged, is_whole=False)
    most = f"at most {max(shares):.2f} of heaptrack's time" if shares else "no time to compare"
    whole = f"; whole command {min(wholes):.2f} to {max(wholes):.2f}" if wholes else ""
    room = f"{max(sizes):.1f} bytes" if sizes else "nothing recorded"
    noise = len(parts) - len(shares) - len(others)
    why = "; ".join([
        *([f"{noise} within the noise"] if noise else []),
        *([f"not compared: {', '.join(others)}"] if others else []),
    ])  # fmt: skip
    counted = f" in {len(shares)} of {len(parts)} programs" + (f" ({why})" if why else "")
    return f"{words}: {most}{counted}{whole}; {room}; {_all_lost(parts)}"


def _all_lost(parts: Parts) -> str:
    counts = [part["lost"]["lost"] for part in parts.values() if part["lost"]]
    if not counts:
        return "losses not counted"
    return f"{sum(counts)} lost in {len(counts)} single-threaded programs"


BENCHMARK: Final = Benchmark(
    name="record",
    about=__doc__,
    claim="Recording adds to the program at most a third of the time that heaptrack adds, takes at "
    "most 4 bytes an event, and loses none of single-threaded programs.",
    depends_on=(
        *("rand_malloc/recorder", "rand_malloc/trace", "tuner/recording"),
        "benchmarks/allocator_programs.py",
    ),
    measure=measure,
    needs=PROGRAMS,
    lines=lines,
    targets=targets,
    outcome=summary,
    rounds=7,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.run())
