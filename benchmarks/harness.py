"""What all benchmarks share: their command line, their results file, their targets.

A benchmark is a file with one `Benchmark`: what it claims, how its parts are measured, what is
shown of them, and the targets they are held to.  Each is called alike:

    benchmarks/NAME.py                    measure all parts, keep and print them
    benchmarks/NAME.py PART...            only these; the others keep their last results
    benchmarks/NAME.py --rounds N         where it measures in rounds
    benchmarks/NAME.py --print            the last results; nothing is run
    benchmarks/NAME.py --smoke            a quick look that it still runs: nothing is kept or judged
    benchmarks/NAME.py --keep FILE        results in another file

Exit status 1 when a target is missed, or a run of a smoke run failed, or none was made; 130 when it
was stopped, 70 for a defect, and for errors what `tuner.errors` says.  The same command goes on
where it was stopped: parts that it had kept are left out, unless a source has changed since.  What
`benchmarks.rounds` runs is in a journal below ``runs/NAME`` until its part is done, and what has a
run folder stays in that; any other part that was not done begins anew.

A stamp says at which commit a part was begun: journals and run folders note it, so that what was
measured before a change is never kept as if it were of today.
"""

from __future__ import annotations

import argparse
import functools
import glob
import hashlib
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.results import (
    ROOT,
    Identities,
    Parts,
    make_stamp,
    merge_stamps,
    read_results,
    results_path,
    stamp_lines,
    write_results,
)
from tuner.allocators import Located, get_allocator
from tuner.bench import subjects
from tuner.bench.subjects import BenchSubject, library_subject, named_subject
from tuner.errors import InterruptedCampaign, MissingToolError, ProgramError, SpecError, TunerError
from tuner.measure.process import last_line
from tuner.measure.program import ProgramRun
from tuner.measure.warm import warm_memory
from tuner.output import write_text
from tuner.stats import Interval

NOT_SHOWN: Final = "not shown yet"
"""Outcome of results that no target can be held to."""
MISSED: Final = "**missed**"

_FEW: Final = 3
"""Targets whose values fit one cell of a table."""

_DIGITS: Final = 12
"""Of a hash in the name of a journal."""
_UNFINISHED: Final = "unfinished-{}.json"
"""What a command has kept, until it ends: a list of parts, in a file named by the command."""
_BEGUN: Final = "begun.json"
"""End of the name of a file beside a run folder, with what its stamp says of its begin."""
_STOPPED: Final = InterruptedCampaign.exit_code
_DEFECT: Final = 70
"""Exit status of an uncaught exception, as sysexits.h has it; 1 is that of a missed target."""
_OF_BEGIN: Final = ("commit", "sources")
"""Of a stamp: what holds from the begin of a part on."""


@dataclass(frozen=True)
class Target:
    """One figure and what it should be."""

    what: str
    value: float
    limit: float
    at_least: bool = False
    """True when the value must not be below the limit; else it must not be above."""
    note: str = ""
    form: str = ".3f"
    """How value and limit are shown, as `format` takes it."""
    interval: Interval | None = None
    """Where the value lies without reasonable doubt; None: it is exact."""

    @property
    def is_met(self) -> bool:
        """Return whether the target is reached, wherever in its interval the value lies."""
        return self._allows(self._ends.low if self.at_least else self._ends.high)

    @property
    def is_missed(self) -> bool:
        """Return whether the target is missed, wherever in its interval the value lies."""
        return not self._allows(self._ends.high if self.at_least else self._ends.low)

    @property
    def _ends(self) -> Interval:
        return self.interval or Interval(self.value, self.value)

    def _allows(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    @property
    def brief(self) -> str:
        """What was found, in few words; where it is missed, what was aimed at."""
        found = f"{self.what}: {self.value:{self.form}}"
        bound = "at least" if self.at_least else "at most"
        return found if self.is_met else f"{found} (aim: {bound} {self.limit:{self.form}})"

    def __str__(self) -> str:
        """Write it for people."""
        sign = ">=" if self.at_least else "<="
        mark = "ok    " if self.is_met else "MISSED" if self.is_missed else "open  "
        text = f"{mark} {self.what}: {self.value:{self.form}}"
        if self.interval:
            text += f" [{self.interval.low:{self.form}}, {self.interval.high:{self.form}}]"
        return f"{text} ({sign} {self.limit:{self.form}}){'; ' + self.note if self.note else ''}"


def verdict_on(targets: Collection[Target], *, is_whole: bool = True) -> str:
    """Return in a word whether all of them are reached; not whole: others are not known."""
    if any(target.is_missed for target in targets):
        return MISSED
    if not targets:
        return NOT_SHOWN
    if not is_whole:
        return "partly shown"
    return "reached" if all(target.is_met for target in targets) else "in doubt"


def count_targets(targets: Collection[Target]) -> str:
    """Return how many targets are reached, and where some are in doubt, how many are not."""
    n_met, n_missed = (sum(getattr(t, name) for t in targets) for name in ("is_met", "is_missed"))
    text = f"{n_met} of {len(targets)} targets reached"
    n_open = len(targets) - n_met - n_missed
    return (
        f"{text}, {n_missed} missed, {n_open} not to be told apart from their limit"
        if n_open
        else text
    )


def outcome_of(targets: Sequence[Target], *, is_whole: bool = True) -> str:
    """Return what a table of claims says of targets: the values of a few, how many of many."""
    verdict = verdict_on(targets, is_whole=is_whole)
    if not targets:
        return verdict
    if len(targets) <= _FEW:
        return f"{verdict}: " + "; ".join(target.brief for target in targets)
    text = count_targets(targets)
    return text if verdict == "reached" else f"{verdict}: {text}"


@dataclass
class Call:
    """One call of a benchmark: what was asked for, and where results go."""

    benchmark: Benchmark
    options: argparse.Namespace
    scratch: Path
    """Removed at the end."""
    parts: dict[str, Any]
    """All results so far, the earlier ones included."""
    stamps: list[Any] = field(default_factory=list)
    begun: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Part -> commit and sources of its begin, where that was in an earlier call."""
    done: list[str] = field(default_factory=list)
    """Parts that this call has kept to their end."""
    left_out: list[str] = field(default_factory=list)
    """What cannot be measured on this machine."""

    @property
    def is_smoke(self) -> bool:
        """True for a quick look."""
        return bool(self.options.smoke)

    @property
    def rounds(self) -> int:
        """How often everything is measured."""
        return 1 if self.is_smoke else int(self.options.rounds)

    @property
    def folder(self) -> Path:
        """Where journals and run folders are, and stay until they are removed."""
        return self.scratch if self.is_smoke else ROOT / "runs" / self.benchmark.name

    def choose(self, names: Sequence[str], smoke: Sequence[str]) -> list[str]:
        """Return the parts to measure: those asked for, else all; in a smoke run others.

        What the same command had kept when it was stopped is left out.

        Raises:
            SpecError: one that was asked for does not exist.
        """
        if unknown := set(self.options.parts) - set(names):
            raise SpecError(f"{unknown.pop()}: there is no such part; there are {', '.join(names)}")
        chosen = list(self.options.parts or (smoke if self.is_smoke else names))
        return [name for name in chosen if not self.is_done(name)]

    def is_done(self, part: str) -> bool:
        """Return whether the same command had kept a part when it was stopped; says so."""
        found = part in self._done
        if found:
            print(f"{self.benchmark.name}: {part} was done before the stop", file=sys.stderr)
        return found

    def journal(self, part: str, known: object) -> Path:
        """Return the file of a journal of a part; `keep` removes it.

        Args:
            part: its name.
            known: all that its figures hang on, as JSON knows it.
        """
        return self.folder / f"{part}-{digits_of(known)}.jsonl"

    @property
    def begin(self) -> dict[str, Any]:
        """What a journal or a run folder notes when it is begun: nothing in a smoke run."""
        return {} if self.is_smoke else {name: self._stamp[name] for name in _OF_BEGIN}

    def go_on(self, part: str, noted: Mapping[str, Any]) -> None:
        """Take over what a journal or a run folder of a part noted as `begin`, if it did."""
        if not self.is_smoke and set(_OF_BEGIN) <= noted.keys():
            self.begun.setdefault(part, {name: noted[name] for name in _OF_BEGIN})

    def run_folder(self, part: str, name: str) -> Path:
        """Return the folder of a run that stays, and is taken again, and note when it was begun.

        Args:
            part: whose figures come from it.
            name: of the folder.
        """
        folder, note = self.folder / name, self.folder / f"{name}.{_BEGUN}"
        if not folder.exists():
            write_text(note, json.dumps(self.begin) + "\n")
        elif note.exists():
            self.go_on(part, json.loads(note.read_bytes()))
        return folder

    def keep(
        self,
        part: str,
        value: object,
        *,
        allocators: Identities | None = None,
        rounds: int | None = None,
        is_done: bool = True,
    ) -> None:
        """Take over the results of a part, and write all to disk but in a smoke run.

        Args:
            part: its name; earlier results of that name are replaced.
            value: what is kept, as JSON knows it.
            allocators: what was compared; see `identities`.
            rounds: of this part; None: there are none.
            is_done: whether all rounds are made, so that its journal can go.
        """
        self.parts[part] = value
        if self.is_smoke:
            self.done.append(part)
            return
        stamp = {**self._stamp, "of": [part], "allocators": allocators or {}, "rounds": rounds}
        self.stamps = merge_stamps(self.stamps, {**stamp, **self.begun.get(part, {})})
        write_results(self.path, self.benchmark.name, self.parts, self.stamps)
        if is_done:
            self._note_done(part)
            digits = "[0-9a-f]" * _DIGITS
            for journal in self.folder.glob(f"{glob.escape(part)}-{digits}.jsonl"):
                journal.unlink()

    def leave_out(self, what: str, why: object) -> None:
        """Say what cannot be measured on this machine."""
        print(f"{self.benchmark.name}: left out: {what}: {why}", file=sys.stderr)
        self.left_out.append(what)

    def end(self) -> None:
        """Forget what is done: the command has ended, and measures anew when it is given again."""
        if not self.is_smoke:
            self._unfinished.unlink(missing_ok=True)

    @functools.cached_property
    def _unfinished(self) -> Path:
        """The file of what was asked for, with the sources that are here."""
        asked = [sorted(vars(self.options).items()), self._stamp["sources"]]
        return self.folder / _UNFINISHED.format(digits_of(asked))

    @functools.cached_property
    def _done(self) -> Sequence[str]:
        """The parts that the same command had kept when it was stopped."""
        if self.is_smoke or not self._unfinished.exists():
            return ()
        return tuple(json.loads(self._unfinished.read_bytes()))

    def _note_done(self, part: str) -> None:
        self.done.append(part)
        write_text(self._unfinished, json.dumps([*self._done, *self.done]) + "\n")

    @functools.cached_property
    def _stamp(self) -> dict[str, Any]:
        """Of the whole call: the commit it began at counts, whatever happens meanwhile."""
        return make_stamp(sys.argv, self.benchmark.depends_on, of=[])

    @property
    def path(self) -> Path:
        """The results file."""
        return self.options.keep or results_path(self.benchmark.name)


def has_failed(part: object) -> bool:
    """Return whether a part is empty, or has a run without figures."""
    return not part or re.search(r'status\\*": \\*"(?!ok)', json.dumps(part)) is not None


def digits_of(known: object) -> str:
    """Return what tells things apart that journals and run folders are named by."""
    text = json.dumps(known, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _no_targets(_parts: Parts) -> Iterable[Target]:
    return ()


def _no_options(_parser: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True)
class Benchmark:
    """One file of this folder."""

    name: str
    """Of the file and of its results."""
    about: str | None
    """The file's docstring."""
    claim: str
    """What docs/claims.md says that it shows, Markdown."""
    depends_on: Sequence[str]
    """Files and folders of this repository whose change makes the figures old."""
    measure: Callable[[Call], None]
    """Measure every part that was chosen, and keep it."""
    lines: Callable[[Parts], Iterable[str]]
    """What is printed of the results."""
    targets: Callable[[Parts], Iterable[Target]] = _no_targets
    needs: Sequence[str] = ()
    """Parts without which the claim is shown in part at most."""
    outcome: Callable[[Parts, str], str] | None = None
    """What docs/claims.md says of the results, given the verdict; None: `outcome_of` targets."""
    options: Callable[[argparse.ArgumentParser], None] = _no_options
    """Adds options of its own."""
    rounds: int | None = None
    """Default of --rounds; None: it has no rounds."""
    draw: Callable[[Call], None] | None = None
    """Draws what --figures asks for; None: it has no figures."""
    blocks: Mapping[str, Callable[[Parts], Iterable[str]]] = field(default_factory=dict)
    """What pages show between the markers NAME:BLOCK."""

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Do what the command line says; return the exit status.

        SIGTERM counts as Ctrl-C, so that what was started ends as well.
        """
        options = self._parser().parse_args(arguments)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        with tempfile.TemporaryDirectory(prefix=f"{self.name}-") as scratch:
            call = Call(self, options, Path(scratch), {})
            try:
                return self._run(call)
            except TunerError as error:
                return self._ended(str(error), error.exit_code)
            except KeyboardInterrupt:
                return self._ended("stopped; the same command goes on", _STOPPED)
            except Exception:  # noqa: BLE001 - where a defect ends, lest it be a missed target
                traceback.print_exc()
                return _DEFECT
            finally:
                signal.signal(signal.SIGTERM, before)

    def _ended(self, why: str, status: int) -> int:
        print(f"{self.name}: {why}", file=sys.stderr)
        return status

    def _run(self, call: Call) -> int:
        if not call.is_smoke:
            found = read_results(call.path)
            call.parts, call.stamps = found["parts"], found["provenance"]
        if not call.options.print:
            warm_memory(0 if call.is_smoke else None)
            call._stamp if not call.is_smoke else None  # noqa: B018, SLF001 - before anything runs
            self.measure(call)
            call.end()
        if not call.parts:
            print(f"{self.name}: no results", file=sys.stderr)
            return int(call.is_smoke and not call.left_out)
        for line in (*stamp_lines(call.stamps), "", *self.lines(call.parts)):
            print(line)
        if self.draw and call.options.figures:
            self.draw(call)
        if call.is_smoke:
            bad = [name for name in call.done if has_failed(call.parts[name])]
            return self._ended(f"failed: {', '.join(bad)}", 1) if bad else 0
        targets = list(self.targets(call.parts))
        for target in sorted(targets, key=lambda target: (not target.is_missed, target.is_met)):
            print(target)
        if targets:
            print(count_targets(targets))
        if lacking := self.lacking(call.parts):
            print(lacking)
        return 1 if any(target.is_missed for target in targets) else 0

    def _parser(self) -> argparse.ArgumentParser:
        title, _, text = (self.about or "").partition("\n")
        parser = argparse.ArgumentParser(
            prog=f"{self.name}.py", description=title, epilog=text.strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
        parser.add_argument("--print", action="store_true", help="the last results; nothing is run")
        parser.add_argument("--smoke", action="store_true", help="a quick look that it still runs")
        parser.add_argument("--keep", type=Path, metavar="FILE", help="results in another file")
        if self.rounds is not None:
            parser.add_argument("--rounds", type=int, default=self.rounds, metavar="N",
                                help="default: %(default)s")  # fmt: skip
        self.options(parser)
        return parser

    def outcome_text(self, parts: Parts) -> str:
        """Return what docs/claims.md says of results."""
        if not parts:
            return "not kept yet"
        targets, lacking = list(self.targets(parts)), self.lacking(parts)
        if self.outcome:
            text = self.outcome(parts, verdict_on(targets, is_whole=not lacking))
        else:
            text = outcome_of(targets, is_whole=not lacking)
        return f"{text}; {lacking}" if lacking else text

    def lacking(self, parts: Parts) -> str:
        """Return in words which parts results lack that the claim needs; nothing for none."""
        names = [name for name in self.needs if name not in parts]
        return f"not measured: {', '.join(names)}" if names else ""


# Allocators that are compared

PEERS: Final = ("glibc", "tcmalloc", "jemalloc", "mimalloc")
ALLOCATORS: Final = (*PEERS, "exgen")
"""Those that serve any program; exgen-st refuses threads."""
SINGLE_THREADED: Final = subjects.SINGLE_THREADED | {"dlmalloc"}
"""Those, and peers, that serve one thread."""


def allocator_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which allocators are compared."""
    parser.add_argument("--allocators", metavar="NAME[:PATH],...", help="only these")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH@VERSION",
                        help="a further one; repeatable")  # fmt: skip


def chosen_subjects(call: Call, names: Sequence[str]) -> list[BenchSubject]:
    """Return what `allocator_options` ask for; without any, those of some names that are there."""
    wanted = call.options.allocators.split(",") if call.options.allocators else names
    found = []
    for name in wanted:
        try:
            found.append(named_subject(name))
        except MissingToolError as error:
            print(f"{call.benchmark.name}: left out: {error}", file=sys.stderr)
    return [*found, *map(peer_subject, call.options.peer)]


def peer_subject(text: str) -> BenchSubject:
    """Return a library by path as a subject with a version.

    Args:
        text: ``NAME=PATH@VERSION``.

    Raises:
        SpecError: not of this form.
        MissingToolError: there is no such file.
    """
    subject = library_subject(text)
    if subject.version is None:
        raise SpecError(f"--peer {text}: figures need a version; write {text}@VERSION")
    return subject


def identities(subjects: Iterable[BenchSubject]) -> dict[str, dict[str, Any]]:
    """Return version and digest of each subject."""
    known = (subject.identity() for subject in subjects)
    return {str(s["label"]): {"version": s["version"], "sha256": s["sha256"]} for s in known}


def installed(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return version and digest of allocators of this machine.

    Raises:
        MissingToolError: one is not there.
    """
    return identities(map(named_subject, names))


def located(names: Iterable[str]) -> Located:
    """Return the adapters of allocators and where this machine has them.

    Raises:
        MissingToolError: one is not there.
    """
    adapters = {name: get_allocator(name) for name in names}
    return {name: (adapter, adapter.locate()) for name, adapter in adapters.items()}


def checked(run: ProgramRun) -> ProgramRun:
    """Return a run of a program that did what it should.

    Raises:
        ProgramError: it failed, or the library in front of it was not loaded.
    """
    if run.exit_status == 0 and run.preload_mapped is not False:
        return run
    reason = run.ending if run.exit_status != 0 else "the library was not loaded"
    raise ProgramError(
        f"the program failed: {reason}: {last_line(run.stderr_tail) or 'no message'}"
    )


def malloc_tuner(*words: object) -> None:
    """Run a command of malloc-tuner for what it leaves; say which it is.

    Raises:
        CalledProcessError: it failed.
    """
    print("$ malloc-tuner", *words, file=sys.stderr)
    command = [sys.executable, "-m", "tuner.cli.main", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def children_s() -> float:
    """Return the CPU seconds of all children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Tables


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table with columns of even width."""
    cells = [titles, *rows]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(titles))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for row in (titles, rule, *cells[1:]):
        (first, *rest) = (
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"| {' | '.join([first, *rest])} |"


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share or an error as people write it; a dash for None."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def relative(value: float | None, digits: int = 1) -> str:
    """Return a ratio as the change it is; a dash for None."""
    return "-" if value is None else f"{100 * (value - 1):+.{digits}f} %"
