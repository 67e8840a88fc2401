"""What is said of counts inside simulated machines."""

import json
from argparse import Namespace
from pathlib import Path
from typing import cast

import pytest

from benchmarks import gem5_inside
from benchmarks.gem5_inside import BENCHMARK, page_lines, shown_lines, words_of
from benchmarks.harness import Call
from benchmarks.results import ROOT
from tuner.config.gem5_inside import load_inside
from tuner.errors import SpecError
from tuner.metrics import INSIDE
from tuner.records import Configuration, Outcome
from tuner.resources import gem5_dir
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


def test_of_a_journal_the_last_session_is_kept_and_the_runs_that_it_shows():
    """Runs of another session may be of another build: no figure is of them."""
    runs = [json.dumps({"kind": "run", "identity": one}) for one in ("old", "one", "new")]
    sessions = [
        json.dumps({"kind": "session", "shown": [["lists", "desktop", "exgen", *both]]})
        for both in (("old", "one"), ("new", "one"))
    ]

    found = shown_lines("\n".join(['{"kind": "header"}', sessions[0], *runs, sessions[1]]))

    assert sorted(found) == sorted(['{"kind": "header"}', sessions[1], *runs[1:]])
    assert found[0] == '{"kind": "header"}'


def test_figures_under_another_libc_are_simulated_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is in every guest, and an update changes what all of them count."""
    begun: list[str] = []
    facts: list[dict[str, object]] = []

    def run_inside(journal: Path, *_: object, **words: object) -> None:
        begun.append(journal.read_text())
        facts.append(cast("dict[str, object]", words["facts"]))
        session = {"kind": "session", "shown": [], "facts": facts[-1]}
        journal.write_text("".join(f"{json.dumps(one)}\n" for one in ({"kind": "header"}, session)))

    kept: dict[str, list[str]] = {}
    monkeypatch.setattr(gem5_inside, "run_inside", run_inside)
    for name in ("lacks_gem5", "find_gem5", "prepare_tasks", "Gem5Inside"):
        monkeypatch.setattr(gem5_inside, name, lambda *_: None)
    monkeypatch.setattr(gem5_inside, "chosen_subjects", lambda *_: [])
    monkeypatch.setattr(Call, "keep", lambda _, part, lines, **__: kept.update({part: lines}))
    options = Namespace(parts=[], smoke=True, gem5="gem5", workers=1, keep=None)

    def simulate(name: str, libc: str) -> None:
        monkeypatch.setattr(gem5_inside, "digest", lambda _: libc)
        (tmp_path / name).mkdir()
        call = Call(BENCHMARK, options, tmp_path / name, dict(kept))
        gem5_inside.simulate(call, load_inside(gem5_dir() / "inside.toml"), [], [], ["cycles"])

    for name, libc in (("first", "old"), ("again", "old"), ("updated", "new")):
        simulate(name, libc)

    assert [bool(text) for text in begun] == [False, True, False]
    assert facts[-1] == {"objectives": ["cycles"], "libc": "new"}


def test_figures_of_other_programs_do_not_take_the_place_of_the_default(tmp_path: Path):
    def words(**options: object) -> list[str]:
        given = Namespace(**{"programs": "pair,server", "smoke": False, "keep": None, **options})
        return words_of(Call(BENCHMARK, given, tmp_path, {}), ["pair", "lists"])

    with pytest.raises(SpecError, match=r"^--programs pair,server: results are of pair,lists; "):
        words()
    assert words(programs=None) == ["pair", "lists"]
    assert words(programs="lists,pair") == ["lists", "pair"]
    assert words(keep=tmp_path / "some.json.zst") == ["pair", "server"]


def test_a_trace_that_is_replayed_counts_among_what_figures_depend_on():
    inside = load_inside(gem5_dir() / "inside.toml")

    traces = [str((inside.folder / p.trace).resolve()) for p in inside.programs if p.trace]

    assert traces
    assert {str(ROOT / place) for place in BENCHMARK.depends_on}.issuperset(traces)
