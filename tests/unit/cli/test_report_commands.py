"""`front`, `pick`, `export` and `report` on a run that the real store keeps."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.answers import write_record
from tests.doubles.cached import REFERENCE
from tests.doubles.command_line import CommandLine
from tests.doubles.runs import changed, synthetic_run, trial, without_counts, write_run
from tuner import library
from tuner.errors import SelectionError, SpecError, StoreError
from tuner.export.sources import validated_pick
from tuner.front import repricing
from tuner.front.bounds import default_trials
from tuner.front.dominance import front_points
from tuner.front.kept import (
    RECOMMENDED,
    all_picks,
    check_pick_name,
    find_configuration,
    find_pick,
    pick_path,
    picks_of,
    save_pick,
)
from tuner.front.picks import Pick
from tuner.optimize.request import Request
from tuner.records import Configuration, Outcome
from tuner.report.table import front_table
from tuner.runs import REFERENCE_FILE, REQUEST_FILE, Run, load_run
from tuner.store import WorkloadRecord
from tuner.validate import summary
from tuner.validate.decision import ValidationDecision


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "app"
    write_run(synthetic_run(folder, n_trials=120))
    return load_run(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "app"
    write_run(synthetic_run(folder, n_trials=40))
    return folder


@pytest.fixture
def fresh(tmp_path: Path, written: Path) -> Run:
    return load_run(shutil.copytree(written, tmp_path / "app"))


# front


def test_front_table_marks_defaults_and_picks(
    kept: Run, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "160")

    text = cli.prints("front", kept.folder)

    assert "mean heap" in text
    assert "best-cost" in text
    assert "default" in text
    assert "changes are against glibc's default." in text
    assert "\x1b" not in text


def test_front_table_ends_with_what_runs_of_the_program_proved(fresh: Run, cli: CommandLine):
    setting = Configuration.of("glibc", {"mxfast": 0}).key
    sentence = "Deploy glibc with mxfast=0."
    write_record(
        fresh.folder, decision="deploy", sentence=sentence, configuration=setting, trial=3,
        changes={"cpu_time": {"change": -0.1, "bounds": None}},
    )  # fmt: skip

    last = cli.prints("front", fresh.folder).splitlines()[-1]

    said = "Deploy glibc with mxfast=0. Measured: CPU time -10.0 %."
    assert last == f"On the program itself, in 43 runs: {said}"
    rows = json.loads(cli.prints("front", fresh.folder, "--json"))["rows"]
    assert [row["trial"] for row in rows if "recommended" in row["picks"]] == [3]
    for form in ("csv", "table"):
        both = ("front", fresh.folder, "--json", "--format", form)
        assert "give one of --format and --json" in cli.fails(2, *both)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("front", "--objectives", ","), "--objectives ',': name one, such as cost"),
        (("pick", "--balanced", "--allocators", " "), "--allocators ' ': name one, such as glibc"),
    ],
)
def test_a_list_without_a_name_is_no_default(
    kept: Run, cli: CommandLine, words: tuple[str, ...], said: str
):
    command, *options = words

    assert said in cli.fails(SpecError.exit_code, command, kept.folder, *options)


@pytest.mark.parametrize("reference", ["[]", '{"values": null}', '{"values": {"CPU time": 0}}'])
def test_a_reference_without_cpu_time_is_no_defect(fresh: Run, reference: str):
    workload = replace(fresh.campaign.workload, program=(("cost", 1.0),))
    run = replace(fresh, campaign=replace(fresh.campaign, workload=workload))
    folder = write_run(replace(run, folder=fresh.folder.with_name("other")))
    (folder / REFERENCE_FILE).write_text(reference)

    assert dict(load_run(folder).campaign.workload.program) == {"cost": 1.0}


def test_a_report_of_runs_alone_has_no_validation(tmp_path: Path, cli: CommandLine):
    (tmp_path / REQUEST_FILE).touch()

    assert "--validation applies to emulation" in cli.fails(2, "report", tmp_path, "--validation=1")


def test_front_table_says_what_the_deployed_has_less_than_its_trial(fresh: Run, cli: CommandLine):
    made = fresh.trial(12).configuration
    proven = "recommended: what `optimize` deploys (new runs of the program proved it better"
    for deployed, end in ((made, ")"), (made.without("tcache_max"), ", without tcache_max=32768)")):
        write_record(fresh.folder, decision="deploy", configuration=deployed.key, trial=12)

        assert f"{proven}{end}" in " ".join(cli.prints("front", fresh.folder).split())


def test_front_table_shows_every_number_in_a_narrow_terminal(
    kept: Run, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "60")
    names = "peak_heap,mean_heap,instructions,faults,syscalls,cost"

    text = cli.prints("front", kept.folder, "--objectives", names)

    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_front_json_carries_every_column_with_units(kept: Run, cli: CommandLine):
    document = json.loads(cli.prints("front", kept.folder, "--format", "json"))

    assert (document["schema"], document["version"]) == ("malloc-tuner.front", 1)
    assert document["units"]["mean_heap_bytes"] == "bytes"
    rows = document["rows"]
    assert {row["state"] for row in rows} == {"front", "dominated"}
    assert [row["trial"] for row in rows if row["is_default"]]
    baseline = next(row for row in rows if row["trial"] == 0)
    assert baseline["ratio_to_baseline"]["mean_heap"] == 1.0
    assert set(baseline["measured"]) == set(document["units"])


def test_front_csv_says_units_and_leaves_missing_numbers_empty(kept: Run, cli: CommandLine):
    text = cli.prints("front", kept.folder, "--all", "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(kept.trials)
    assert {"mean_heap_bytes", "cost_instructions", "faults_count", "wall_ns"} <= set(rows[0])
    for row in rows:
        trial = kept.trial(int(row["trial"]))
        assert json.loads(row["settings"]) == trial.configuration.as_dict
        if trial.measurement is None:
            assert (row["mean_heap_bytes"], row["reason"]) == ("", trial.reason)
        else:
            assert float(row["mean_heap_bytes"]) == trial.measurement["mean_heap"]


def test_front_says_in_every_form_what_changes_with_the_prices(
    kept: Run, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(repricing, "price_note", lambda *_: "Another, if dearer.")

    document = json.loads(cli.prints("front", kept.folder, "--format", "json"))
    rows = csv.DictReader(io.StringIO(cli.prints("front", kept.folder, "--format", "csv")))

    assert document["price_note"] == "Another, if dearer."
    assert {row["price_note"] for row in rows} == {"Another, if dearer."}
    assert "Another, if dearer." in cli.prints("front", kept.folder)


def test_front_of_other_objectives(kept: Run, cli: CommandLine):
    text = cli.prints("front", kept.folder, "--objectives", "faults,cost", "--format", "json")

    on_front = [r for r in json.loads(text)["rows"] if r["state"] == "front"]
    expected = front_points(kept.trials, ("faults", "cost"))
    assert [row["trial"] for row in on_front][: len(expected)] == [
        point.trial.number for point in expected
    ]


def test_all_trials_stand_behind_front_and_defaults(kept: Run, cli: CommandLine):
    rows = json.loads(cli.prints("front", kept.folder, "--all", "--format", "json"))["rows"]

    points = front_points(kept.trials, kept.campaign.objectives)
    first = [point.trial.number for point in points]
    defaults = [n for n in range(4) if n not in first]
    numbers = [row["trial"] for row in rows]
    assert numbers[: len(first) + len(defaults)] == first + defaults
    rest = numbers[len(first) + len(defaults) :]
    assert rest == sorted(rest)
    assert sorted(numbers) == [trial.number for trial in kept.trials]
    for row in rows:
        assert row["reason"] == kept.trial(row["trial"]).reason
        assert (row["measured"]["mean_heap_bytes"] is None) == (row["reason"] is not None)


def test_front_relative_to_own_default(kept: Run):
    table = front_table(kept, ("mean_heap", "cost"), relative_to="own")

    defaults = [row for row in table.rows if row.is_default]
    assert [row.ratios["cost"] for row in defaults] == [1.0] * 4


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (("-o", "front.csv"), "trial,"),
        (("-o", "front.JSON"), "{"),
        (("-o", "front.txt"), "        mean heap"),
        (("-o", "front.csv", "--format", "table"), "        mean heap"),
        (("-o", "front.csv", "--json"), "{"),
    ],
)
def test_a_front_has_the_form_of_its_ending_where_none_is_given(
    kept: Run, working_folder: Path, cli: CommandLine, words: tuple[str, ...], begin: str
):
    assert cli.prints("front", kept.folder, *words) == f"wrote {words[1]}\n"
    assert (working_folder / words[1]).read_text().startswith(begin)


def test_rows_that_are_equal_name_each_other(kept: Run):
    point = next(p for p in front_points(kept.trials, ("mean_heap", "cost")) if p.equals)

    table = front_table(kept, ("mean_heap", "cost"), everything=True)

    row = next(row for row in table.rows if row.trial.number == point.equals[0])
    assert row.state == "front"
    assert point.trial.number in row.equals


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("front", "RUN", "--objectives", "heap"), 3, "choose among mean_heap"),
        (("front", "RUN", "--relative-to", "exgen"), 12, "default of exgen was not measured"),
        (("front", "RUN", "-o", "/proc/front.csv"), 10, "/proc/front.csv: cannot be written"),
        (("pick", "RUN"), 2, "one of --balanced"),
        (("pick", "RUN", "--knee", "--trial", "1"), 2, "one of --balanced"),
        (("pick", "RUN", "--trial", "1", "--max", "cost=+1%"), 2, "only narrow a choice"),
        (("pick", "RUN", "--trial", "999"), 12, "has no trial 999"),
        (("pick", "RUN", "--best", "heap"), 3, "choose among"),
        (("pick", "RUN", "--knee", "--max", "cost"), 3, "METRIC=LIMIT"),
        (("pick", "RUN", "--knee", "--max", "cost=-99%"), 12, "relax that bound"),
        (("pick", "RUN", "--knee", "--allocator", "exgen"), 12, "its allocators: glibc"),
        (("pick", "RUN", "--knee", "--name", "../x"), 3, "letters, digits"),
        (("export", "RUN", "--pick", "knee", "--trial", "1"), 2, "one of --pick, --trial and"),
        (("export", "RUN", "--pick", "service"), 12, "has no pick 'service'"),
        (("export", "RUN", "--format", "yaml"), 2, "kubernetes"),
    ],
)
def test_what_cannot_be_done_says_why_and_writes_nothing(
    fresh: Run, cli: CommandLine, command: tuple[str, ...], code: int, words: str
):
    before = set(fresh.folder.iterdir())

    words_given = [fresh.folder if word == "RUN" else word for word in command]
    message = cli.fails(code, *words_given)

    assert words in " ".join(message.replace("\u2502", " ").split())
    assert set(fresh.folder.iterdir()) == before


def test_a_folder_without_a_store_is_an_error(tmp_path: Path, cli: CommandLine):
    for command in ("front", "report", "export"):
        message = cli.fails(9, command, tmp_path)
        assert "no such store" in message


# pick


def picked(run: Run, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run.folder / "picks" / f"{name}.json").read_text())
    return document


def test_pick_prints_the_point_and_keeps_it(fresh: Run, cli: CommandLine):
    text = cli.prints("pick", fresh.folder, "--best", "mean_heap", "--max", "cost=+1%")

    document = picked(fresh, "best-mean_heap-max-cost")
    assert f"trial {document['trial']}: {document['allocator']}" in text
    assert document["rule"] == "least mean heap; with cost at most 1 % above the default of glibc"
    trial = fresh.trial(document["trial"])
    default = default_trials(fresh.trials)["glibc"]
    assert trial.measurement is not None
    assert default.measurement is not None
    assert (trial.measurement.value("cost") or 0.0) <= 1.01 * (
        default.measurement.value("cost") or 0.0
    )


def partly_counted(folder: Path, *constraints: str) -> Run:
    """Write a run whose last trial has the least peak and faults, and no instructions."""
    drawn = synthetic_run(folder, n_trials=5, allocators=("glibc",), failures=False)
    *counted, last = drawn.trials
    lean = last.measured.with_values(peak_heap=1, faults=1)
    left_out = without_counts(replace(last, outcome=Outcome.succeeded(lean)))
    record = replace(drawn.campaign, constraints=constraints)
    write_run(replace(drawn, campaign=record, trials=(*counted, left_out), rechecks=()))
    return load_run(folder)


OF_MEMORY = ("--objectives", "peak_heap,faults")


def test_what_was_not_counted_is_on_fronts_of_what_was_measured(tmp_path: Path, cli: CommandLine):
    run = partly_counted(tmp_path / "app", "mean_heap <= 1 GiB")

    shown = json.loads(cli.prints("front", run.folder, *OF_MEMORY, "--format", "json"))
    table = cli.prints("front", run.folder, *OF_MEMORY)

    (row,) = (row for row in shown["rows"] if row["state"] == "front")
    assert (row["trial"], row["measured"]["peak_heap_bytes"]) == (4, 1)
    assert row["measured"]["cost"] is None
    assert "1 point is on the front" in table


def test_what_was_not_counted_may_break_a_limit_of_what_takes_a_count(
    tmp_path: Path, cli: CommandLine
):
    run = partly_counted(tmp_path / "app", "cost <= default * 1.02")

    shown = json.loads(cli.prints("front", run.folder, *OF_MEMORY, "--format", "json"))

    assert 4 not in {row["trial"] for row in shown["rows"]}


def test_all_trials_are_shown_with_what_was_measured_of_them(tmp_path: Path, cli: CommandLine):
    run = partly_counted(tmp_path / "app")

    shown = json.loads(cli.prints("front", run.folder, "--all", "--format", "json"))

    row = next(row for row in shown["rows"] if row["trial"] == 4)
    assert (row["state"], row["reason"]) == ("uncounted", "dominated")
    assert (row["measured"]["faults"], row["measured"]["cost"]) == (1, None)
    assert row["ratio_to_baseline"]["peak_heap"] < 0.01


def test_what_was_not_counted_cannot_be_chosen_and_it_says_why(tmp_path: Path, cli: CommandLine):
    run = partly_counted(tmp_path / "app")
    why = "trial 4 cannot be chosen: its instructions were not counted (dominated);"

    for command in ("pick", "export"):
        said = cli.fails(SelectionError.exit_code, command, run.folder, "--trial", 4)

        assert why in said
        assert 'count = "all" under [emulation]' in said


def test_a_pick_says_that_not_all_trials_were_candidates(tmp_path: Path, cli: CommandLine):
    run = partly_counted(tmp_path / "app")

    cli.prints("pick", run.folder, "--best", "peak_heap")
    cli.prints("pick", run.folder, "--best", "mean_heap")

    words = "of the trials whose instructions were counted"
    assert words in picked(run, "best-peak_heap")["rule"]
    assert words not in picked(run, "best-mean_heap")["rule"]


def test_pick_within_one_allocator(fresh: Run, cli: CommandLine):
    cli.prints("pick", fresh.folder, "--balanced", "--allocator", "tcmalloc")

    assert picked(fresh, "balanced-tcmalloc")["allocator"] == "tcmalloc"


def test_where_an_allocator_has_no_trial_to_choose_it_is_named(fresh: Run, cli: CommandLine):
    trials = [
        replace(one, violation=1.0) if one.configuration.allocator == "tcmalloc" else one
        for one in fresh.trials
    ]
    write_run(replace(fresh, folder=fresh.folder / "tight", trials=tuple(trials)))

    words = ("pick", fresh.folder / "tight", "--balanced", "--allocators")

    said = cli.fails(SelectionError.exit_code, *words, "tcmalloc")
    assert "no trial of tcmalloc succeeded and holds every constraint" in said
    assert cli.prints(*words, "tcmalloc,glibc")


def test_a_pick_whose_name_would_be_too_long_asks_for_one(kept: Run, cli: CommandLine):
    bounds = [f"--max={name}=+90%" for name in ("peak_heap", "mean_heap", "cost", "instructions")]

    err = cli.fails(SpecError.exit_code, "pick", kept.folder, "--best", "mean_heap", *bounds)

    assert "use 1 to 64 letters" in err
    assert err.endswith("; give it another with --name\n")


def test_pick_relative_to_own_default(fresh: Run, cli: CommandLine):
    text = cli.prints(
        "pick", fresh.folder, "--best", "mean_heap", "--allocator", "tcmalloc",
        "--max", "cost=+0%", "--relative-to", "own", "--json",
    )  # fmt: skip

    document = json.loads(text)
    assert document["ratio_to_baseline"]["cost"] <= 1.0
    assert (document["schema"], document["version"]) == ("malloc-tuner.picked", 1)


def test_pick_by_number_under_a_name(fresh: Run, cli: CommandLine):
    cli.prints("pick", fresh.folder, "--trial", 5, "--name", "service")

    assert find_pick(fresh, "service").trial.number == 5
    assert "service" in cli.prints("front", fresh.folder, "--all", "--format", "csv")


def test_pick_of_a_knee_that_is_there(fresh: Run, cli: CommandLine):
    knee = json.loads(cli.prints("pick", fresh.folder, "--knee", "--json"))
    balanced = json.loads(cli.prints("pick", fresh.folder, "--balanced", "--json"))

    assert knee["trial"] == balanced["trial"]


@pytest.fixture
def straight(tmp_path: Path) -> Run:
    drawn = synthetic_run(tmp_path / "straight", n_trials=3, allocators=("glibc",), rechecks=False)
    ends = ((100.0, 1000.0), (90.0, 1100.0), (110.0, 900.0))
    trials = tuple(
        replace(trial(number, one.configuration, *ends[number]), origin=one.origin)
        for number, one in enumerate(drawn.trials)
    )
    write_run(replace(drawn, trials=trials))
    return load_run(tmp_path / "straight")


def test_where_there_is_no_knee_a_balanced_pick_is(straight: Run, cli: CommandLine):
    for command in (("pick", "--knee"), ("export", "--pick", "knee")):
        message = cli.fails(12, command[0], straight.folder, *command[1:])

        assert "the front has no knee" in message
        assert "balanced" in message
    assert not (straight.folder / "picks").exists()
    assert exported(cli, straight)[0]["pick"]["name"] == "balanced"


# Kept picks


def test_kept_pick_wins_over_the_computed_one(fresh: Run):
    save_pick(fresh, Pick("knee", fresh.trial(3), "mine"))

    assert find_pick(fresh, "knee").trial.number == 3
    names = [pick.name for pick in all_picks(fresh)]
    assert names.count("knee") == 1


def test_unknown_pick_lists_the_known_ones(fresh: Run):
    with pytest.raises(SelectionError, match=r"no pick 'service'; picks: balanced, .*best-cost"):
        find_pick(fresh, "service")


@pytest.mark.parametrize("name", ["no-regret", "knee", "balanced"])
def test_with_one_objective_there_is_only_its_best(tmp_path: Path, name: str):
    run = synthetic_run(tmp_path, names=("mean_heap",), n_trials=40)

    with pytest.raises(
        SelectionError, match=r"\(with one objective there is only best-mean_heap\)"
    ):
        find_pick(run, name)


def test_recommended_is_what_optimize_deploys(fresh: Run):
    with pytest.raises(SelectionError, match="deployed nothing here"):
        find_pick(fresh, RECOMMENDED)

    less = Configuration.of("glibc", {"mxfast": 0})
    write_record(fresh.folder, decision="deploy", configuration=less.key, trial=3)

    names = [pick.name for pick in picks_of(fresh)]
    assert (names.count(RECOMMENDED), find_pick(fresh, RECOMMENDED).trial.number) == (1, 3)
    assert find_configuration(fresh, RECOMMENDED) == less
    with pytest.raises(SelectionError, match=r"no pick 'service'; picks: recommended, balanced"):
        find_pick(fresh, "service")

    write_record(fresh.folder, decision="deploy", configuration=less.key)
    with pytest.raises(SelectionError, match="no trial stands behind what `malloc-tuner"):
        find_pick(fresh, RECOMMENDED)


def test_pick_of_another_campaign_is_refused(fresh: Run):
    for number in (1, 999):
        save_pick(fresh, Pick("service", replace(fresh.trials[2], number=number), ""))

        with pytest.raises(StoreError, match="pick is of another campaign"):
            find_pick(fresh, "service")


DAMAGED = (
    "",
    "{",
    "[]",
    "null",
    '{"schema": "x", "version": 1}',
    '{"schema": "malloc-tuner.pick", "version": 1}',
    '{"schema": "malloc-tuner.pick", "version": 1, "allocator": "glibc", "settings": 3}',
)


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_pick_is_an_error(fresh: Run, text: str):
    path = pick_path(fresh, "service")
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(StoreError, match=r"service\.json: is .* remove it and pick again"):
        find_pick(fresh, "service")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "x" * 65, "a b", "a\n"])
def test_unsafe_pick_names_are_refused(name: str):
    with pytest.raises(SpecError):
        check_pick_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "picks", "best", "front", "default", "dominated", "as-it-is", "17", "trial-5",
        "jemalloc-default", "recommended",
    ],
)  # fmt: skip
def test_names_that_mean_something_else_are_refused(fresh: Run, name: str):
    with pytest.raises(SpecError, match=f"pick name '{name}': it means something else"):
        save_pick(fresh, Pick(name, fresh.trial(3), "mine"))
    assert not (fresh.folder / "picks").exists()


# export and report


def exported(cli: CommandLine, run: Run, *arguments: object) -> tuple[dict[str, Any], str]:
    out, err = cli.run("export", run.folder, "--json", *arguments)
    return json.loads(out), err


def validated(folder: Path, sentence: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    write_run(synthetic_run(folder, n_trials=40, validation=True, failures=False))
    decision = ValidationDecision(None if sentence.startswith("Keep") else "no-regret", sentence)
    monkeypatch.setattr(summary, "recommend", lambda _: decision)
    return load_run(folder)


def test_what_a_validation_proves_may_have_less_than_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "v", "Deploy", monkeypatch)
    less = Configuration.of("glibc", {"x": 1})
    subjects = [replace(s, configuration=less) for s in run.validations[0].subjects]
    record = replace(run.validations[0], subjects=tuple(subjects))

    found = validated_pick(replace(run, validations=(record,)))

    assert isinstance(found, Pick)
    assert found.trial.configuration == less


def test_a_switch_that_a_validation_ran_with_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "v", "Deploy", monkeypatch)
    (record,) = run.validations
    conditions = replace(record.conditions, beside={"USE_ZEND_ALLOC": "0"})

    found = replace(run, validations=(replace(record, conditions=conditions),))

    assert "USE_ZEND_ALLOC=0" in library.export(found, form="env")
    assert "USE_ZEND_ALLOC" not in library.export(run, form="env")


def test_what_a_validation_proves_without_a_trial_has_no_emulated_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "v", "Deploy", monkeypatch)
    (record,) = run.validations
    less = Configuration.of("glibc", {"mxfast": 8})
    seen = (("cost", 0.9), ("mean_heap", 0.8))
    found = (
        replace(s, configuration=less, trial=None, expected=seen) if s.label == "no-regret" else s
        for s in record.subjects
    )
    run = replace(run, validations=(replace(record, subjects=tuple(found)),))

    document = json.loads(library.export(run, form="json", validation=record.identifier))
    text = library.export(run, form="env", validation=record.identifier)

    assert (document["pick"], document["settings"]) == (None, {"mxfast": 8})
    gains = [(g["emulated_ratio"], g["expected_ratio"]) for g in document["gain"]]
    assert gains == [(None, None)] * len(run.campaign.objectives)
    assert None not in [gain["verdict"] for gain in document["gain"]]
    assert f"validated: validation {record.identifier} of" in text


def test_export_before_any_validation_takes_what_costs_nothing_and_says_that_it_is_not_proven(
    kept: Run, cli: CommandLine
):
    no_regret = find_pick(kept, "no-regret").trial.number

    document, said = exported(cli, kept)

    assert document["pick"]["trial"] == no_regret
    assert f"trial {no_regret} (no-regret) is not proven on the program yet" in said


def test_export_takes_what_the_validation_recommends(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "app", "Deploy no-regret: mean heap -8 %.", monkeypatch)
    subjects = run.validations[0].subjects
    proven = next(one.trial for one in subjects if one.label == "no-regret")

    document, said = exported(cli, run)

    assert (document["pick"]["trial"], said) == (proven, "")
    assert document["pick"]["rule"] == "validation 1 on the program recommends it"
    assert document["validation"]["number"] == 1


def test_export_exports_nothing_that_the_program_disproved_unless_it_is_named(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "app", "Keep glibc's default: nothing gains.", monkeypatch)
    balanced = find_pick(run, "balanced").trial.number

    message = cli.fails(12, "export", run.folder)
    document, said = exported(cli, run, "--pick", "balanced")

    assert "validation 1: Keep glibc's default: nothing gains. To export a point" in message
    assert document["pick"]["trial"] == balanced
    assert "is not proven on the program; validation 1: Keep glibc's default" in said


def test_export_of_another_point_names_what_is_recommended(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    run = validated(tmp_path / "app", "Deploy no-regret: mean heap -8 %.", monkeypatch)

    _, said = exported(cli, run, "--pick", "balanced")

    assert "is not proven" not in said
    assert "is not the setting that validation 1 recommends: Deploy no-regret" in said
    assert said.endswith("-8 %. Without --pick, export writes that one.\n")


@pytest.mark.parametrize("command", [("export",), ("report", "--no-figures")])
def test_a_validation_is_chosen_by_its_number(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
):
    run = validated(tmp_path / "app", "Deploy no-regret: mean heap -8 %.", monkeypatch)
    name, *options = command

    cli.run(name, run.folder, *options, "--validation", "1")
    message = cli.fails(SelectionError.exit_code, name, run.folder, *options, "--validation", "7")

    assert "has no validation 7 of a program; there are: 1" in message


def deploys(run: Run, cli: CommandLine) -> bool:
    """Return whether the report has the command that deploys, which then must end well."""
    cli.run("report", run.folder, "--no-figures")
    is_told = "-o malloc.env" in (run.folder / "report.html").read_text()
    cli.run("export", run.folder, code=0 if is_told else SelectionError.exit_code)
    return is_told


def test_a_report_has_no_command_that_exports_nothing(fresh: Run, cli: CommandLine):
    assert deploys(fresh, cli)
    request = Request(("./app",), 60.0, ("glibc",))
    (fresh.folder / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    assert not deploys(fresh, cli), "no answer yet"
    for decision in ("keep", "undecided"):
        write_record(
            fresh.folder, decision=decision,
            as_is={"allocator": "glibc", "mean_memory": 1e6, "cpu_time": 1e9},
        )  # fmt: skip
        assert not deploys(fresh, cli)


@pytest.mark.parametrize("sentence", ["Keep", "Deploy"])
def test_a_report_of_a_validation_that_recommends_nothing_has_none_either(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, sentence: str
):
    run = validated(tmp_path / "v", sentence, monkeypatch)

    assert deploys(run, cli) is (sentence == "Deploy")


def test_a_report_says_which_of_several_validations_it_shows(tmp_path: Path, cli: CommandLine):
    one = synthetic_run(tmp_path / "app", n_trials=40, validation=True, failures=False)
    write_run(replace(one, validations=one.validations * 2))

    _, said = cli.run("report", one.folder, "--no-figures")

    assert "shows validation 2; for the other: --validation 1\n" in said


def test_a_validation_and_a_report_name_the_answer_of_the_folder(tmp_path: Path, cli: CommandLine):
    run = synthetic_run(tmp_path / "app", n_trials=40, validation=True, failures=False)
    write_run(run)
    key, (record,) = Configuration.of("glibc", {"top_pad": 3}).key, run.validations
    write_record(
        run.folder, decision="deploy", configuration=key, command=list(record.command),
        as_is={"allocator": "glibc", "mean_memory": 1e6, "cpu_time": 1e9},
    )  # fmt: skip
    said = "`optimize` deploys glibc top_pad=3, which this validation did not run."

    assert said in cli.prints("validate", run.folder).splitlines()
    document = json.loads(cli.prints("validate", run.folder, "--json"))
    assert document["answer"] == {"agreement": "did not run it", "sentence": said}
    request = Request(tuple(record.command), 60.0, ("glibc",))
    (run.folder / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    cli.run("report", run.folder, "--no-figures")
    assert f"Validation 1: {said}" in (run.folder / "report.html").read_text()
    steered = replace(REFERENCE, steered=("MALLOC_ARENA_MAX",))
    (run.folder / REFERENCE_FILE).write_text(json.dumps(steered.as_record()))
    assert "`optimize` deploys" not in cli.prints("validate", run.folder), "without it, too"


def test_changes_are_shares_of_what_the_validation_that_is_shown_measured(
    tmp_path: Path, cli: CommandLine
):
    drawn = synthetic_run(tmp_path / "app", n_trials=40, validation=True, failures=False)
    first = drawn.validations[0]
    more = [changed(s, mean_heap_bytes=9e9) for s in first.samples]
    workload = WorkloadRecord(program=(("cost", 9e15), ("mean_heap", 1.0)))
    write_run(
        replace(
            drawn,
            campaign=replace(drawn.campaign, workload=workload),
            validations=(first, replace(first, samples=tuple(more))),
        )
    )

    def headline(*options: str) -> str:
        cli.run("report", drawn.folder, "--no-figures", *options)
        page = (drawn.folder / "report.html").read_text()
        assert f"(medians of validation {options[-1] if options else 2})" in page
        return next(line for line in page.splitlines() if "In emulation" in line)

    assert headline("--validation", "1") != headline() == headline("--validation", "2")
    assert "(medians of validation 2)" in " ".join(cli.prints("front", drawn.folder).split())
    words = ("--best", "mean_heap", "--max", "cost=+0.1%", "--json")
    picked = json.loads(cli.prints("pick", drawn.folder, *words))
    assert picked["expected_of_program"]["cost"] <= 1.001


def test_exported_script_may_be_run(kept: Run, tmp_path: Path, cli: CommandLine):
    path = tmp_path / "malloc.sh"

    cli.run("export", kept.folder, "--trial", 0, "-o", path)

    assert path.stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("m.env", (), "#   or: docker run --env-file m.env IMAGE"),
        ("m.txt", (), "#   or: docker run --env-file m.txt IMAGE"),
        ("m.sh", (), "#!/bin/sh"),
        ("m.SH", (), "#!/bin/sh"),
        ("m.conf", (), "[Service]"),
        ("m.service", (), "[Service]"),
        ("m.dockerfile", (), "# use: at the end of the Dockerfile"),
        ("m.yml", (), "env:"),
        ("m.yaml", (), "env:"),
        ("m.json", (), "{"),
        ("m.yaml", ("--format", "systemd"), "[Service]"),
        ("m.sh", ("--json",), "{"),
    ],
)
def test_an_export_has_the_format_of_its_ending_where_none_is_given(
    tmp_path: Path, cli: CommandLine, name: str, words: tuple[str, ...], line: str
):
    path = tmp_path / name

    cli.run("export", "--setting", "glibc arena_max=1", *words, "-o", path)

    assert any(found.startswith(line) for found in path.read_text().splitlines())


def test_report_writes_one_page_into_the_run(fresh: Run, cli: CommandLine):
    out = cli.prints("report", fresh.folder, "--no-figures")

    assert out == f"{fresh.folder}/report.html\n"
    assert (fresh.folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_campaign_without_trials_is_an_error(tmp_path: Path, cli: CommandLine):
    run = replace(synthetic_run(tmp_path / "app", n_trials=4, rechecks=False), trials=())
    write_run(run)

    message = cli.fails(9, "front", run.folder)

    assert "no trial has ended yet" in message


# What is said of the workload


@pytest.fixture
def noted(tmp_path: Path) -> Run:
    plain = synthetic_run(tmp_path / "app", n_trials=40)
    workload = WorkloadRecord(
        notes=("exact replay of app.trace instead of the profile, because of tau",),
        resolution=(("mean_heap", 0.5), ("cost", 0.5)),
    )
    write_run(replace(plain, campaign=replace(plain.campaign, workload=workload)))
    return load_run(tmp_path / "app")


def test_every_output_says_what_is_to_be_known_of_the_workload(noted: Run, cli: CommandLine):
    (note,) = noted.campaign.workload.notes
    assert note in cli.prints("front", noted.folder)
    assert json.loads(cli.prints("front", noted.folder, "--format", "json"))["workload_notes"] == [
        note
    ]
    assert note in cli.prints("pick", noted.folder, "--balanced")
    assert json.loads(cli.prints("pick", noted.folder, "--balanced", "--json"))[
        "workload_notes"
    ] == [note]


@pytest.mark.slow
def test_the_report_says_what_is_to_be_known_of_the_workload(noted: Run, cli: CommandLine):
    (note,) = noted.campaign.workload.notes
    cli.prints("report", noted.folder)
    assert note in (noted.folder / "report.html").read_text()


def test_a_run_takes_for_equal_what_the_profile_cannot_resolve(noted: Run):
    assert {trial.resolution for trial in noted.trials} == {(("cost", 0.5), ("mean_heap", 0.5))}
