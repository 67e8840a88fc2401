"""A whole run explained: roles, words, JSON and the picture."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.answers import write_record
from tests.doubles.command_line import CommandLine
from tests.doubles.runs import MIB, measurement, synthetic_run, without_counts, write_run
from tests.doubles.small_runs import run_of
from tests.unit.optimize.answering.test_answer import DEPLOY, KEEP
from tuner import library
from tuner.drawing.figure import described
from tuner.errors import SelectionError
from tuner.explain import importance
from tuner.explain.explanation import (
    Explanation,
    Role,
    explain_run,
    explained,
    material_of,
    settings_of,
)
from tuner.explain.figure import importance_figure
from tuner.explain.importance import FRONT, Importance, Share
from tuner.explain.levels import Level, Setting
from tuner.explain.wording import explanation_json, sentences
from tuner.front.ablation import Without
from tuner.limits import MOST_SEED
from tuner.optimize.answering.answer import write_answer
from tuner.records import Configuration, Outcome, Status, Value
from tuner.runs import REQUEST_FILE, Run
from tuner.space import Parameter

UNKNOWN = Without(Configuration("exgen"), None, None)
POINT = 3
"""A trial with settings, not of the run's first allocator."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return synthetic_run(
        tmp_path_factory.mktemp("explained") / "run",
        allocators=("glibc", "jemalloc"),
        n_trials=260,
        spread=0.0,
    )


@pytest.fixture(scope="module")
def explanation(run: Run) -> Explanation:
    """Forests of a third of the trees: the shares move less than any role."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importance, "_TREES", 20)
        return library.explain(run, POINT)


def test_what_does_nothing_is_found_and_what_acts_is_not_among_it(explanation: Explanation):
    idle = {
        one.name for allocator in explanation.allocators for one in allocator.of_role(Role.NOTHING)
    }

    assert {"arena_max", "lg_extent_max_active_fit"} <= idle
    assert not {"trim_threshold", "dirty_decay_ms", "tcache_count"} & idle


def test_what_is_rare_and_strong_does_not_do_nothing():
    setting = Setting("hugetlb", (None, 1), is_scale=False)
    strong = Level(1, 2, 0, {"mean_heap": 1.0654, "cost": 0.9093})
    shares = Importance({"cost": 0.5}, {"hugetlb": {"cost": Share(0.0, 0.0)}}, ())

    assert explained(setting, [strong], shares).role is Role.SMALL
    weak = replace(strong, changes={"mean_heap": 1.01, "cost": 0.99})
    assert explained(setting, [weak], shares).role is Role.NOTHING
    assert explained(setting, [replace(weak, is_compared=False)], shares).role is Role.SMALL
    failing = replace(strong, n_trials=10, n_failed=6)
    assert explained(setting, [strong], shares).best == strong
    assert explained(setting, [failing], shares).best is None


@pytest.mark.parametrize(
    ("heap", "cost", "role"),
    [
        (0.993, 1.49, Role.COSTS),
        (0.96, 1.3, Role.TRADES),
        (0.94, 1.04, Role.TRADES),
        (0.993, 1.004, Role.CARRIES),
    ],
)
def test_next_to_nothing_for_a_great_loss_is_no_gain(heap: float, cost: float, role: Role):
    setting = Setting("tcache", (None, 0), is_scale=False)
    level = Level(0, 9, 0, {"mean_heap": heap, "cost": cost})
    shares = Importance({"cost": 0.9}, {"tcache": {"cost": Share(0.35, 0.01)}}, ())

    assert explained(setting, [level], shares).role is role


@pytest.mark.parametrize("share", [Share(0.35, 0.01), Share(0.02, 0.03)], ids=["much", "little"])
def test_what_gains_one_thing_for_another_is_a_trade(share: Share):
    setting = Setting("tcache", (None, 0), is_scale=False)
    level = Level(0, 9, 0, {"mean_heap": 1.12, "cost": 0.352})
    shares = Importance({"cost": 0.9}, {"tcache": {"cost": share}}, ())

    found = explained(setting, [level], shares)

    assert found.role is Role.TRADES
    assert found.best == level
    assert explained(setting, [replace(level, n_trials=2)], shares).role is not Role.TRADES


def test_the_value_of_the_point_is_shown_and_what_it_gains_for_sure_is_not_small():
    setting = Setting("decommit_delay", (None, 0, 500), is_scale=True)
    lean = Level(0, 1, 0, {"mean_heap": 0.94, "cost": 1.002}, doubt=0.005)
    cheap = Level(500, 9, 0, {"mean_heap": 1.0, "cost": 0.9})
    shares = Importance({"cost": 0.9}, {"decommit_delay": {"cost": Share(0.01, 0.001)}}, ())

    found = explained(setting, [lean, cheap], shares, (0, UNKNOWN))

    assert (found.role, found.best) == (Role.CARRIES, lean)
    assert explained(setting, [lean, cheap], shares).best == cheap
    dear = replace(lean, changes={"mean_heap": 0.63, "cost": 1.7})
    assert explained(setting, [dear, cheap], shares, (0, UNKNOWN)).role is Role.TRADES


@pytest.mark.parametrize(
    ("without", "role", "gives"),
    [
        ({"mean_heap": 1.25, "cost": 1.0}, Role.CARRIES, {"mean_heap": 0.8, "cost": 1.0}),
        ({"mean_heap": 1.25, "cost": 0.8}, Role.TRADES, {"mean_heap": 0.8, "cost": 1.25}),
        ({"mean_heap": 1.008, "cost": 1.0}, Role.SMALL, {"mean_heap": 1 / 1.008, "cost": 1.0}),
        ({"mean_heap": 1.001, "cost": 0.999}, Role.NOTHING, None),
    ],
)
def test_what_was_measured_at_the_point_counts_before_what_the_trials_let_expect(
    without: Mapping[str, float], role: Role, gives: Mapping[str, float] | None
):
    """`no effect seen` stood above what leaving it alone loses, and a gain above `needless`."""
    setting = Setting("class_steps", (None, 8), is_scale=True)
    idle = Level(8, 40, 0, {"mean_heap": 0.998, "cost": 1.001})
    shares = Importance({"cost": 0.9}, {"class_steps": {"cost": Share(0.0, 0.0)}}, ())
    measured = replace(UNKNOWN, changes=without)

    for level in (idle, replace(idle, changes={"mean_heap": 0.9, "cost": 1.2})):
        for is_usual in (False, True):
            found = explained(setting, [level], shares, (8, measured), is_usual=is_usual)

            assert (found.role, found.is_compared) == (role, True)
            assert (found.best and found.best.changes) == (gives and pytest.approx(gives))


def test_what_the_point_fails_without_has_an_effect():
    setting = Setting("class_steps", (None, 8), is_scale=True)
    idle = Level(8, 40, 0, {"cost": 1.001})
    shares = Importance({"cost": 0.9}, {"class_steps": {"cost": Share(0.0, 0.0)}}, ())

    found = explained(setting, [idle], shares, (8, replace(UNKNOWN, reason="killed by SIGSEGV")))

    assert found.role is Role.SMALL


def test_what_is_0_without_a_setting_is_left_to_the_trials():
    setting = Setting("purge_how", (None, "free"), is_scale=False)
    idle = Level("free", 40, 0, {"mean_heap": 1.001, "syscalls": 1.5})
    shares = Importance({"cost": 0.9}, {"purge_how": {"cost": Share(0.0, 0.0)}}, ())
    measured = replace(UNKNOWN, changes={"mean_heap": 1.1, "syscalls": 0.0})

    (level,) = explained(setting, [idle], shares, ("free", measured)).levels

    assert level.changes == pytest.approx({"mean_heap": 1 / 1.1, "syscalls": 1.5})


def test_the_most_important_stand_first_and_have_an_effect(explanation: Explanation):
    for allocator in explanation.allocators:
        first = allocator.settings[0]
        assert first.role in {Role.CARRIES, Role.TRADES, Role.COSTS}
        assert max(s.value for s in allocator.importance.shares[first.name].values()) > 0.1


def test_the_allocator_of_the_point_stands_first(explanation: Explanation):
    assert [found.allocator for found in explanation.allocators] == ["jemalloc", "glibc"]


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importance, "_TREES", 10)


@pytest.mark.usefixtures("few_trees")
def test_a_run_is_explained_alike_every_time(run: Run):
    first, second = (explanation_json(library.explain(run, POINT)) for _ in range(2))

    assert first == second


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("point", [None, "recommended"])
@pytest.mark.parametrize("deployed", [POINT, 4])
def test_what_optimize_deploys_is_explained(
    run: Run, tmp_path: Path, point: str | None, deployed: int
):
    chosen = run.trial(deployed).configuration
    write_answer(tmp_path, replace(DEPLOY, trial=POINT, configuration=chosen))

    found = library.explain(replace(run, folder=tmp_path), point)

    assert found.ablation is not None
    assert found.ablation.pick.trial.number == deployed
    assert found.ablation.pick.name == "recommended"


@pytest.mark.usefixtures("few_trees")
def test_where_optimize_recommends_nothing_the_first_pick_is_explained(run: Run, tmp_path: Path):
    write_answer(tmp_path, replace(KEEP, trial=POINT))

    found = library.explain(replace(run, folder=tmp_path))

    assert found.ablation is not None
    assert found.ablation.pick.name != "recommended"


def test_the_words_name_what_matters(explanation: Explanation):
    text = "\n".join(sentences(explanation))

    assert "these gain one thing and cost another:" in text
    assert re.search(r"no effect seen: [a-z_, ]+$", text, re.MULTILINE)
    assert "what it does without each of these is not recorded; --measure emulates that" in text


def test_a_sentence_is_a_line(explanation: Explanation):
    left_out = replace(explanation, left_out={"tcmalloc": 3})

    lines = list(sentences(left_out))

    assert "Too few trials to explain: tcmalloc (3)." in lines
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("role", "said"),
    [
        (Role.SMALL, "  small or unsure: {} (nearly always set)"),
        (Role.CARRIES, "    {} (nearly always set): "),
    ],
)
def test_what_nearly_all_trials_set_is_said_to_be_so(
    explanation: Explanation, role: Role, said: str
):
    (first, *_), name = explanation.allocators, "lg_extent_max_active_fit"
    assert any(f"no effect seen: {name}" in line for line in sentences(explanation))
    settings = [
        replace(one, role=role, levels=(replace(one.levels[0], is_compared=False),))
        for one in first.settings
        if one.name == name
    ]
    found = replace(explanation, allocators=(replace(first, settings=tuple(settings)),))

    assert any(line.startswith(said.format(name)) for line in sentences(found))
    (setting,) = json.loads(explanation_json(found))["allocators"][0]["settings"]
    assert [level["is_compared"] for level in setting["levels"]] == [False]


def test_shares_of_nothing_do_not_stand_before_what_a_setting_carries_at_the_point(
    explanation: Explanation,
):
    (first, *_), name = explanation.allocators, "lg_extent_max_active_fit"
    (one,) = (one for one in first.settings if one.name == name)
    best = replace(one.levels[-1], changes={"mean_heap": 0.9491})
    carries = replace(one, role=Role.CARRIES, best=best)
    found = replace(explanation, allocators=(replace(first, settings=(carries,)),))

    gives = f"    {name}: {best.value} gives mean heap -5.09 %"
    assert gives in list(sentences(found))


@pytest.mark.usefixtures("few_trees")
def test_of_what_nearly_all_good_trials_set_no_effect_is_not_said_to_be_seen(run: Run):
    """Three trials of 29 left it alone, all of them bad; alone at the point it lost 5 %."""
    name = "lg_extent_max_active_fit"
    trials = [
        replace(one, configuration=with_setting(one.configuration, name, 6))
        if one.configuration.allocator == "jemalloc" and one.number % 24
        else one
        for one in run.trials
    ]
    found = explain_run(material_of(replace(run, trials=tuple(trials))), None)

    text = "\n".join(sentences(found))

    assert f"{name} (nearly always set)" in text
    assert not any(name in line for line in text.splitlines() if "no effect seen" in line)


def with_setting(configuration: Configuration, name: str, value: Value) -> Configuration:
    return Configuration.of(configuration.allocator, {**configuration.as_dict, name: value})


def test_of_the_allocator_of_the_point_too_few_trials_are_said_once(explanation: Explanation):
    left_out = replace(explanation, left_out={"jemalloc": 3})

    text = "\n".join(sentences(left_out))

    assert "The settings of jemalloc, which" in text
    assert "Too few trials" not in text


def test_the_json_has_every_setting(explanation: Explanation):
    found = json.loads(explanation_json(explanation))

    assert (found["schema"], found["version"]) == ("malloc-tuner.explanation", 1)
    glibc = next(one for one in found["allocators"] if one["allocator"] == "glibc")
    assert {one["name"] for one in glibc["settings"]} == {
        "mxfast", "tcache_count", "tcache_max", "trim_threshold", "top_pad", "arena_max",
    }  # fmt: skip
    assert set(glibc["fit"]) == {FRONT, "mean_heap", "cost"}


def test_the_picture_has_a_panel_for_the_front_and_each_objective(explanation: Explanation):
    panels = described(importance_figure(explanation))["hconcat"]

    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in panels] == [
        "distance to the front", "mean heap", "cost",
    ]  # fmt: skip


def test_too_few_trials_are_an_error():
    with pytest.raises(SelectionError, match=r"too few trials .*25 of an allocator"):
        explain_run(material_of(run_of(*synthetic_run(n_trials=6).trials[:1])), None)


@pytest.mark.usefixtures("few_trees")
def test_where_few_trials_were_counted_the_others_explain_memory(run: Run):
    good = [one for one in run.trials if one.measurement is not None]
    trials = (*good[:30], *map(without_counts, good[30:]))
    found = explain_run(material_of(replace(run, trials=trials)), None)

    assert [one.allocator for one in found.allocators] == ["glibc", "jemalloc"]
    assert set(found.by_allocator) == {"mean_heap"}
    assert f"Of these trials {len(good) - 30} were dominated" in "\n".join(sentences(found))
    (panel,) = described(importance_figure(found))["hconcat"]
    assert panel["layer"][0]["encoding"]["x"]["title"] == "mean heap"


@pytest.mark.usefixtures("few_trees")
def test_the_allocator_of_the_pick_is_explained_or_it_says_why_not(run: Run):
    good = [one for one in run.trials if one.measurement is not None]
    own = [one for one in good if one.configuration.allocator == "jemalloc"]
    some = (*(one for one in good if one not in own), *own[:17])
    trials = (*some, *map(without_counts, own[17:]))

    found = library.explain(replace(run, trials=trials), own[0].number)
    lacking = library.explain(replace(run, trials=some), own[0].number)

    assert [one.allocator for one in found.allocators] == ["jemalloc", "glibc"]
    assert [one.allocator for one in lacking.allocators] == ["glibc"]
    why = "25 trials are needed, it has 17; `malloc-tuner tune"
    assert [why in "\n".join(sentences(one)) for one in (found, lacking)] == [False, True]


@pytest.mark.usefixtures("few_trees")
def test_trials_that_were_not_counted_are_said_to_be_left_out(run: Run):
    good = [one for one in run.trials if one.measurement is not None]
    trials = (*good[:200], *map(without_counts, good[200:]))
    n = len(good) - 200

    found = explain_run(material_of(replace(run, trials=trials)), None)
    whole = explain_run(material_of(replace(run, trials=tuple(good))), None)

    assert (found.n_uncounted, found.n_passed_over, whole.n_passed_over) == (0, n, 0)
    assert f"Not among these: {n} of {len(good)} trials, dominated" in "\n".join(sentences(found))
    assert "Not among" not in "\n".join(sentences(whole))
    assert json.loads(explanation_json(found))["n_passed_over"] == n


def test_nothing_is_measured_for_a_run_with_too_few_trials(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    folder = write_run(synthetic_run(tmp_path / "run", n_trials=12))
    monkeypatch.setattr(library, "_measure", lambda *_: pytest.fail("measured in vain"))

    said = cli.fails(SelectionError.exit_code, "explain", folder, "--measure")
    assert "too few trials to explain settings" in said
    assert f"`malloc-tuner tune {folder} --evaluations 80` goes on with more" in said
    (folder / REQUEST_FILE).write_text("")
    said = cli.fails(SelectionError.exit_code, "explain", folder)
    assert f"--allocators glibc -o {folder}-glibc` searches glibc alone" in said


def test_trials_that_lack_every_objective_explain_nothing():
    trials = synthetic_run(n_trials=60).trials
    dominated = Outcome.did_not_succeed(Status.UNCOUNTED, "dominated")
    uncounted = [replace(one, outcome=dominated, objectives=None) for one in trials]

    with pytest.raises(SelectionError, match=r"too few trials .*glibc 0, jemalloc 0; 25 of"):
        explain_run(material_of(run_of(*uncounted)), None)


def test_where_every_objective_needs_a_count_the_counted_trials_are_said():
    drawn = synthetic_run(allocators=("glibc",), names=("cost",), n_trials=60, failures=False)
    trials = (*drawn.trials[:20], *map(without_counts, drawn.trials[20:]))

    with pytest.raises(SelectionError, match=r"\(glibc 20; 25 of .* --evaluations 80` goes on"):
        material_of(replace(drawn, trials=trials))


def test_values_stand_in_the_order_of_the_space(run: Run):
    space = (Parameter("glibc.mxfast", (None, 160, 64, 32, 0, 8), ordered=True),)
    other = replace(run, campaign=replace(run.campaign, space=space))

    settings = {one.name: one for one in settings_of(other, "glibc", other.trials)}

    assert settings["mxfast"].values == (None, 160, 64, 32, 0, 8)
    assert settings["top_pad"].values == (None, 0, 65536, 1048576, 16777216)


def test_a_value_off_the_levels_has_its_place_on_the_scale(run: Run):
    space = (
        Parameter("glibc.mxfast", (None, 0, 32, 160), ordered=True),
        Parameter("glibc.top_pad", (None, 65536, 16777216), ordered=False),
    )
    other = replace(run, campaign=replace(run.campaign, space=space))

    settings = {one.name: one for one in settings_of(other, "glibc", other.trials)}

    assert settings["mxfast"].values == (None, 0, 32, 64, 160)
    assert settings["top_pad"].values == (None, 65536, 16777216, 0, 1048576)


@pytest.mark.usefixtures("few_trees")
def test_an_allocator_alone_decides_nothing_of_what_never_changes(run: Run):
    same = Outcome.succeeded(measurement(cost=1e7))
    glibc = [one for one in run.trials if one.configuration.allocator == "glibc"]
    trials = tuple(replace(one, outcome=same, objectives=(50.0 * MIB, 1e7)) for one in glibc)

    found = explain_run(material_of(replace(run, trials=trials)), None)

    assert set(found.by_allocator.values()) == {0.0}


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("seed", [-1, MOST_SEED])
def test_every_seed_is_one(run: Run, seed: int):
    assert explain_run(material_of(run), None, seed).allocators


@pytest.mark.usefixtures("few_trees")
def test_the_command_explains_and_draws(run: Run, cli: CommandLine):
    write_run(run)
    write_answer(run.folder, KEEP)

    out, err = cli.run("explain", run.folder)
    assert out.endswith("On the program itself, in 43 runs: Keep glibc as it is.\n")
    assert "In emulation, the allocator decides" in out
    assert "figures/importance.png, .svg" in err
    assert (Path(run.folder) / "figures" / "importance.png").stat().st_size > 0


@pytest.mark.usefixtures("few_trees")
def test_a_point_that_is_not_what_is_deployed_is_said_to_be_another(
    run: Run, tmp_path: Path, cli: CommandLine
):
    run = replace(run, folder=tmp_path)
    write_run(run)
    tried = run.trials[-1].configuration
    for configuration in (Configuration.of("glibc", {"mxfast": 77}), tried):
        trial = run.trials[-1].number if configuration == tried else None
        fields = {"configuration": configuration.key, "trial": trial}
        write_record(run.folder, decision="deploy", sentence="Deploy it.", **fields)

        out, _ = cli.run("explain", run.folder, "--no-figures")

        is_said = "point above is another one." in " ".join(out.split())
        assert is_said is (configuration != tried)
