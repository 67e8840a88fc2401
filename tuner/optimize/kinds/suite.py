"""Several commands tuned on together: one run is a run of each, one after the other.

A value is the geometric mean over the commands, so a large one counts no more than a small one and
the change of the mean is the mean of the changes.  A setting that fails on one command fails.

Source: P. J. Fleming, J. J. Wallace, How not to lie with statistics: the correct way to summarize
benchmark results, Communications of the ACM 29(3), 1986.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import geometric_mean

from tuner.compare.plan import Step
from tuner.errors import ProgramError
from tuner.optimize.kinds.program import Program
from tuner.optimize.tuned import ProgramRecording, Reference, Runs, Sample
from tuner.recording.spool import remove_left
from tuner.records import Configuration, Outcome

BETWEEN = ";"
"""Word between the commands of a suite, where they are shown as one."""


class ProgramSuite:
    """Several programs as one; see `tuner.optimize.tuned.Tuned`."""

    def __init__(self, programs: Sequence[Program]) -> None:
        """Take the programs, at least one."""
        self._programs = tuple(programs)

    @property
    def command(self) -> tuple[str, ...]:
        """All commands, a semicolon between two."""
        words = [word for one in self._programs for word in (*one.command, BETWEEN)]
        return tuple(words[:-1])

    def known(self, reference: Reference) -> tuple[Configuration, ...]:
        """Return those of a program."""
        return self._programs[0].known(reference)

    def examine(self) -> Reference:
        """Examine each.

        Raises:
            ProgramError: one fails, or they bring different allocators of their own.
            ProgramTimeoutError: one does not end in time.
        """
        parts = tuple(one.examine() for one in self._programs)
        brought = {part.brings for part in parts}
        if len(brought) > 1:
            names = ", ".join(sorted(name or "none" for name in brought))
            raise ProgramError(
                f"the commands bring different allocators ({names}); tune them one by one"
            )
        means = f"Figures are geometric means over the {len(parts)} commands."
        return Reference(
            command=self.command,
            values=_mean([part.values for part in parts]),
            exit_status=0,
            output_sha256=None,
            brings=parts[0].brings,
            is_preloaded=all(part.is_preloaded for part in parts),
            wall_s=sum(part.wall_s for part in parts),
            timeout_s=sum(part.timeout_s for part in parts),
            notes=tuple(dict.fromkeys((means, *(note for part in parts for note in part.notes)))),
            steered=parts[0].steered,
            beside=parts[0].beside,
            n_threads=_most_threads(parts),
            parts=parts,
        )

    def record(self, trace: Path, reference: Reference) -> ProgramRecording:
        """Record each; further traces stand beside the first, see `further_traces`.

        Raises:
            ProgramError: nothing of one could be recorded.
            OutputError: a trace cannot be written.
        """
        found = []
        # The first trace says that all are there, so its program is recorded last.
        for number in reversed(range(len(self._programs))):
            path = further_trace(trace, number + 1) if number else trace
            remove_left(path)
            found.append(self._programs[number].record(path, reference.parts[number]))
        words, notes = zip(*reversed(found), strict=True)
        return ProgramRecording("\n           ".join(words), tuple(dict.fromkeys(chain(*notes))))

    def on_core(self, core: int) -> ProgramSuite:
        """Return the same with every run bound to a core."""
        return ProgramSuite([one.on_core(core) for one in self._programs])

    def as_deployed(self, candidates: Mapping[str, Configuration]) -> ProgramSuite:
        """Return the same, see `Program.as_deployed`."""
        return ProgramSuite([one.as_deployed(candidates) for one in self._programs])

    def stop(self) -> None:
        """End the runs that are under way, on any core, and every later one."""
        for one in self._programs:
            one.stop()

    def refusal(self, configuration: Configuration) -> str | None:
        """Return why an allocator does not take a setting; None when it does."""
        return self._programs[0].refusal(configuration)

    def runner(self, candidates: Mapping[str, Configuration], reference: Reference) -> Runs:
        """Return what runs every command once; see `Tuned`."""
        runs = [
            one.runner(candidates, part)
            for one, part in zip(self._programs, reference.parts, strict=True)
        ]

        def measure(step: Step[None]) -> Outcome[Sample]:
            found: list[Sample] = []
            for one, run in zip(self._programs, runs, strict=True):
                outcome = run(step)
                if outcome.good is None:
                    reason = f"{shlex.join(one.command)}: {outcome.reason}"
                    return Outcome.did_not_succeed(outcome.status, reason)
                found.append(outcome.good)
            return Outcome.succeeded(_mean(found))

        return measure


def further_traces(trace: Path) -> list[Path]:
    """Return the traces of a suite beside its first one, in order."""
    found = trace.parent.glob(f"{trace.stem}-*{trace.suffix}")
    return sorted(found, key=lambda path: int(path.stem.rpartition("-")[2]))


def _most_threads(parts: Sequence[Reference]) -> int | None:
    known = [part.n_threads for part in parts if part.n_threads is not None]
    return max(known) if len(known) == len(parts) else None


def further_trace(trace: Path, number: int) -> Path:
    """Return the name of a further trace, from 2 on; see `further_traces`."""
    return trace.with_name(f"{trace.stem}-{number}{trace.suffix}")


def _mean(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: geometric_mean([one[name] for one in samples]) for name in samples[0]}
