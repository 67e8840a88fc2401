"""Which configurations run on the real program, and under which names."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.answers import write_record
from tests.doubles.runs import MIB, synthetic_run, trial
from tuner.errors import ComparisonError, SelectionError
from tuner.front.bounds import baseline_trial
from tuner.front.dominance import front_points
from tuner.front.picks import select_balanced
from tuner.records import Configuration
from tuner.runs import Run
from tuner.store.subject import DEFAULT, DOMINATED, FRONT, Subject
from tuner.validate.subjects import check_subjects, choose_subjects, spread
from tuner.validate.summary import count_claims


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(n_trials=120)


def by_role(subjects: tuple[Subject, ...], role: str) -> list[Subject]:
    return [subject for subject in subjects if role in subject.roles]


def test_baseline_comes_first_and_every_default_runs(run: Run):
    subjects = choose_subjects(run, ["balanced"], 4, 3)
    assert subjects[0].label == "glibc-default"
    defaults = [subject.configuration.allocator for subject in by_role(subjects, DEFAULT)]
    assert defaults == ["glibc", "tcmalloc", "jemalloc", "mimalloc"]


def test_labels_and_configurations_are_distinct(run: Run):
    subjects = choose_subjects(run, ["picks", "front", "5"], 6, 4)
    assert len({subject.label for subject in subjects}) == len(subjects)
    assert len({subject.configuration for subject in subjects}) == len(subjects)


def test_pick_keeps_its_name(run: Run):
    (balanced,) = by_role(choose_subjects(run, ["balanced"], 4, 0), "balanced")
    expected = select_balanced(
        run.trials, run.campaign.objectives, baseline_trial(run.trials, "glibc")
    )
    assert balanced.trial == expected.number
    assert balanced.is_pick


@pytest.mark.parametrize("form", ["{}", "trial-{}"])
def test_trial_is_named_by_its_number(run: Run, form: str):
    wanted = next(t for t in run.trials if t.is_feasible and not t.configuration.is_default)
    subjects = choose_subjects(run, [form.format(wanted.number)], 4, 0)
    assert subjects[-1].configuration == wanted.configuration
    assert subjects[-1].label == f"trial-{wanted.number}"


@pytest.mark.parametrize(
    ("trial", "expected"), [(1, ()), (None, (("cost", 1.5), ("mean_heap", 0.875)))]
)
@pytest.mark.parametrize("word", ["recommended", "picks"])
def test_what_optimize_deploys_is_a_pick_with_claims_of_its_trial_or_of_its_runs(
    run: Run, tmp_path: Path, word: str, trial: int | None, expected: tuple[tuple[str, float], ...]
):
    less = Configuration.of("glibc", {"x": 1})
    deployed = Subject("recommended", less, trial, ("recommended",), expected)
    changes = {"mean_memory": {"change": -0.125}, "cpu_time": {"change": 0.5}}

    write_record(tmp_path, decision="deploy", configuration=less.key, trial=trial, changes=changes)

    subjects = choose_subjects(replace(run, folder=tmp_path), [word], 4, 0)

    assert by_role(subjects, "recommended") == [deployed]
    assert count_claims(run, [subjects[0], deployed]) == 2


def test_front_is_spread_and_bounded(run: Run):
    front = {p.trial.number for p in front_points(run.trials, run.campaign.objectives)}
    found = by_role(choose_subjects(run, ["front"], 3, 0), FRONT)
    assert len(found) == min(3, len(front))
    assert {subject.trial for subject in found} <= front


def test_dominated_points_are_feasible_and_off_the_front(run: Run):
    front = {p.trial.number for p in front_points(run.trials, run.campaign.objectives)}
    found = by_role(choose_subjects(run, ["balanced"], 4, 40), DOMINATED)
    assert len(found) == 40
    for subject in found:
        assert subject.trial is not None
        assert subject.trial not in front
        assert run.trial(subject.trial).is_feasible
        assert not subject.is_pick


@pytest.mark.parametrize(
    ("figures", "n", "expected"),
    [
        pytest.param([(10 + n, 100 + n) for n in range(12)], 3, [1, 6, 11], id="good to bad"),
        pytest.param([(1, 1), (10, 20), (11, 10), (12, 10)], 2, [2, 3], id="by both objectives"),
    ],
)
def test_dominated_points_reach_from_good_to_bad(
    figures: list[tuple[float, float]], n: int, expected: list[int]
):
    trials = [
        trial(n, Configuration.of("glibc", {"mxfast": n} if n else {}), heap * MIB, cost)
        for n, (heap, cost) in enumerate(figures)
    ]
    run = Run(synthetic_run(n_trials=8).folder, synthetic_run(n_trials=8).campaign, tuple(trials))

    found = by_role(choose_subjects(run, ["best"], 4, n), DOMINATED)

    assert [subject.trial for subject in found] == expected


def test_what_ties_with_the_front_is_not_dominated():
    settings = [{}, {"mxfast": 1}, {"mxfast": 2}, {"mxfast": 3}]
    figures = [(9, 9), (1, 1), (1, 1), (2, 2)]
    trials = tuple(
        trial(n, Configuration.of("glibc", changed), heap * MIB, cost)
        for n, (changed, (heap, cost)) in enumerate(zip(settings, figures, strict=True))
    )
    run = replace(synthetic_run(n_trials=8), trials=trials)

    found = by_role(choose_subjects(run, ["best"], 4, 4), DOMINATED)

    assert [subject.trial for subject in found] == [3]


def test_choice_is_deterministic(run: Run):
    again = synthetic_run(n_trials=120)
    assert choose_subjects(run, ["picks"], 4, 3) == choose_subjects(again, ["picks"], 4, 3)


def test_default_that_was_never_tried_still_runs():
    run = synthetic_run(n_trials=40)
    trials = tuple(t for t in run.trials if t.configuration != Configuration("tcmalloc"))
    subjects = choose_subjects(Run(run.folder, run.campaign, trials), [], 1, 0)
    (found,) = (s for s in subjects if s.label == "tcmalloc-default")
    assert found.trial is None


def test_unknown_names_and_numbers_are_refused(run: Run):
    with pytest.raises(SelectionError, match="has no pick 'kneee'"):
        choose_subjects(run, ["kneee"], 4, 3)
    with pytest.raises(SelectionError, match="has no trial 9999"):
        choose_subjects(run, ["9999"], 4, 3)
    with pytest.raises(SelectionError, match="has no trial of 5000 digits; it has 120, from 0 on"):
        choose_subjects(run, ["9" * 5000], 4, 3)


@pytest.mark.parametrize(
    ("violation", "reason"),
    [
        (0.2, "no trial succeeded and holds every constraint"),
        (0.0, "every point asked for is that default"),
    ],
)
def test_a_baseline_alone_is_not_measured(violation: float, reason: str):
    run = synthetic_run(allocators=["glibc"], n_trials=3, failures=False)
    default = next(trial for trial in run.trials if trial.configuration.is_default)
    run = replace(run, trials=(replace(default, violation=violation),), rechecks=())
    subjects = choose_subjects(run, ["picks"], 4, 3)
    with pytest.raises(ComparisonError, match=f"glibc's default: {reason}; name others with"):
        check_subjects(run, subjects)


def test_two_subjects_can_be_compared(run: Run):
    check_subjects(run, choose_subjects(run, ["balanced"], 4, 0))


def test_record_of_a_subject_gives_it_back(run: Run):
    for subject in choose_subjects(run, ["picks"], 4, 3):
        assert Subject.from_record(subject.as_record()) == subject


@pytest.mark.parametrize("n", range(9))
def test_spread_has_no_repeats_and_keeps_order(n: int):
    found = spread(list(range(7)), n)
    assert len(found) == min(n, 7)
    assert found == sorted(set(found))
