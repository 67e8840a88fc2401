"""What is said of answers on input that was not tuned on."""

import json
import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import answers, rivals
from benchmarks.answers import DEFAULTS, EMULATED, OURS, lines, summary, targets, volumes_of
from benchmarks.fronts import shares_of, undominated
from benchmarks.harness import Call
from benchmarks.rounds import failed
from tuner.allocators import get_allocator, locate_all
from tuner.errors import ProgramError
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.tuned import AS_IS, Reference, Tuned
from tuner.records import Configuration, Outcome, Status
from tuner.space import Parameter, joint_space

USUAL = {MEAN: 1e6, PEAK: 2e6, CPU: 1e9}


def part(**changed: float) -> dict[str, Any]:
    names = {"mean": MEAN, "peak": PEAK, "cpu": CPU}
    share = {names[name]: value for name, value in changed.items()}
    rows = [
        {
            "task": "lua-objects",
            "subject": subject,
            "round": number,
            "status": "ok",
            "reason": None,
            **{
                name: value * (1.0 + 0.001 * number) * (share.get(name, 1.0) if ours else 1.0)
                for name, value in USUAL.items()
            },
        }
        for number in range(10)
        for subject, ours in ((AS_IS, False), (OURS, True))
    ]
    head = {"decision": "deploy", "sentence": "Deploy x.", "seconds": 60.0, "used_s": 50.0}
    return {**head, "subjects": {OURS: "key"}, "rows": rows}


def test_an_answer_that_gains_meets_the_targets():
    parts = {"lua-objects": part(mean=0.9)}

    assert all(target.is_met for target in targets(parts))
    text = "\n".join(lines(parts))
    assert "lua-objects: Deploy x. (50 of 60 s)" in text
    assert "-10.0 % (-10.0 .. -10.0)" in text


def test_an_answer_that_costs_misses_them():
    beyond, memory = targets({"lua-objects": part(mean=0.9, cpu=1.05)})

    assert beyond.is_missed
    assert memory.is_met
    assert not list(targets({"lua-objects": part(peak=1.02)}))[1].is_met


def test_an_answer_is_judged_alone_on_a_core_where_it_was():
    shared = part(mean=0.9)
    alone = {**shared, "apart": part(mean=0.9, cpu=1.05)["rows"]}

    assert not next(targets({"lua-objects": shared})).is_missed
    assert next(targets({"lua-objects": alone})).is_missed


def test_an_answer_is_worse_proven_no_worse_or_in_doubt():
    """One that fails is worse; noise proves nothing."""
    failed_ = part()
    failed_["rows"] = [row for row in failed_["rows"] if row["subject"] == AS_IS]
    noisy = part(cpu=1.0)
    for row in noisy["rows"]:
        row[CPU] *= 1.0 + 0.1 * (row["round"] % 2) * (row["subject"] == OURS)
    few = part()
    few["rows"] = [row for row in few["rows"] if row["round"] < 5]

    worse, *_ = targets({"a": failed_, "b": part(), "c": noisy, "d": few})

    assert worse.brief.startswith("answers worse beyond doubt (1 proven no worse, 2 in doubt): 1")
    assert not worse.is_met


def test_a_baseline_that_failed_leaves_doubt_about_an_answer_that_did_not():
    """The answer has a run more: rounds count that have both."""
    bad = {"status": "failed", "reason": "killed by SIGSEGV"}
    kept = part(mean=0.9)
    last = {"subject": AS_IS, "round": 9}
    late = [{**row, **bad} if last.items() <= row.items() else row for row in kept["rows"]]
    first = {**kept["rows"][0], **bad}

    (one,) = answers.judged_of({"a": {**kept, "rows": late}})
    assert str(one.changes[MEAN]) == "-10.0 % (-10.0 .. -10.0)"
    assert not next(targets({"a": {**kept, "rows": late}})).is_missed
    worse, *_ = targets({"a": {**kept, "rows": [first]}})
    assert worse.what == "answers worse beyond doubt (0 proven no worse, 1 in doubt)"
    assert worse.value == 0


def test_an_answer_that_failed_in_one_round_is_worse():
    kept = part(mean=0.9)
    kept["rows"][-1] |= {"status": "failed", "reason": "killed by SIGSEGV"}

    assert next(targets({"a": kept})).value == 1
    assert "failed" in list(lines({"a": kept}))[-1]


def test_fronts_are_of_the_rounds_in_which_the_program_as_it_is_ran():
    kept = with_fronts(600.0, ours=(0.9, 0.9))
    last = {"subject": AS_IS, "round": 9}
    rows = [{**r, "status": "failed"} if last.items() <= r.items() else r for r in kept["rows"]]

    shares = shares_of(rows, {"ours": ["ours"], "none": []})

    assert shares["ours"] == pytest.approx(1.0)
    assert shares["none"] < 0.5


def test_without_a_deployed_setting_nothing_is_shown():
    kept = part(mean=0.9)

    assert summary({"lua-objects": kept}, "reached").startswith("reached: 1 of 1 deploy a setting;")
    nothing = {**kept, "subjects": {}}
    assert summary({"lua-objects": nothing}, "reached").startswith("not shown yet: 0 of 1")


def above(n_programs: int, default: tuple[float, float], **ours: float) -> bool:
    """Return whether answers of as many programs, three at least, are above this default."""
    one = part(**ours)
    rows = [
        {**row, "subject": "exgen", MEAN: row[MEAN] * default[0], CPU: row[CPU] * default[1]}
        for row in one["rows"]
        if row["subject"] == AS_IS
    ]
    subjects = {**one["subjects"], "exgen": "key"}
    parts = {
        str(n): {**one, "program": str(n % n_programs), "subjects": subjects,
                 "rows": one["rows"] + rows}
        for n in range(3)
    }  # fmt: skip
    (found,) = (target for target in targets(parts) if "above every" in target.what)
    return found.is_met


def test_an_answer_is_above_the_defaults_by_much_in_one_thing_at_no_loss_in_the_other():
    assert above(3, (0.97, 1.0), mean=0.9, cpu=1.005)
    assert above(3, (0.5, 0.97), mean=1.0, cpu=0.9)
    assert not above(3, (0.93, 1.0), mean=0.9), "the default gains nearly as much"
    assert not above(3, (0.97, 1.0), mean=0.9, cpu=1.02), "time is lost"
    assert not above(2, (0.97, 1.0), mean=0.9), "two programs are too few"


def with_fronts(
    seconds: float, noise: float = 0.0, /, **points: tuple[float, ...]
) -> dict[str, Any]:
    """Return a part in which each method has one setting: ratios of memory, time and peak."""
    random = np.random.default_rng(1)
    rows = [
        {
            "task": "x",
            "subject": subject,
            "round": number,
            "status": "ok",
            "reason": None,
            MEAN: 1e6 * ratios[0],
            PEAK: 2e6 * (*ratios, 1.0)[2],
            CPU: 1e9 * ratios[1] * math.exp(noise * random.standard_normal()),
        }
        for number in range(10)
        for subject, ratios in {AS_IS: (1.0, 1.0), **points}.items()
    ]
    methods = {OURS: ["ours"], EMULATED: ["emulated"], rivals.TPE: ["tpe"]}
    head = {"program": "x", "decision": "keep", "sentence": "Keep x.", "used_s": 1.0}
    return {**head, "seconds": seconds, "subjects": {}, "sets": methods, "rows": rows}


def test_an_answer_of_an_earlier_commit_is_not_kept_as_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def measure_one(call: Call, part: str, task: answers.Task, *_: object) -> dict[str, Any]:
        asked.append(call.run_folder(part, task.name).name)
        return {}

    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(answers, "_measure", measure_one)
    monkeypatch.setattr(answers.Task, "lacking", "")
    monkeypatch.setattr(answers, "installed", lambda _: "what ran")
    monkeypatch.setattr(Call, "keep", lambda *_, **words: kept.append(words))
    monkeypatch.setattr(Call, "is_done", lambda _, part: part == "svg-render 9 s, seed 2")
    options = Namespace(parts=["svg-render"], smoke=False, seconds=9, seeds=[1, 2], rounds=1)
    call = Call(answers.BENCHMARK, options, tmp_path, {})
    monkeypatch.setattr(Call, "folder", tmp_path)
    (tmp_path / "svg-render").mkdir()
    noted = {"commit": "1" * 40, "sources": {"x": "2"}}
    (tmp_path / "svg-render.begun.json").write_text(json.dumps(noted))

    answers.measure(call)

    assert asked == ["svg-render"], "the second seed was done"
    assert kept == [{"allocators": "what ran", "rounds": 1}]
    assert call.begun == {"svg-render 9 s, seed 1": noted}


def test_a_program_that_is_not_there_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No gem5 is installed by `make bench`."""
    (tmp_path / "lua5.4").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GEM5", raising=False)
    monkeypatch.setattr(answers, "_measure", lambda *_: {})
    monkeypatch.setattr(answers, "installed", lambda _: {})
    kept: list[str] = []
    monkeypatch.setattr(Call, "keep", lambda _, part, *__, **___: kept.append(part))
    monkeypatch.setattr(Call, "is_done", lambda *_: False)
    parts = ["clang-compile", "gem5-timing-sort", "lua-objects"]
    options = Namespace(parts=parts, smoke=False, seconds=9, seeds=[1], rounds=1)
    call = Call(answers.BENCHMARK, options, tmp_path, {})

    answers.measure(call)

    assert call.left_out == ["clang-compile", "gem5-timing-sort"]
    assert kept == ["lua-objects 9 s, seed 1"]


def test_a_hypervolume_is_a_share_of_that_of_all_settings_of_the_same_rounds():
    best = (1 / 1.1, 1 / 1.1)
    parts = {
        "x 120 s": with_fronts(120.0, ours=(1.0, 1.0), emulated=(1.2, 1.2), tpe=best),
        "x 600 s": with_fronts(600.0, ours=(0.99, 1.0), emulated=(1.0, 1.0), tpe=(1.0, 1.0)),
    }

    volumes = volumes_of(parts, answers.doubts_of(parts))
    found = {(one.part, one.method): one.share for one in volumes}

    assert found["x 600 s", OURS] == pytest.approx(1.0), "rounds of another day are no measure"
    assert found["x 120 s", rivals.TPE] == pytest.approx(1.0)
    # Logarithms: a square of one side for the program as it is, of two sides for the best.
    assert found["x 120 s", OURS] == pytest.approx(0.25)
    assert found["x 120 s", EMULATED] == pytest.approx(0.25), "without an answer the default stays"
    assert found["x 120 s", DEFAULTS] == pytest.approx(0.25), "none of them ran"
    assert "100.0 %" in "\n".join(lines(parts))


def test_settings_that_are_alike_are_no_better_for_being_many():
    """The luckiest of thirty seems to need far less time than any one of them."""
    alike = {str(number): (0.95, 0.95) for number in range(30)}
    rows = with_fronts(600.0, 0.08, **alike)["rows"]

    shares = [shares_of(rows, {"all": list(alike), "one": [one]})["one"] for one in alike]

    assert np.mean(shares) == pytest.approx(1.0, abs=0.1)


def test_what_breaks_the_guard_of_peak_memory_is_of_no_front():
    rows = with_fronts(600.0, heavy=(0.8, 0.8, 1.02), light=(0.95, 0.95))["rows"]

    shares = shares_of(rows, {"both": ["heavy", "light"], "light": ["light"]})

    assert shares == pytest.approx({"both": 1.0, "light": 1.0})


def test_what_parts_kept_before_and_nothing_dominates_runs_again():
    kept = {
        "one": with_fronts(120.0, **{"glibc mxfast=0": (0.9, 1.1), "glibc": (1.0, 1.0)}),
        "two": with_fronts(600.0, glibc=(1.0, 1.2), exgen=(0.8, 1.2)),
        "gone": with_fronts(600.0, **{"glibc no_such_setting=1": (0.5, 0.5)}),
    }
    for one in kept.values():
        one["sets"] = {OURS: [row["subject"] for row in one["rows"] if row["subject"] != AS_IS]}
    files = locate_all([get_allocator("glibc"), get_allocator("exgen")])
    kept["another program"] = {**kept["one"], "program": "y"}

    found = [str(one) for one in answers.known_best(kept, "x", files)]

    assert found == ["exgen default", "glibc mxfast=0"]


def test_being_behind_a_rival_misses_a_target():
    parts = {"x": with_fronts(300.0, ours=(0.95, 1.0), emulated=(1.0, 1.0), tpe=(0.9, 1.0))}

    missed = [target for target in targets(parts) if not target.is_met]

    assert [target.what for target in missed] == [
        "least share over the better rival's at 5 minutes",
        "times behind a rival",
    ]
    assert missed[0].note == "parts: 1, of 10 rounds or more"
    parts["x"]["subjects"] = {OURS: "key"}
    mine = [row for row in parts["x"]["rows"] if row["subject"] == "ours"]
    parts["x"]["rows"] += [{**row, "subject": OURS} for row in mine]
    said = summary(parts, "missed")
    assert "at 5 minutes: 0.731 (aim: at least 1.200); times behind a rival: 1" in said


def twice(part: dict[str, Any], *ratios: float) -> dict[str, Any]:
    """Return a part with the same program beside itself: ratios of its CPU time, in turn."""
    rows = [
        {**row, "subject": "glibc", CPU: row[CPU] * ratios[row["round"] % len(ratios)]}
        for row in part["rows"]
        if row["subject"] == AS_IS
    ]
    return {**part, "subjects": {**part["subjects"], "glibc": "key"}, "rows": part["rows"] + rows}


def test_where_the_same_program_twice_differs_much_no_hypervolume_is_judged():
    one = with_fronts(600.0, ours=(0.95, 1.0), emulated=(1.0, 1.0), tpe=(0.97, 1.0))
    one["subjects"] = {OURS: "key"}
    one["rows"] += [{**row, "subject": OURS} for row in one["rows"] if row["subject"] == "ours"]
    steady, disturbed = twice(one, 0.96, 1.04), twice(one, 0.814, 1.163)
    parts = {"a": steady, "b": disturbed}
    words = "not judged: the same program twice differed by -1.2 % (-18.6 .. +16.3) in CPU time"

    judged = {found.what: found for found in targets(parts)}

    assert all(found.is_met for found in targets({"a": steady}))
    assert {found.part for found in volumes_of(parts, answers.doubts_of(parts))} == {"a"}
    for what in ("least hypervolume at 10 minutes", "times behind a rival"):
        assert (judged[what].is_met, judged[what].is_missed) == (False, False), "in doubt"
        assert judged[what].note.endswith(f"; b: {words}")
    assert f"b: hypervolume {words}" in lines(parts)
    assert f"hypervolume of b {words}" in summary(parts, "in doubt")
    (alone,) = (found for found in targets({"b": disturbed}) if "10 minutes" in found.what)
    assert (alone.is_met, alone.is_missed) == (False, False)


def test_one_round_or_a_failure_of_the_same_program_judges_no_hypervolume():
    one = twice(with_fronts(600.0, ours=(0.95, 1.0), emulated=(1.0, 1.0), tpe=(0.97, 1.0)), 1.0)
    once = {**one, "rows": [row for row in one["rows"] if row["round"] == 0]}
    lost = {**one, "rows": [row for row in one["rows"] if row["subject"] != "glibc"]}

    assert [bool(answers.doubt_about(kept)) for kept in (one, once, lost)] == [False, True, True]


class Timed:
    """A program of a second that needs less memory without a thread cache; 65 fails."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def refusal(self, _: Configuration) -> None:
        return None

    def runner(self, candidates: Mapping[str, Configuration], _: Reference) -> Any:
        def run(step: Any) -> Outcome[Any]:
            self.now_s += 1.0
            count = int(candidates[step.subject].as_dict.get("count", 0))
            if count == 65:
                return Outcome.did_not_succeed(Status.FAILED, "crashed")
            return Outcome.succeeded({MEAN: 1e6 - count, PEAK: 2e6, CPU: 1e9 + count})

        return run


def test_a_rival_searches_until_the_time_or_the_space_is_over():
    pytest.importorskip("optuna")
    count = Parameter("glibc.count", (None, 1, 65, 1024), ordered=True)
    space = joint_space({"glibc": [count], "mimalloc": []})
    app = Timed()
    reference = Reference(("app",), USUAL, 0, None, None, 1.0, 30.0)

    found = rivals.searched(
        rivals.made(rivals.TPE, space, 1), cast("Tuned", app), reference, space, 30.0,
        clock=lambda: app.now_s,
    )  # fmt: skip

    assert 2 < app.now_s < 30.0, "all of the space, each once"
    assert found[0] == Configuration.of("glibc", {"count": 1024})


def test_of_a_front_those_stay_that_have_most_of_the_hypervolume():
    points = {"least": (-0.4, 0.05), "near": (-0.39, 0.049), "middle": (-0.2, -0.2),
              "beaten": (-0.1, -0.1), "beyond": (-0.5, 0.2), "fast": (0.0, -0.4)}  # fmt: skip

    assert undominated(points) == ["beyond", "least", "near", "middle", "fast"]
    assert undominated(points, 4) == ["least", "near", "middle", "fast"]
    assert undominated(points, 3) == ["least", "middle", "fast"]
    assert undominated({}) == []


def test_one_row_of_a_short_program_is_the_middle_of_several_runs():
    values = iter([3.0, 1.0, 2.0])
    run_once = answers.repeated(lambda *_: Outcome.succeeded({CPU: next(values)}), 3)

    assert run_once("x", "y").good == {CPU: 2.0}


def test_a_failure_among_several_runs_is_that_of_the_row():
    outcomes = iter([Outcome.succeeded({CPU: 1.0}), failed("killed")])
    run_once = answers.repeated(lambda *_: next(outcomes), 2)

    assert run_once("x", "y").reason == "killed"


class Fails:
    """A program that ends with an error on its input."""

    def examine(self) -> Reference:
        return Reference(("app",), USUAL, 1, None, None, wall_s=0.04, timeout_s=30.0)


def test_an_input_on_which_the_program_fails_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A compiler that stops at an error has its start-up alone."""
    monkeypatch.setattr(answers, "tuned_of", lambda *_: Fails())
    monkeypatch.setattr(answers, "_files", lambda _: {})
    task = answers.Task("app", ("app", "tuned"), ("app", "judged"))

    with pytest.raises(ProgramError, match="app, judged: exit status 1 as it is"):
        answers._Judging(tmp_path, task, {})  # noqa: SLF001 - the check itself
