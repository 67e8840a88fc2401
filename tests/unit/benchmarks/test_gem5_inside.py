"""What is said of counts inside simulated machines."""

import json

from benchmarks.gem5_inside import latest_lines, page_lines
from tuner.metrics import INSIDE
from tuner.records import Configuration, Outcome
from tuner.store.subject import DEFAULT, Subject
from tuner.validate.gem5_summary import Gem5Summary, SimulationSummary, subject_rows

_COUNTED = dict.fromkeys(INSIDE, 100.0)


def summaries(**itlb_mpki: float) -> list[Gem5Summary]:
    """Return those of one program on two machines, and over both; all other counts are equal."""
    samples = tuple(
        (0, label, Outcome.succeeded({**_COUNTED, "itlb_mpki": value}))
        for label, value in itlb_mpki.items()
    )
    subjects = [Subject(label, Configuration(label), None, (DEFAULT,)) for label in itlb_mpki]
    both = [SimulationSummary(f"lists on {name}", samples, None) for name in ("desktop", "server")]
    return [
        Gem5Summary(title, tuple(of), 1, subject_rows(subjects, of, INSIDE.values()), ())
        for title, of in (("desktop", both[:1]), ("server", both[1:]), ("over all", both))
    ]


def test_a_ratio_that_does_not_exist_is_not_that_of_the_baseline():
    """Where nothing misses there is no ratio, though the baseline misses."""
    found = summaries(glibc=0.5, exgen=0.25, mimalloc=0.0)

    *_, head, _, glibc, exgen, mimalloc = page_lines(found)

    place = [cell.strip() for cell in head.split("|")].index(INSIDE["itlb_mpki"].label)
    shown = [line.split("|")[place].strip() for line in (glibc, exgen, mimalloc)]
    assert shown == ["1.000", "0.500", "-"]


def test_of_a_journal_the_last_runs_and_the_last_session_are_kept():
    run = '{"kind": "run", "task": "lists on desktop", "label": "%s", "identity": "%s"}'
    runs = [run % both for both in (("exgen", "old"), ("glibc", "one"), ("exgen", "new"))]
    sessions = [json.dumps({"kind": "session", "shown": [n]}) for n in (1, 2)]

    found = latest_lines("\n".join(['{"kind": "header"}', sessions[0], *runs, sessions[1]]))

    assert sorted(found) == sorted(['{"kind": "header"}', sessions[1], *runs[1:]])
    assert found[0] == '{"kind": "header"}'
