"""The sentence, its evidence and the file."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.answers import write_record
from tuner.cli import optimize
from tuner.errors import StoreError
from tuner.optimize.answering.answer import Answer, Decision, rows_of, write_answer
from tuner.optimize.answering.recommendation import recommended
from tuner.optimize.answering.table import AnswerRow, rows_table, value_words
from tuner.optimize.answering.turned_down import TurnedDown
from tuner.optimize.proof.judgement import Gain, Rules, Standing, State, judge
from tuner.optimize.quantities import CPU, MEAN, PEAK, SERVICE_NAMES
from tuner.optimize.tuned import AS_IS
from tuner.records import Configuration
from tuner.runs import ANSWER_FILE
from tuner.units import signed_percent

SETTING = Configuration.of("jemalloc", {"narenas": 2})
GAINS = {
    MEAN: Gain(-math.log(0.9), -math.log(0.9), -math.log(0.9), is_exact=True),
    PEAK: Gain(0.0, 0.0, 0.0, is_exact=True),
    CPU: Gain(-math.log(0.96), -math.log(0.99), -math.log(0.93)),
}
STANDING = Standing("jemalloc narenas=2", 12, State.CONFIRMED, GAINS, (MEAN,), (), ())
DEPLOY = Answer(
    decision=Decision.DEPLOY,
    configuration=SETTING,
    label="jemalloc narenas=2",
    as_is="glibc",
    baseline={MEAN: 10.0 * 2**20, PEAK: 12.0 * 2**20, CPU: 0.4e9},
    rules=Rules(),
    standing=STANDING,
    rows=(
        AnswerRow("jemalloc narenas=2", GAINS, is_candidate=True),
        AnswerRow("exgen", {}, note="killed by SIGSEGV"),
    ),
    n_runs=43,
    seconds=100.0,
)
KEEP = replace(DEPLOY, decision=Decision.KEEP, standing=replace(STANDING, state=State.HOPELESS))
OPEN = replace(
    DEPLOY,
    decision=Decision.UNDECIDED,
    missing="CPU time is open",
    more_seconds=250.0,
    noise={CPU: 0.03, MEAN: 0.001},
)


def test_the_sentence_comes_first_then_what_it_gains():
    lines = list(DEPLOY.lines())

    assert lines[0] == "Deploy jemalloc with narenas=2."
    assert lines[1].split() == ["mean", "memory", "-10.0", "%"]
    assert lines[3].split() == ["CPU", "time", "-4.0", "%", "at", "least", "-1.0", "%"]


def test_a_mean_far_below_a_small_peak_is_explained():
    few = replace(DEPLOY, baseline={MEAN: 0.4 * 2**20, PEAK: 3.0 * 2**20, CPU: 1e6})

    assert [list(one.lines())[-1].startswith("peak memory has") for one in (few, DEPLOY)] == [
        True,
        False,
    ]


def test_keeping_says_what_came_nearest():
    lines = list(KEEP.lines())

    assert lines[0] == "Keep glibc as it is."
    assert "save 0.5 %" in lines[1]
    assert lines[3] == "  Nearest: jemalloc narenas=2, mean memory -10.0 %."
    assert lines[4] == "  43 runs in 1 min 40 s."


@pytest.mark.parametrize(
    "state",
    [{"state": State.WORSE, "worse": (PEAK,)}, {"state": State.HOPELESS, "likely_worse": (PEAK,)}],
)
def test_what_is_nearest_but_worse_in_a_guard_says_so(state: dict[str, Any]):
    gains = {**GAINS, PEAK: Gain(-0.08, -0.1, -0.05, limit=0.005)}
    worse = replace(STANDING, better=(), gains=gains, **state)
    (row,) = rows_of("", [worse], {}, {}, (MEAN, CPU))
    assert row.note in {f"{likely}worse: peak memory (limit 0.5 %)" for likely in ("", "likely ")}

    answer = replace(KEEP, standing=worse)

    near = "Nearest: jemalloc narenas=2, mean memory -10.0 %, but peak memory +8.3 % (limit 0.5 %)."
    assert near in " ".join(" ".join(answer.lines()).split())
    assert answer.as_record()["changes"]["peak_memory"]["limit"] == 0.005


@pytest.mark.parametrize(
    ("state", "note"),
    [
        (State.HOPELESS, "likely gains too little"),
        (State.OUT_OF_REACH, "no gain large enough to prove so far"),
        (State.CONFIRMED, ""),
        (State.OPEN, ""),
    ],
)
def test_what_was_given_up_has_a_reason(state: State, note: str):
    (row,) = rows_of("", [replace(STANDING, state=state)], {}, {}, (MEAN, CPU))

    assert row.note == note


def test_what_loses_in_all_goals_is_not_said_to_gain():
    gains = {name: replace(gain, middle=-0.02) for name, gain in GAINS.items()}
    lost = replace(STANDING, state=State.HOPELESS, gains=gains)

    (row,) = rows_of("", [lost], {}, {}, (MEAN, CPU))

    assert row.note == "likely gains nothing"


@pytest.mark.parametrize(
    ("as_is", "middle", "n_more"), [("glibc", 0.0, 0), ("glibc", -0.2, 2), ("jemalloc", -0.2, 0)]
)
def test_a_single_setting_is_explained_where_it_does_not_all_that_the_answer_gains(
    as_is: str, middle: float, n_more: int
):
    gains = {CPU: Gain(middle, middle - 0.1, middle + 0.1)}
    one = replace(DEPLOY, as_is=as_is)

    lines = list(replace(one, effects=(("narenas=2", gains, False),)).lines())

    assert len(lines) == len(list(one.lines())) + n_more


def test_a_long_question_is_wrapped():
    missing = f"whether {', '.join(['p99 latency'] * 9)} are no worse"

    lines = list(replace(OPEN, missing=missing).lines())

    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("  ")
    record = replace(OPEN, missing=missing).as_record()
    assert record["text"][0] == record["sentence"], "whole, in a file"
    assert record["text"][1] == "  Nearest, after 12 rounds: jemalloc narenas=2:"


def test_why_one_left_has_a_line_of_its_own_where_the_row_is_full():
    wide = dict.fromkeys(GAINS, Gain(-0.08, -0.123, -0.051))
    row = AnswerRow("exgen", wide, is_candidate=True, note="worse: mean memory, peak memory")

    lines = list(replace(DEPLOY, rows=(row,)).lines())

    assert max(map(len, lines)) <= 100
    assert lines[-1] == "    worse: mean memory, peak memory"
    assert lines[-2].split()[:3] == ["exgen", "+8.3", "%"]


@pytest.mark.parametrize("allocator", ["glibc", "tcmalloc"])
def test_an_answer_fits_a_narrow_page(allocator: str):
    bounded = Gain(-0.03, -0.123, 0.051)
    gains = {MEAN: bounded, PEAK: bounded, CPU: bounded}
    label = "exgen merge_percent=0 purge_delay=0"
    rows = (AnswerRow(label, gains, is_candidate=True, note="no gain that its rounds could prove"),)
    told = replace(OPEN, as_is=allocator, rows=rows, reasons=("it is so " * 20,))

    lines = list(told.lines(80))

    assert max(map(len, lines)) <= 80
    assert label in lines


def test_what_never_ran_has_no_figures():
    unknown = Gain(0.0, -math.inf, math.inf)
    never = replace(
        STANDING, n_rounds=0, state=State.OPEN, gains=dict.fromkeys(GAINS, unknown), better=()
    )
    rows = rows_of(never.label, [never], {}, {}, (MEAN, CPU))

    text = "\n".join(replace(OPEN, standing=never, rows=rows).lines())

    assert "Most promising: jemalloc narenas=2." in text
    assert "±0.0 %" not in text


@pytest.mark.parametrize("gain", [Gain(-0.01, -0.02, 0.0), Gain(0.0003, -0.02, 0.02)])
def test_what_gains_nothing_is_not_near_and_time_left_is_said(gain: Gain):
    worse = replace(STANDING, gains=dict.fromkeys(GAINS, gain))

    lines = list(replace(KEEP, standing=worse, given_s=600.0).lines())

    assert not any("Nearest" in line for line in lines)
    assert "  43 runs in 1 min 40 s; no candidate was left to confirm." in lines


def test_no_line_breaks_between_a_quantity_and_its_change():
    change = "memory -1.0 % (-2.0 .. +3.0)"
    for n_letters in range(40, 96):
        found = replace(KEEP, reasons=(f"{'x' * n_letters} {change}, y",))

        assert change in "\n".join(found.lines())


def test_no_line_breaks_within_a_change_of_what_is_open():
    wide = {name: Gain(0.1, -0.234, 0.166) for name in GAINS}
    work = {"instructions": 0.1, "page faults": 0.114, "system calls": -0.444}
    for end in range(1, 40):
        counted = {"x" * end: 0.1, **work}
        found = replace(OPEN, standing=replace(STANDING, gains=wide), counted=counted)
        text = "\n".join(found.lines())

        assert "page faults +11.4 %" in text
        assert "CPU time -9.5 % (-15.3 .. +26.4)" in text
        assert "system calls -44.4 %" in text
        assert "\N{NO-BREAK SPACE}" not in text


def test_no_line_breaks_within_what_a_setting_does():
    for end in range(1, 40):
        effect = (f"narenas={'2' * end}", GAINS, False)
        text = "\n".join(replace(DEPLOY, effects=[effect]).lines(60))

        assert "mean memory -10.0 %" in text
        assert "CPU time -4.0 % (-7.0 .. -1.0)" in text


def test_an_open_question_says_what_would_settle_it():
    lines = list(replace(OPEN, given_s=600.0).lines())

    assert lines[0] == "Not decided in 1 min 40 s: CPU time is open."
    assert lines[1] == "  Nearest, after 12 rounds: jemalloc narenas=2:"
    wide = Gain(0.1, -0.234, 0.166)
    unsure = replace(STANDING, gains=dict.fromkeys(GAINS, wide))
    assert (
        max(map(len, replace(OPEN, standing=unsure, counted={"instructions": 0.1}).lines())) <= 100
    )
    assert "peak memory ±0.0 %" in lines[2]
    assert "CPU time -4.0 % (-7.0 .. -1.0)" in lines[2]
    assert (
        lines[3]
        == "  CPU time varies by 3.0 % from run to run here. About 5 min more may settle it."
    )


def test_a_few_rounds_say_how_long_it_takes_at_least():
    few = replace(OPEN, standing=replace(STANDING, n_rounds=5))

    (line,) = [line for line in few.lines() if "5 min" in line]

    assert line.endswith("It takes 5 min more at least.")


def test_of_several_settings_that_were_not_tried_one_by_one_it_is_said():
    said = "What each setting does was not tried; a longer --time shows whether fewer do."
    two = replace(DEPLOY, label="jemalloc narenas=2 tcache=false")
    tried = replace(two, effects=[("narenas=2", GAINS, False), ("tcache=false", GAINS, False)])

    assert [said in one.lines() for one in (two, DEPLOY, tried)] == [True, False, False]


def test_a_default_that_did_not_run_is_named_below_the_table():
    lines = list(replace(DEPLOY, not_run=("exgen", "mimalloc")).lines())

    assert lines[-1] == "the defaults of exgen and mimalloc did not run"


@pytest.mark.parametrize(("low", "is_said"), [(0.06, True), (0.005, False)])
def test_a_range_without_a_proof_is_explained(low: float, *, is_said: bool):
    gains = {**GAINS, MEAN: Gain(0.0, -0.1, 0.1), CPU: Gain(0.075, low, 0.09)}
    found = replace(OPEN, standing=replace(STANDING, better=(), gains=gains))

    assert any("A range is that of one change alone" in line for line in found.lines()) is is_said


def test_of_what_no_round_shows_few_runs_stand_in_the_table():
    gains = {name: Gain(0.0, -math.inf, math.inf) for name in (MEAN, PEAK)} | {CPU: GAINS[CPU]}
    one = replace(STANDING, gains=gains, unseen=frozenset({MEAN, PEAK}))
    few = {MEAN: Gain(0.09, -math.inf, math.inf)}

    (row,) = rows_of("", [one], {one.label: few}, {}, (MEAN, CPU))

    assert row.changes == {MEAN: few[MEAN], CPU: GAINS[CPU]}


def test_the_noise_that_is_named_is_of_what_is_open():
    unsure = replace(STANDING, unsure=(CPU,))
    found = replace(OPEN, standing=unsure, noise={CPU: 0.02, MEAN: 0.045})

    assert any("CPU time varies by 2.0 %" in line for line in found.lines())
    nothing = replace(found, standing=replace(unsure, better=()))
    assert any("mean memory varies by 4.5 %" in line.lower() for line in nothing.lines())


def test_the_table_fits_a_page_and_says_why_one_left():
    lines = list(DEPLOY.lines())

    assert max(map(len, lines)) <= 100
    assert "as it is (glibc)" in "\n".join(lines)
    assert lines[-1].endswith("killed by SIGSEGV")
    names = [SERVICE_NAMES[name] for name in ("mean", "peak", "floor", "cpu", "rate", "p99")]
    service = replace(DEPLOY, baseline=dict.fromkeys(names, 1e6), as_is="jemalloc")
    assert max(map(len, service.lines())) <= 100


def test_subjects_without_a_growth_are_named_with_the_reason():
    labels = ("glibc", "glibc arena_max=2", "mimalloc", "tcmalloc")
    rows = tuple(AnswerRow(label, GAINS, is_candidate=True) for label in labels)
    service = replace(DEPLOY, rows=rows, as_is="jemalloc")

    lines = list(replace(service, growth={"glibc": 2.0**21}).lines(80))
    known = list(replace(service, growth=dict.fromkeys((AS_IS, *labels), 0.0)).lines())

    assert lines[-3:] == [
        "    +2.0 MiB/min  glibc",
        "  Not known of as it is (jemalloc), glibc arena_max=2, mimalloc and 1 more:",
        "  under load for less than 10 s in most runs.",
    ]
    assert not any("Not known" in line for line in known)


@pytest.mark.parametrize("columns", [96, 80, 60, 40])
def test_the_table_of_a_service_is_as_narrow_as_the_page_with_every_figure(columns: int):
    names = list(SERVICE_NAMES.values())
    gains = {name: Gain(0.1 * (n + 1), -1.0, 1.0) for n, name in enumerate(names)}
    rows = (AnswerRow("glibc arena_max=2", gains, note="few rounds"), AnswerRow("exgen", {}))
    baseline = dict.fromkeys(names, 1e9)

    lines = list(rows_table("jemalloc", baseline, rows, columns))

    assert max(map(len, lines)) <= columns
    figures = " ".join(line.split("arena_max=2")[-1] for line in lines)
    assert all(signed_percent(gain.change) in figures for gain in gains.values())
    words = " ".join(lines).split()
    assert all(word in words for name in names for word in name.split())
    assert sum("few rounds" in line for line in lines) == 1
    many = replace(DEPLOY, rows=DEPLOY.rows * 6)
    assert list(many.lines())[-1] == "4 more ran"
    last = replace(many, rows=(*DEPLOY.rows[:1] * 9, AnswerRow("exgen", GAINS)))
    assert any(line.startswith("exgen ") for line in last.lines()), "every default is shown"


def test_the_winner_comes_first_and_what_failed_last_of_the_confirmation():
    failed = replace(STANDING, label="exgen", state=State.FAILED, reason="killed by SIGSEGV")
    worse = replace(STANDING, label="mimalloc", state=State.WORSE, worse=(PEAK,))

    rows = rows_of(
        STANDING.label,
        [failed, worse, STANDING],
        {"glibc mxfast=0": GAINS, "tcmalloc": GAINS, "mimalloc": GAINS},
        {"tcmalloc": "a note"},
        (MEAN, CPU),
    )

    assert [(row.label, row.note) for row in rows] == [
        (STANDING.label, ""),
        ("mimalloc", "worse: peak memory"),
        ("exgen", "killed by SIGSEGV"),
        ("tcmalloc", "a note"),
        ("glibc mxfast=0", ""),
    ]


def test_settings_that_look_alike_are_shown_whole():
    alike = [f"exgen class_steps=1 coarse_steps=1 commit_step={n} slab_blocks=5" for n in (4, 8)]
    rows = tuple(AnswerRow(label, GAINS, is_candidate=True) for label in alike)

    text = "\n".join(replace(DEPLOY, rows=rows).lines())

    assert all(label in text for label in alike)
    assert max(map(len, text.splitlines())) <= 100


def test_settings_that_ran_once_are_shown_only_where_nothing_came_nearer():
    once = AnswerRow("exgen merge_percent=6", GAINS)

    assert "merge_percent" not in "\n".join(replace(DEPLOY, rows=(*DEPLOY.rows, once)).lines())
    assert "merge_percent" in "\n".join(replace(KEEP, standing=None, rows=(once,)).lines())


def test_a_change_of_few_runs_is_a_hint():
    hint = "CPU time without a range, and memory beside it: few runs or rounds, no proof"
    few = {name: replace(gain, low=-math.inf, high=math.inf) for name, gain in GAINS.items()}
    rows = (*DEPLOY.rows, AnswerRow("exgen", few))

    assert hint not in "\n".join(DEPLOY.lines())
    assert hint in list(replace(DEPLOY, rows=rows).lines())
    assert "as a model of all runs" not in "\n".join(replace(DEPLOY, rows=rows).lines())
    single = replace(KEEP, standing=None, rows=rows[-1:])
    assert hint.replace(" without a range", "") in list(single.lines())


def test_what_a_model_smoothed_is_shown_as_that():
    few = {name: replace(gain, low=-math.inf, smoothed=0.01) for name, gain in GAINS.items()}
    rows = (*DEPLOY.rows, AnswerRow("exgen", few))

    text = list(replace(DEPLOY, rows=rows).lines())

    assert "what had few runs is shown as a model of all runs expects it" in text


def test_what_is_recommended_is_read_back(tmp_path: Path):
    assert recommended(tmp_path) is None
    write_answer(tmp_path, DEPLOY)
    found = recommended(tmp_path)
    assert found is not None
    assert (found.decision, found.configuration) == (Decision.DEPLOY, SETTING)
    assert found.n_rounds == 12
    assert found.changes["cpu_time"][0] == pytest.approx(-0.04)
    assert found.changes["cpu_time"][1] == pytest.approx((-0.07, -0.01))
    assert not found.has_more
    write_answer(tmp_path, replace(KEEP, rows=DEPLOY.rows * 6))
    found = recommended(tmp_path)
    assert found is not None
    assert found.decision is Decision.KEEP
    assert found.has_more


def test_a_damaged_answer_is_an_error_that_names_it(tmp_path: Path):
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / ANSWER_FILE).write_text('{"decision": "deploy"}')

    with pytest.raises(StoreError, match=r"answer\.json: damaged \(no '\w+'\); .* '.*my run'`"):
        recommended(folder)
    write_record(folder, version=2)
    with pytest.raises(StoreError, match=r"answer\.json: is not an answer of version 1; repeat"):
        recommended(folder)


def test_what_was_left_out_is_said():
    answer = replace(DEPLOY, left_out=("tcache=false", "dirty_decay_ms=0"))

    text = "\n".join(answer.lines())

    assert (
        "\nLeft out, since the program does as well without: tcache=false dirty_decay_ms=0.\n"
        in text
    )
    assert answer.as_record()["left_out"] == ["tcache=false", "dirty_decay_ms=0"]
    assert answer.as_record()["traded"] is None


@pytest.mark.parametrize(
    ("share", "better", "middle", "is_said"),
    [
        (0.036, (), 0.04, True),
        (0.008, (), 0.04, False),
        (0.036, (MEAN,), 0.04, False),
        (0.036, (), -0.04, False),
    ],
    ids=["open", "less than counts", "proven", "a loss"],
)
def test_what_memory_must_gain_at_least_is_said_where_that_is_open(
    share: float, better: tuple[str, ...], middle: float, *, is_said: bool
):
    gains = GAINS | {MEAN: Gain(middle, middle - 0.02, middle + 0.02)}
    unsure = replace(STANDING, state=State.OPEN, gains=gains, better=better)
    small = replace(OPEN, rules=Rules(floors=((MEAN, share),)), standing=unsure)

    words = "  A gain in mean memory counts from 64 KiB on, 3.6 % here."
    assert (words in small.lines()) is is_said


@pytest.mark.parametrize(("middle", "is_said"), [(-0.07, True), (0.02, False)])
def test_of_the_nearest_that_gains_nothing_so_far_it_is_said(middle: float, *, is_said: bool):
    gains = {name: Gain(0.0, -0.01, 0.01) for name in GAINS}
    gains[CPU] = Gain(middle, -0.2, 0.2)
    unsure = replace(STANDING, state=State.OPEN, gains=gains, better=())

    lines = list(replace(OPEN, standing=unsure).lines())

    words = "  It gains nothing so far; once that is settled, others are tried."
    assert (words in lines) is is_said


def test_what_two_memories_must_gain_at_least_alike_is_said_once():
    gains = GAINS | {name: Gain(0.02, -0.01, 0.04) for name in (MEAN, PEAK)}
    unsure = replace(STANDING, state=State.OPEN, gains=gains, better=())
    rules = Rules(goals=(MEAN, PEAK), floors=((MEAN, 0.036), (PEAK, 0.036)))

    lines = list(replace(OPEN, rules=rules, standing=unsure).lines())

    said = "  A gain in mean memory and peak memory counts from 64 KiB on, 3.6 % here."
    assert [line for line in lines if "counts from" in line] == [said]


@pytest.mark.parametrize(
    ("low", "is_said"),
    [(-0.033, True), (-0.012, False), (0.01, False), (-math.inf, False)],
    ids=["worse", "better", "a gain", "too few rounds"],
)
def test_a_wider_limit_names_what_the_held_out_input_leaves_open(low: float, *, is_said: bool):
    """The sentence on the limit has the bound of the tuned input only."""
    gains = GAINS | {CPU: Gain(0.02, -0.015, 0.05)}
    varying = replace(STANDING, gains=gains, scaled={CPU: 0.04})
    held_out = GAINS | {CPU: Gain(low + 0.02, low, 0.1)}

    lines = list(replace(DEPLOY, standing=varying, held_out=held_out).lines())

    words = "  CPU time may be up to 3.4 % worse there, though nothing says that it is."
    assert (words in lines) is is_said
    fixed = replace(DEPLOY, standing=replace(varying, scaled={}), held_out=held_out)
    assert any("worse there" in line for line in fixed.lines()) is (-math.inf < low < -0.01)


def test_a_limit_that_the_user_named_is_named():
    rules = Rules(limits=((PEAK, 0.3),), strict=(PEAK,))

    assert "By --constraint: peak memory (limit 30 %)." in replace(DEPLOY, rules=rules).lines()
    assert not any("--constraint:" in line for line in DEPLOY.lines())


def test_settings_that_were_taken_away_beforehand_are_said():
    answer = replace(DEPLOY, dropped=("empty_slabs=2",))

    words = "Left out before its rounds, since too little is expected of it: empty_slabs=2."
    assert words in list(answer.lines())
    assert words in answer.as_record()["text"]


@pytest.mark.parametrize("answer", [DEPLOY, KEEP, OPEN])
def test_notes_are_no_part_of_the_list_above_them(answer: Answer):
    gains = {MEAN: GAINS[MEAN]}
    noted = replace(answer, effects=(("a=1", gains, False), ("b=2", gains, False)))
    changes = {CPU: Gain(0.5, 0.4, 0.6), PEAK: Gain(-0.1, -0.1, -0.1)}
    trade = TurnedDown("exgen", changes, (CPU,), (PEAK,), in_rounds=True, constraints=("x",))
    noted = replace(noted, reasons=("More is open.",), turned_down=(trade,))

    lines = list(noted.lines())

    begin = next(n for n, line in enumerate(lines) if line.startswith("Turned down: "))
    assert lines[begin - 1] == ""
    assert lines[lines.index("More is open.") + 1] == ""
    assert "" not in list(replace(answer, rows=()).lines())


def test_what_was_left_out_although_it_gained_something_is_called_a_trade():
    traded = {MEAN: Gain(0.2, 0.2, 0.2), CPU: Gain(-0.1, -0.2, 0.0)}
    answer = replace(DEPLOY, left_out=("tcache=false",), traded=traded)

    assert (
        "Left out for less CPU time: tcache=false (with it: mean memory -18.1 %, CPU time +10.5 %)."
        in " ".join("\n".join(answer.lines()).split())
    )
    little = replace(answer, traded={MEAN: traded[MEAN]})
    assert (
        "Left out, since it saves little: tcache=false (with it: mean memory -18.1 %)."
        in " ".join("\n".join(little.lines()).split())
    )
    assert answer.as_record()["traded"]["cpu_time"]["change"] == pytest.approx(0.105, abs=1e-3)


def test_an_answer_that_ends_early_since_no_gain_would_show_says_so():
    far = replace(OPEN, standing=replace(STANDING, state=State.OUT_OF_REACH), given_s=600.0)
    words = "  What was left of the time would not have shown a gain."

    assert words in list(far.lines())
    assert words not in list(replace(far, given_s=100.0).lines())


def test_what_is_open_on_another_input_is_not_laid_to_the_noise_of_the_tuned_one():
    lines = list(replace(OPEN, held_out=GAINS).lines())

    assert "  About 5 min more may settle it." in lines


def test_noise_that_is_not_known_is_not_said():
    lines = list(replace(OPEN, noise={MEAN: 0.0, CPU: 0.0}).lines())

    assert not any("varies" in line for line in lines)
    assert any(line.startswith("  About 5 min more may settle it") for line in lines)


def test_of_a_setting_only_what_its_runs_show_is_said():
    gains = {
        MEAN: Gain(0.02, 0.015, 0.03),
        PEAK: Gain(0.0004, 0.0004, 0.0004, is_exact=True),
        CPU: Gain(-0.05, -0.2, 0.1),
    }
    nothing = {MEAN: Gain(0.0, -0.01, 0.01), PEAK: gains[PEAK], CPU: gains[CPU]}
    few = {MEAN: Gain(0.15, -math.inf, math.inf), CPU: Gain(-0.15, -math.inf, math.inf)}
    effects = (("tcache=false", gains, False), ("narenas=2", nothing, True),
               ("retain=false", few, False), ("a=1", nothing, False),
               ("b=2", judge("", {MEAN: [0.1, -0.05, 0.1]}, frozenset(), Rules(), 1).gains, False),
               ("c=3", judge("", {MEAN: [0.3, 0.3, -1e-5]}, frozenset(), Rules(), 1).gains, False),
               )  # fmt: skip

    lines = list(replace(DEPLOY, effects=effects).lines())

    assert "  retain=false: mean memory about -13.9 %, in too few runs to prove it" in lines
    assert "  c=3: mean memory about -25.9 %, in too few runs to prove it" in lines
    kept = (
        "  a=1 and b=2: alone nothing that these runs show; kept, since the program is not proven"
    )
    assert any(line.startswith(kept) for line in lines), "why they are deployed"
    assert "  tcache=false: mean memory -2.0 % (-3.0 .. -1.5)" in lines
    assert (
        "  narenas=2: alone nothing that these runs show; there was no time to prove it needless"
        in lines
    )


def test_a_bound_that_is_shown_as_nothing_is_a_most():
    gains = {MEAN: Gain(0.06, 0.0002, 0.1)}
    answer = replace(
        DEPLOY, rules=Rules(goals=(MEAN,), guards=(MEAN,)), standing=replace(STANDING, gains=gains)
    )

    assert " ".join(list(answer.lines())[1].split()) == "mean memory -5.8 % at most ±0.0 %"


def test_where_more_is_better_the_worse_end_is_the_lower_one():
    rate = SERVICE_NAMES["rate"]
    gains = {rate: Gain(0.003, -0.013, 0.019, is_more_better=True)}
    answer = replace(
        DEPLOY, rules=Rules(goals=(), guards=(rate,)), standing=replace(STANDING, gains=gains)
    )

    assert " ".join(list(answer.lines())[1].split()) == "requests/s +0.3 % at least -1.3 %"


def test_of_another_input_only_what_it_shows_is_printed():
    lines = list(replace(DEPLOY, held_out={MEAN: GAINS[MEAN]}, given="load").lines())

    at = lines.index("On the load that was not tuned on:")
    assert lines[at + 1].split() == ["mean", "memory", "-10.0", "%"]
    assert not any(line.split()[:2] == ["peak", "memory"] for line in lines[at:])


@pytest.mark.parametrize("latency", ["p99", "p95", None])
def test_of_another_load_the_latency_that_it_prints_is_shown_or_that_there_is_none(
    latency: str | None,
):
    rules = Rules(guards=(MEAN, SERVICE_NAMES["p99"]))
    held_out = {MEAN: GAINS[MEAN]}
    if latency:
        held_out[SERVICE_NAMES[latency]] = Gain(-0.03, -0.04, -0.02, limit=0.05)
    lines = list(replace(DEPLOY, rules=rules, held_out=held_out, given="load").lines())

    shown = [line for line in lines if latency and f"{latency} latency" in line]
    assert [line.split()[2:4] for line in shown] == [["+3.0", "%"]] * bool(latency)
    none = "  No latency was judged there: the output of that load does not say it."
    assert (none in lines) is (latency is None)


def test_a_program_has_no_latency_to_speak_of():
    assert "latency" not in " ".join(replace(DEPLOY, held_out=GAINS).lines())


@pytest.mark.parametrize(
    ("gain", "is_sure"),
    [
        (Gain(0.1, -0.01, 0.2), False),
        (Gain(0.001, 0.001, 0.001, is_exact=True), False),
        (Gain(0.1, 0.001, 0.2), True),
    ],
)
@pytest.mark.parametrize("answer", [DEPLOY, OPEN])
def test_a_gain_that_another_input_does_not_show_is_said(
    answer: Answer, gain: Gain, *, is_sure: bool
):
    nothing = Gain(-0.001, -0.002, 0.0)
    lines = list(replace(answer, held_out={MEAN: gain, PEAK: GAINS[MEAN], CPU: nothing}).lines())

    words = "On the input that was not tuned on, where no gain that counts is proven:"
    assert (words in lines) is not is_sure


@pytest.mark.parametrize("gain", [0.1, -0.009])
def test_too_few_rounds_on_another_input_are_no_proof_that_it_holds_there(gain: float):
    few = {MEAN: GAINS[MEAN], CPU: Gain(gain, -math.inf, math.inf)}
    heading = "where nothing beyond its limit was seen, in too few rounds for bounds:"

    said, open_said = (
        " ".join(" ".join(replace(one, held_out=few).lines()).split()) for one in (DEPLOY, OPEN)
    )
    assert heading in said
    assert heading not in open_said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (SERVICE_NAMES["p99"], 13.58e9, "13,580 ms"),
        (SERVICE_NAMES["p99"], 526.4e6, "526.4 ms"),
        (SERVICE_NAMES["p99"], 7.894e3, "7.894 us"),
    ],
)
def test_times_are_written_without_powers_of_ten(name: str, value: float, words: str):
    assert value_words(name, value) == words


@pytest.mark.parametrize(
    "answer", [KEEP, replace(OPEN, more_seconds=1e9)], ids=["keep", "open for ever"]
)
def test_a_lower_peak_that_was_not_asked_for_is_said(answer: Answer):
    less = {**GAINS, PEAK: Gain(0.12, 0.1, 0.14)}
    standing = replace(answer.standing or STANDING, gains=less, better=())
    found = replace(answer, standing=standing)
    gains_more = replace(found, standing=replace(standing, better=(MEAN,)))
    asked = replace(found, rules=Rules(goals=(PEAK, CPU)))

    assert "--goals peak_memory" in "\n".join(found.lines())
    assert "--goals peak_memory" not in "\n".join(asked.lines())
    assert "--goals peak_memory" not in "\n".join(gains_more.lines())
    worse = replace(standing, likely_worse=(CPU,))
    assert "--goals peak_memory" not in "\n".join(replace(found, standing=worse).lines())
    settled_soon = replace(found, decision=Decision.UNDECIDED, more_seconds=60.0)
    assert "--goals peak_memory" not in "\n".join(settled_soon.lines())
    assert "--goals peak_memory" not in "\n".join(answer.lines())


@pytest.mark.parametrize(
    ("goals", "words"),
    [
        ((MEAN, CPU), "0.5 % of memory or 1 % of CPU time without a loss in the other."),
        ((PEAK,), "0.5 % of peak memory without a loss elsewhere."),
        ((CPU,), "1 % of CPU time without a loss elsewhere."),
        ((MEAN, PEAK), "0.5 % of memory without a loss elsewhere."),
    ],
)
def test_what_was_asked_for_is_what_is_not_saved(goals: tuple[str, ...], words: str):
    text = " ".join(" ".join(replace(KEEP, rules=Rules(goals=goals)).lines()).split())

    assert f"proven to save {words}" in text


@pytest.mark.parametrize(
    ("seconds", "words"), [(7200.0, "120min"), (7260.0, "2.1h"), (1e5, "27.8h")]
)
def test_days_that_may_settle_it_are_said_in_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, words: str
):
    optimize._print_next(tmp_path, replace(OPEN, more_seconds=seconds))  # noqa: SLF001
    assert f" --time {words}  " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "It is at its limit, so more time may not settle it."),
        (4e5, "To settle it takes more than three days, so it cannot be shown here."),
    ],
)
def test_more_time_is_not_advised_where_that_is_hopeless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, words: str
):
    answer = replace(OPEN, more_seconds=seconds, noise={})
    optimize._print_next(tmp_path, answer)  # noqa: SLF001

    printed = capsys.readouterr().out
    assert "--time" not in printed
    assert "--measured" not in printed
    optimize._print_next(tmp_path, replace(DEPLOY, rows=DEPLOY.rows * 6))  # noqa: SLF001
    assert f"malloc-tuner front {tmp_path} --measured --all  " in capsys.readouterr().out
    assert f"  {words}" in list(answer.lines())
    nothing_ran = replace(OPEN, more_seconds=0.2, standing=None, noise={})
    assert "  About 1 s more may settle it." in list(nothing_ran.lines())
