"""Given settings of a service against the service as it is, in at most so many rounds.

What `validate` does of a service: the settings are named, nothing is searched.  Rounds, evidence
and words are those of a confirmation.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.allocators import Installation
from tuner.compare.plan import Course
from tuner.errors import SpecError
from tuner.limits import SERVICE_ROUNDS
from tuner.optimize.answering.answer import Answer, minutes_words, write_answer
from tuner.optimize.conclusion import Conclusion
from tuner.optimize.confirming.confirmation import Confirmed
from tuner.optimize.confirming.race import Race, choose, standings
from tuner.optimize.kinds.examination import examine
from tuner.optimize.kinds.known import COPIED
from tuner.optimize.kinds.making import Files
from tuner.optimize.kinds.service import Service
from tuner.optimize.proof.evidence import fewest_rounds
from tuner.optimize.request import Request, differences
from tuner.optimize.tuned import AS_IS, Reference, Sample, Tuned, label_of
from tuner.optimize.used_time import UsedTime
from tuner.optimize.view import View
from tuner.optimize.work import Watch, Work, run_seconds
from tuner.output import folder_if_used, write_text
from tuner.page import series
from tuner.records import Configuration
from tuner.registry import ALLOCATORS
from tuner.runs import REQUEST_FILE

COMPARISON_FILE = "comparison.jsonl"
"""Journal of the runs, in a run folder; settings that are added have `comparison-2.jsonl`."""


@dataclass(frozen=True)
class Compared:
    """What the rounds showed."""

    run: Path
    """The folder."""
    answer: Answer
    confirmed: Confirmed
    n_rounds: int
    """Of the subject that ran most."""
    refused: tuple[str, ...] = ()
    """Settings that did not run, with why."""


def compare_settings(
    run: Path,
    request: Request,
    tuned: Tuned,
    candidates: Mapping[str, Configuration],
    *,
    installations: Iterable[Installation] = (),
    rounds: int = SERVICE_ROUNDS,
    view: View | None = None,
) -> Compared:
    """Run what is missing of a comparison.

    Args:
        run: the folder; made when missing.
        request: what is asked for.
        tuned: what runs.
        candidates: label -> setting; those that are refused have to be left out before.
        installations: allocators that take part.
        rounds: at most so many; fewer when the answer is known.
        view: shows progress; None for none.

    Returns:
        The answer, which is in the folder too; its time has that of earlier calls.

    Raises:
        SpecError: the folder holds another comparison.
        MissingToolError: it holds one of another version of an allocator.
        ProgramError: it fails as it is.
        InterruptedCampaign: Ctrl-C; everything measured is kept.
        StoreError: its journal is damaged, or another process writes it.
        OutputError: the folder cannot be written.
    """
    watch = Watch(request.seconds)
    with folder_if_used(run), UsedTime(run, watch) as used:
        work = Work(
            run, request, tuned, watch, view or View(),
            on_kept=used.keep, before_s=used.before_s,
        )  # fmt: skip
        found = _compared(work, _examined(work, installations), candidates, rounds)
        write_answer(run, found.answer)
        return found


def _compared(
    work: Work, reference: Reference, candidates: Mapping[str, Configuration], rounds: int
) -> Compared:
    work.request = replace(work.request, rules=work.request.rules.of(reference.values))
    rules = work.request.rules
    candidates, same = _apart(candidates, reference)
    round_s = (1 + len(candidates)) * run_seconds(reference)
    parts = list(_parts(work, candidates))
    n_claims = len({label for _, held in parts for label in held})
    settings = f"{len(candidates)} setting{'s' * (len(candidates) != 1)}"
    at_most = f"at most {rounds} round{'s' * (rounds != 1)}"
    work.view.tell(f"comparing  {settings} in {at_most} of about {minutes_words(round_s)}")
    n_fewest = fewest_rounds(rules.error_of_gain(n_claims))
    if rounds < n_fewest:
        words = f"fewer than {n_fewest} --rounds prove no gain in what varies from run to run"
        work.view.tell(f"note       {words}")
    n_runs = sum(
        (1 + sum(label in candidates for label in held)) * max(0, rounds - work.n_rounds(file))
        for file, held in parts
    )
    work.view.begin("comparison", n_runs)
    course: Course[None, Sample] = Course(AS_IS)
    for file, held in parts:
        race = Race(
            [label for label in held if label in candidates],
            rules, lambda _: True, work.request.seed,
            most_rounds=rounds, n_claims=n_claims, view=work.view,
        )  # fmt: skip
        _append(course, work.compare(file, race, held, reference))
    found = standings(course, list(candidates), rules, n_claims)
    sizes = {label: len(one.settings) for label, one in candidates.items()}
    best = choose(found, sizes, rules)
    confirmed = Confirmed(candidates, found, course, best, None, n_claims=n_claims)
    conclusion = Conclusion(work, reference, most_rounds=rounds)
    n_rounds = max(one.n_rounds for one in found.values())
    return Compared(work.run, conclusion.conclude(None, confirmed), confirmed, n_rounds, same)


def _apart(
    candidates: Mapping[str, Configuration], reference: Reference
) -> tuple[Mapping[str, Configuration], tuple[str, ...]]:
    """Return what differs from the service as it is, and what does not, with why.

    Raises:
        SpecError: nothing does.
    """
    same = [c for c, one in candidates.items() if reference.is_of(one)]
    left = {label: one for label, one in candidates.items() if label not in same}
    if not left:
        raise SpecError(
            f"nothing to compare with {reference.command[0]} as it is: {same[0]} is that"
        )
    return left, tuple(f"{label}: the service as it is" for label in same)


def _parts(
    work: Work, candidates: Mapping[str, Configuration]
) -> Iterator[tuple[str, Mapping[str, Configuration]]]:
    """Yield journals and the settings whose rounds they have: those that came later have their own.

    All of these share the error, also those that are not asked for now.  Each round has a run of
    the service as it is, so what each setting is compared with is its own.
    """
    left = dict(candidates)
    for number in itertools.count(1):
        file = COMPARISON_FILE if number == 1 else f"comparison-{number}.jsonl"
        held = work.kept(file) or left
        if not held:
            return
        yield file, held
        left = {label: one for label, one in left.items() if label not in held}


def _append(course: Course[None, Sample], more: Course[None, Sample]) -> None:
    """Add rounds after those of a course."""
    first = course.n_rounds
    for (number, task, subject), sample in more.samples.items():
        course.put((first + number, task, subject), sample)
    course.out |= more.out


def _examined(work: Work, installations: Iterable[Installation]) -> Reference:
    """Return how it runs as it is, from the folder where that is known."""
    asked = _text_of(work.request)
    path = work.run / REQUEST_FILE
    is_begun = path.exists()
    begun = Request.load(work.run) if is_begun else work.request
    if _text_of(begun) != asked:
        held = _held(begun, work.request)
        raise SpecError(f"{work.run}: holds {held}; choose another -o")
    found = examine(
        work.run, work.tuned, work.view, is_begun=is_begun, installations=installations,
        service=work.request.service,
    )  # fmt: skip
    if not is_begun:
        write_text(path, asked)
    work.environment = found.environment
    return found


def _text_of(request: Request) -> str:
    return json.dumps(request.as_record(), indent=1, sort_keys=True) + "\n"


def _held(begun: Request, asked: Request) -> str:
    """Say what is in a folder that was begun otherwise."""
    if not begun.is_comparison:
        return "an optimisation"
    others = differences(begun, asked)
    return f"another comparison{f', with other {series(others)}' if others else ''}"


@dataclass(frozen=True)
class Candidates:
    """Settings that run on a service."""

    runnable: Mapping[str, Configuration]
    """By label."""
    refused: tuple[str, ...]
    """Others, with why."""


def service_candidates(
    service: Service, files: Files, points: Sequence[Configuration], settings: Sequence[str]
) -> Candidates:
    """Return what runs beside the service as it is: defaults, well-known settings, given ones.

    Args:
        service: says what is refused.
        files: allocators that take part, by name.
        points: of a campaign.
        settings: texts such as ``jemalloc narenas=2``.

    Raises:
        SpecError: a setting is not understood, of an allocator that takes no part, or sets
            something twice.
    """
    given = [configuration_of(text, files) for text in settings]
    defaults = [Configuration(name) for name in files]
    wanted = dict.fromkeys((*defaults, *service.accepted(COPIED), *points, *given))
    runnable, refused = {}, []
    for configuration in wanted:
        why = service.refusal(configuration)
        if why is None:
            runnable[label_of(configuration)] = configuration
        else:
            refused.append(f"{label_of(configuration)}: {why}")
    return Candidates(runnable, tuple(refused))


def configuration_of(text: str, files: Files) -> Configuration:
    """Return the setting that a label says: ``mimalloc``, ``jemalloc narenas=2``.

    Raises:
        SpecError: it is not understood, of an allocator that takes no part, or sets something
            twice.
    """
    name, *words = text.split() or [""]
    pairs = [word.partition("=") for word in words]
    if name in ALLOCATORS and name not in files:
        raise SpecError(f"--setting {text!r}: {name} takes no part; add it to --allocators")
    if name not in files or any(not setting or not value for setting, _, value in pairs):
        raise SpecError(
            f"--setting {text!r}: write it like 'jemalloc narenas=2 dirty_decay_ms=500', with one "
            f"of {', '.join(files)}"
        )
    allocator, installation = files[name]
    settings = {setting: value for setting, _, value in pairs}
    if len(settings) < len(pairs):
        raise SpecError(f"--setting {text!r}: sets something twice")
    return allocator.configuration(settings, installation.version)
