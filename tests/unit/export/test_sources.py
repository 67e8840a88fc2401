"""What is exported: the answer of an optimisation, as it was proven."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.answers import write_record
from tests.doubles.machine import MACHINE
from tests.doubles.runs import MIB, synthetic_run, trial, write_run
from tuner.errors import MissingToolError, SelectionError
from tuner.export import sources
from tuner.export.deployment import Deployment
from tuner.export.formats import render
from tuner.export.gains import proven_gains
from tuner.export.sources import deployment, direct_deployment, doubts, recommended_deployment
from tuner.front.kept import all_picks, find_pick
from tuner.front.picks import Pick
from tuner.library import export
from tuner.optimize.answering.answer import Decision
from tuner.optimize.answering.recommendation import Recommendation
from tuner.optimize.answering.table import TURNED_DOWN
from tuner.optimize.aside import move_to_before
from tuner.optimize.kinds.driver import followed_words
from tuner.optimize.request import Request
from tuner.optimize.tuned import Reference
from tuner.recording.explain import SWITCHES
from tuner.records import Configuration
from tuner.registry import EXPORTERS
from tuner.report.wording import headline
from tuner.resources import configs_dir, native_file
from tuner.runs import ANSWER_FILE, REFERENCE_FILE, REQUEST_FILE, SELECTION_FILE, Run
from tuner.store import AllocatorRecord

TRIED = Configuration.of("jemalloc", {"narenas": 2, "tcache": False})
PROVEN = Configuration.of("jemalloc", {"narenas": 2})
ANSWER = Recommendation(
    decision=Decision.DEPLOY,
    sentence="Deploy jemalloc with narenas=2.",
    configuration=PROVEN,
    trial=1,
    changes={"mean_memory": (-0.1, (-0.1, -0.1)), "cpu_time": (-0.04, (-0.08, 0.005))},
    command=("./app", "a b"),
    date="2026-01-31",
    n_runs=43,
    least=0.01,
)


def run_of_two() -> Run:
    trials = (trial(0, Configuration("glibc"), 60.0 * MIB), trial(1, TRIED))
    return replace(synthetic_run(n_trials=4), trials=trials)


def test_what_was_proven_is_exported_not_what_was_tried():
    text = render(recommended_deployment(run_of_two(), ANSWER), "env")

    assert "MALLOC_CONF=narenas:2\n" in text
    assert "proven: 2026-01-31, 43 runs of ./app 'a b'" in text
    assert "chosen: by malloc-tuner optimize: trial 1 of 2 (" in text
    assert "other entries of LD_PRELOAD are replaced" in text
    assert (
        "mean memory against the program as it was: -10.00 % [-10.00 %, -10.00 %] on the real"
        in text
    )
    assert (
        "left out: tcache=false (in emulation or on the program, they change too little)"
        in " ".join(text.replace("#", "").split())
    )


def test_what_was_emulated_with_those_settings_alone_is_the_trial_that_is_named(tmp_path: Path):
    two = run_of_two()
    run = replace(two, folder=tmp_path, trials=(*two.trials, trial(2, PROVEN)))
    write_record(tmp_path, decision="deploy", configuration=PROVEN.key, trial=1)

    made = recommended_deployment(run, ANSWER)

    assert (made.pick.trial.number if made.pick else None) == 2
    assert made.reduction.dropped == (("tcache", False),)
    assert doubts(run, Pick("mine", run.trial(2), "")) is None
    assert "trial 1 (mine) is not proven" in str(doubts(run, Pick("mine", run.trial(1), "")))


@pytest.mark.parametrize("pick", [2, "trial-2"])
def test_a_point_that_is_the_answer_is_proven_by_whatever_name(tmp_path: Path, pick: int | str):
    two = run_of_two()
    run = replace(two, folder=tmp_path, trials=(*two.trials, trial(2, PROVEN)))
    write_record(tmp_path, decision="deploy", configuration=PROVEN.key, trial=1)

    text = export(run, pick)

    assert text == export(run)
    assert "\n# proven: " in text
    assert "validated: not yet" in export(run, 1)
    assert str(doubts(run, find_pick(run, "trial-1"))).startswith("trial 1 is not proven on")


def test_the_proof_stands_in_json():
    document = json.loads(render(recommended_deployment(run_of_two(), ANSWER), "json"))

    assert document["settings"] == {"narenas": 2}
    assert document["proven_by"] == "2026-01-31, 43 runs of ./app 'a b'"
    assert [gain["verdict"] for gain in document["gain"]] == ["proven", "at most 0.5 % worse"]


@pytest.mark.parametrize(
    ("change", "bounds", "words"),
    [
        (-0.1, [-0.1, -0.1], "within its limits on what was held out"),
        (0.009, None, "nothing beyond its limit was seen on what was held out, in too few rounds"),
        (
            -0.1,
            [-0.2, 0.065],
            "nothing worse was seen on what was held out, where mean memory up to 6.5 % worse",
        ),
    ],
)
def test_the_proof_has_what_was_held_out(
    tmp_path: Path, change: float, bounds: list[float] | None, words: str
):
    folder = direct_folder(tmp_path)
    answer = json.loads((folder / "answer.json").read_text())
    held_out = {"mean_memory": {"change": change, "bounds": bounds, "limit": 0.01}}
    answer |= {"held_out": held_out, "rounds": 12}
    (folder / "answer.json").write_text(json.dumps(answer))

    text = " ".join(export(folder, form="sh").replace("#", "").split())

    assert f"12 rounds of ./app 'a b', and {words}" in text


def test_the_proof_says_that_figures_are_of_a_child(tmp_path: Path):
    notes = ["Else.", followed_words(("./app",), ("/bin/gawk", "x"), 0.9)]
    found = old_direct(tmp_path, "glibc", None, versions={}, notes=notes)

    child = "90 % of the CPU time of app is its child's, gawk: figures are of that child, run alone"
    assert found.proof == f"2026-01-31, 43 runs of ./app 'a b'. {child}"


@pytest.mark.parametrize(
    ("name", "bounds", "verdict"),
    [
        ("cpu_time", (-0.1, 0.02), "at most 2 % worse"),
        ("peak_memory", (0.0018, 0.0018), "at most 0.2 % worse"),
        ("cpu_time", (-0.1, -0.01), "proven"),
        ("peak_memory", (-0.0003, -0.0002), "no worse"),
        ("peak_memory", (-0.008, -0.006), "proven"),
        ("cpu_time", (-0.008, -0.006), "no worse"),
        ("peak_memory", (-0.1, 0.0), "no worse"),
        ("requests/s", (0.02, 0.1), "proven"),
        ("requests/s", (-0.03, 0.1), "at most 3 % worse"),
        ("p99_latency", None, "of few runs"),
    ],
)
def test_a_verdict_is_what_the_bounds_prove(
    name: str, bounds: tuple[float, float] | None, verdict: str
):
    answer = replace(ANSWER, changes={name: (0.0, bounds)})

    assert [gain.verdict for gain in proven_gains(answer)] == [verdict]


@pytest.mark.parametrize("decision", [Decision.KEEP, Decision.UNDECIDED])
def test_an_answer_that_deploys_nothing_is_not_exported(decision: Decision):
    answer = replace(ANSWER, decision=decision, sentence="Keep glibc as it is.")

    with pytest.raises(SelectionError, match=r"Keep glibc as it is\. .* name its --pick"):
        recommended_deployment(run_of_two(), answer)


def test_what_no_pick_names_is_what_the_report_speaks_of():
    default = trial(0, Configuration("glibc"), 60.0 * MIB)
    trades = trial(1, TRIED, 30.0 * MIB, 1.1e8)
    free = trial(2, PROVEN, 54.0 * MIB)
    run = replace(synthetic_run(n_trials=4), trials=(default, trades, free))

    text = export(run, form="sh")

    assert 'chosen: pick "no-regret" of campaign' in text
    assert "MALLOC_CONF=narenas:2\n" in text
    assert "no-regret (jemalloc with 1 setting, trial 2)" in headline(run, all_picks(run), {})
    assert find_pick(run, "balanced").trial == trades


def direct_folder(folder: Path, brings: str | None = None, decision: str = "deploy") -> Path:
    """Write what `optimize --direct` leaves: an answer, and no campaign."""
    request = Request(("./app", "a b"), 60.0, ("glibc",), is_direct=True)
    (folder / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    steered = ("GLIBC_TUNABLES", "MALLOC_ARENA_MAX")
    reference = Reference(("./app",), {}, 0, None, brings, 1.0, 30.0, steered=steered)
    (folder / REFERENCE_FILE).write_text(json.dumps(reference.as_record()))
    write_record(
        folder,
        decision=decision,
        sentence="Deploy glibc with mxfast=0." if decision == "deploy" else "Keep it.",
        configuration=Configuration.of("glibc", {"mxfast": 0}).key,
        changes={"mean_memory": {"change": -0.1, "bounds": [-0.1, -0.1]}},
        command=["./app", "a b"],
        as_is={"allocator": brings or "glibc"},
    )
    return folder


def test_a_pick_shows_what_the_program_measured_of_it(tmp_path: Path):
    changes = {"mean_memory": {"change": -0.02, "bounds": None, "exact": False}}
    subject = {"label": "jemalloc narenas=2 tcache=false", "in_rounds": False, "note": ""}
    write_record(
        tmp_path,
        as_is={"allocator": "glibc", "mean_memory": 2e8},
        subjects=[{**subject, "changes": changes}],
    )
    alike = (*run_of_two().trials, trial(2, PROVEN))
    run = replace(run_of_two(), folder=tmp_path, trials=alike)
    pick = Pick("mine", run.trials[1], "by hand")

    text = render(deployment(run, pick), "env")
    (tmp_path / "answer.json").unlink()

    assert "\nMALLOC_CONF=narenas:2,tcache:false\n" in text
    assert "\nMALLOC_CONF=narenas:2\n" in render(deployment(run, pick), "env")
    said = " ".join(text.replace("#", "").split())
    assert "mean memory against the program as it was: -2.00 % on the real program" in said
    assert ": of few runs" in said
    assert "mean heap against the default of glibc: " in said
    assert "on the real program (mean memory)" not in said


def test_a_session_without_an_answer_exports_only_what_is_named(tmp_path: Path):
    (tmp_path / REQUEST_FILE).write_text("{}")
    run = replace(run_of_two(), folder=tmp_path)

    with pytest.raises(SelectionError, match=r"not decided yet; .*optimize .* goes on"):
        export(run)
    with pytest.raises(SelectionError, match="not decided yet"):
        export(run, pick="recommended")

    assert export(run, pick=1)


def test_what_is_judged_anew_is_not_answered_by_a_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / REQUEST_FILE).write_text("{}")
    run = replace(run_of_two(), folder=tmp_path)
    proven = Pick("recommended", run.trials[1], "validation 1")
    monkeypatch.setattr(sources, "validated_pick", lambda *_: proven)
    assert export(run)

    (tmp_path / "before-1").mkdir()

    with pytest.raises(SelectionError, match="not decided yet"):
        export(run)


def test_a_point_leaves_out_of_the_programs_variables_what_optimize_did(tmp_path: Path):
    direct_folder(tmp_path, decision="keep")
    run = replace(run_of_two(), folder=tmp_path)

    assert "\nunset GLIBC_TUNABLES MALLOC_ARENA_MAX\nexport " in export(run, pick=1, form="sh")


def test_a_pick_that_never_ran_shows_its_share_of_the_whole_program():
    run = run_of_two()
    workload = replace(run.campaign.workload, program=(("peak_heap", 200.0 * MIB),))
    run = replace(run, campaign=replace(run.campaign, workload=workload))

    text = render(deployment(run, Pick("mine", run.trials[1], "by hand")), "env")

    assert "expected of the whole program (" in " ".join(text.replace("#", "").split())


def test_an_answer_without_a_campaign_is_exported(tmp_path: Path):
    text = export(direct_folder(tmp_path))

    assert "GLIBC_TUNABLES=glibc.malloc.mxfast=0\n" in text
    assert "proven: 2026-01-31, 43 runs of ./app 'a b'" in text
    assert "emulated" not in text
    assert "LD_PRELOAD" not in text + export(tmp_path, form="systemd")
    found = json.loads(export(tmp_path, form="json"))
    assert (found["pick"], found["unset"]) == (None, ["MALLOC_ARENA_MAX"])
    assert [*found["valid_for"]] == ["glibc"]  # nobody wrote down where it ran


def test_what_was_proven_before_more_was_tried_can_be_exported(tmp_path: Path):
    notes: list[str] = []
    text = export(direct_folder(tmp_path))
    move_to_before(tmp_path, (), copied=ANSWER_FILE)
    before = tmp_path / "before-1"

    assert export(tmp_path, on_note=notes.append) == text, "until there is another answer"
    assert [note.partition(":")[0] for note in notes] == ["Since then more is tried"]
    write_record(tmp_path, decision="undecided", sentence="Not decided.", configuration=None)
    with pytest.raises(SelectionError, match=re.escape(f"`malloc-tuner export {before}` exports")):
        export(tmp_path)
    assert export(before) == text
    turned_down = {"label": "glibc mxfast=0", "changes": {}, "note": f"{TURNED_DOWN} input"}
    write_record(tmp_path, decision="undecided", configuration=None, subjects=[turned_down])
    with pytest.raises(SelectionError, match="goes on"):
        export(tmp_path)
    write_record(tmp_path, decision="undecided", sentence="Not decided.", configuration=None)
    (before / SELECTION_FILE).touch()
    with pytest.raises(SelectionError, match=r"Not decided\. .*optimize .* goes on"):
        export(tmp_path)  # that was of other constraints
    with pytest.raises(SelectionError, match=re.escape(f"before-2: holds no answer; {tmp_path}")):
        export(tmp_path / "before-2")


def test_an_answer_that_no_trial_stands_behind_is_valid_where_its_campaign_ran(tmp_path: Path):
    run = synthetic_run(tmp_path / "run", n_trials=4)
    measured = {**run.campaign.allocators, "jemalloc": AllocatorRecord("/gone/x.so", "0.0.1")}
    folder = write_run(replace(run, campaign=replace(run.campaign, allocators=measured)))

    found = direct_deployment(direct_folder(folder), ANSWER)

    assert found.valid_for["kernel"] == MACHINE.kernel
    assert found.valid_for["jemalloc"] == "0.0.1, /gone/x.so"
    assert (found.version, found.library) == ("0.0.1", "/gone/x.so")


def test_what_was_measured_beside_a_setting_is_exported_with_it(tmp_path: Path):
    more = {"versions": {}, "beside": {"LD_PRELOAD": "shim.so", "GLIBC_TUNABLES": "x=1"}}
    found = old_direct(tmp_path, "exgen", Path("/lib/exgen.so"), **more)

    assert "\nGLIBC_TUNABLES=glibc.malloc.mxfast=0:x=1\n" in export(tmp_path)
    assert dict(found.variables) == {"LD_PRELOAD": "/lib/exgen.so:shim.so", "GLIBC_TUNABLES": "x=1"}


@pytest.mark.parametrize("beside", [{}, {"PYTHONMALLOC": "malloc"}])
def test_an_answer_has_the_switches_that_it_was_proven_with_not_those_of_a_validation(
    tmp_path: Path, beside: dict[str, str]
):
    run = synthetic_run(tmp_path, validation=True)
    reference = Reference(("./app",), {}, 0, None, None, 1.0, 30.0, beside=beside)
    (tmp_path / REFERENCE_FILE).write_text(json.dumps(reference.as_record()))
    (record,) = run.validations
    subjects = (*record.subjects[:-1], replace(record.subjects[-1], configuration=PROVEN))
    conditions = replace(record.conditions, beside={"USE_ZEND_ALLOC": "0"})
    record = replace(record, subjects=subjects, conditions=conditions)
    trials = tuple(trial(1, TRIED) if one.number == 1 else one for one in run.trials)
    run = replace(run, trials=trials, validations=(record,))

    found = recommended_deployment(run, ANSWER)

    assert found.validation, "it ran what was proven"
    switches = {name: value for name, value in found.variables if name in SWITCHES}
    assert switches == beside
    assert ("set too" in render(found, "env")) is bool(beside)


@pytest.mark.parametrize("form", EXPORTERS)
def test_a_switch_that_the_program_ran_with_is_exported_in_every_format(tmp_path: Path, form: str):
    old_direct(tmp_path, "glibc", None, versions={}, beside={"PYTHONMALLOC": "malloc"})

    text = export(tmp_path, form=form)

    assert re.search(r"PYTHONMALLOC(=|: |\": |\n    value: )[\"']?malloc", text)
    assert form == "json" or "set too: PYTHONMALLOC: the program had it as it was" in text


def test_no_allocator_that_was_preloaded_stays_where_the_c_librarys_is_deployed(tmp_path: Path):
    beside = {"LD_PRELOAD": "shim.so"}
    old_direct(tmp_path, "glibc", None, versions={}, steered=["LD_PRELOAD"], beside=beside)

    assert ' LD_PRELOAD=shim.so\nexec "$@"' in export(tmp_path, form="sh")


OLD = {
    "glibc": AllocatorRecord(None, "0.0.1"),
    "exgen": AllocatorRecord(str(native_file("libexgen.so")), "0.0.1"),
}


def old_direct(folder: Path, name: str, library: Path | None, **more: object) -> Deployment:
    direct_folder(folder)
    path = folder / REFERENCE_FILE
    versions = {one: record.version for one, record in OLD.items()}
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": versions, **more}))
    return direct_deployment(folder, replace(ANSWER, configuration=Configuration(name)), library)


def old_recommended(folder: Path, name: str, library: Path | None) -> Deployment:
    del folder
    run, chosen = run_of_two(), Configuration(name)
    campaign = replace(run.campaign, allocators={**run.campaign.allocators, **OLD})
    trials = (run.trials[0], trial(1, chosen))
    run = replace(run, trials=trials, campaign=campaign)
    return recommended_deployment(run, replace(ANSWER, configuration=chosen), library)


@pytest.mark.parametrize("old", [old_direct, old_recommended])
def test_what_was_replaced_since_is_exported_for_another_machine_alone(
    tmp_path: Path, old: Callable[[Path, str, Path | None], Deployment]
):
    for name in OLD:
        with pytest.raises(MissingToolError, match=rf"{name}: version 0\.0\.1 was measured, here"):
            old(tmp_path, name, None)

    found = old(tmp_path, "exgen", Path("/there.so"))

    assert (found.version, found.library) == ("0.0.1", "/there.so")
    assert found.valid_for["exgen"].startswith("0.0.1")


def test_the_campaigns_own_file_says_how_its_allocator_is_configured(tmp_path: Path):
    shipped = (configs_dir() / "allocators" / "jemalloc.toml").read_text()
    (tmp_path / "own.toml").write_text(shipped.replace('"MALLOC_CONF"', '"MY_MALLOC_CONF"'))
    (tmp_path / "campaign.toml").write_text(
        'name = "x"\ntrace = "x.trace"\nallocators = ["jemalloc"]\nspace_files = ["own.toml"]\n'
    )
    run = replace(run_of_two(), folder=tmp_path)

    text = render(deployment(run, Pick("mine", run.trials[1], "by hand")), "env")

    assert "\nMY_MALLOC_CONF=narenas:2,tcache:false\n" in text


@pytest.mark.parametrize("is_shipped", [True, False])
def test_only_the_library_that_malloc_tuner_brings_comes_with_it(is_shipped: bool):
    library = native_file("libexgen.so") if is_shipped else Path("/my/libexgen.so")
    run = run_of_two()
    known = {**run.campaign.allocators, "exgen": AllocatorRecord(str(library), "0.1.0")}
    run = replace(run, campaign=replace(run.campaign, allocators=known))
    pick = Pick("mine", trial(1, Configuration("exgen")), "by hand")

    text = render(deployment(run, pick), "env")

    assert ("comes with malloc-tuner" in text) is is_shipped


def test_the_c_librarys_malloc_is_put_before_one_that_the_program_brings(tmp_path: Path):
    assert "LD_PRELOAD=libc.so.6\n" in export(direct_folder(tmp_path, brings="jemalloc"))


def test_without_a_campaign_there_is_no_point_to_name(tmp_path: Path):
    with pytest.raises(SelectionError, match=r"Keep it\. There is nothing to export"):
        export(direct_folder(tmp_path, decision="keep"))


@pytest.mark.parametrize(
    ("is_comparison", "said", "more"),
    [
        (False, "`malloc-tuner optimize .*`", ""),
        (True, "the same `malloc-tuner validate`", " with a higher --rounds"),
    ],
)
def test_without_an_answer_it_says_what_goes_on(
    tmp_path: Path, *, is_comparison: bool, said: str, more: str
):
    folder = direct_folder(tmp_path, decision="undecided")
    request = json.loads((folder / REQUEST_FILE).read_text())
    (folder / REQUEST_FILE).write_text(json.dumps({**request, "is_comparison": is_comparison}))

    with pytest.raises(SelectionError, match=rf"nothing to export yet; {said}{more} goes on$"):
        export(folder)
    (folder / "answer.json").unlink()
    with pytest.raises(SelectionError, match=f"has no answer yet; {said} goes on to one"):
        export(folder)
