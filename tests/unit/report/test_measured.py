"""What the program itself measured: front, forms, page."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.unit.optimize.answering.test_answer import DEPLOY
from tuner.cli import main
from tuner.errors import SelectionError, StoreError
from tuner.optimize.answering.answer import write_answer
from tuner.optimize.answering.table import AnswerRow
from tuner.optimize.aside import move_to_before
from tuner.optimize.proof.judgement import Gain
from tuner.optimize.quantities import CPU, MEAN, PEAK
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS
from tuner.report.measured import (
    MeasuredFront,
    cells_of,
    measured_csv,
    measured_figure,
    measured_front,
    measured_json,
    measured_text,
)
from tuner.report.page import render_measured
from tuner.runs import ANSWER_FILE, REQUEST_FILE, load_run


def row(label: str, mean: float, cpu: float, *, is_candidate: bool = False) -> AnswerRow:
    ends = (0.01, 0.01) if is_candidate else (math.inf, math.inf)
    gains = {name: Gain(-x, -x - ends[0], -x + ends[1]) for name, x in ((MEAN, mean), (CPU, cpu))}
    return AnswerRow(label, {**gains, PEAK: gains[MEAN]}, is_candidate=is_candidate)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "app"
    run.mkdir()
    rows = (
        row("jemalloc narenas=2", -0.1, 0.02, is_candidate=True),
        row("mimalloc", -0.05, -0.2),
        row("glibc mxfast=0", 0.01, 0.03),
        AnswerRow("exgen", {}, note="killed by SIGSEGV"),
    )
    fields = DEPLOY.__dict__ | {"rows": rows, "command": ("./app",), "date": "2026-01-02"}
    write_answer(run, type(DEPLOY)(**fields))
    request = Request(("./app",), 60.0, ("glibc",), is_direct=True)
    (run / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    return run


@pytest.fixture
def found(folder: Path) -> MeasuredFront:
    return measured_front(folder)


def test_the_front_is_that_of_the_goals_and_has_the_program_as_it_is(found: MeasuredFront):
    assert [one.label for one in found.front] == ["jemalloc narenas=2", "mimalloc"]
    assert [one.label for one in found.others] == [AS_IS, "glibc mxfast=0", "exgen"]


def test_an_earlier_answer_has_the_request_of_its_run(folder: Path):
    move_to_before(folder, (), copied=ANSWER_FILE)

    assert measured_front(folder / "before-1").goals == measured_front(folder).goals


def test_a_lucky_run_makes_no_front(folder: Path):
    lucky, other = row("exgen a=1", -0.2, -0.1), row("exgen b=1", -0.19, -0.3)
    changes = {**lucky.changes, CPU: replace(lucky.changes[CPU], smoothed=0.02)}
    gains = {**other.changes, MEAN: replace(other.changes[MEAN], smoothed=0.21)}
    rows = (replace(lucky, changes=changes), replace(other, changes=gains))
    write_answer(folder, replace(DEPLOY, rows=rows))

    found = measured_front(folder)

    assert [one.label for one in found.front] == ["exgen b=1"]
    text = measured_text(found, everything=True)
    words = "what had few runs is shown as a model of all runs expects it"
    proven = replace(other, changes=gains, is_candidate=True)
    write_answer(folder, replace(DEPLOY, rows=(rows[0], proven)))
    assert words not in measured_text(measured_front(folder)), "no row has few runs"
    assert "-18.9 %" in text, "the table shows what the place follows from"
    assert words in text
    document = json.loads(measured_json(found))
    (mine,) = [one for one in document["rows"] if one["label"] == "exgen b=1"]
    assert mine["changes"]["mean_memory"]["smoothed"] == pytest.approx(math.expm1(-0.21))
    assert mine["changes"]["cpu_time"]["smoothed"] is None
    cells = next(
        one
        for one in csv.DictReader(io.StringIO(measured_csv(found)))
        if one["label"] == "exgen b=1"
    )
    for name, values in mine["changes"].items():
        assert float(cells[f"{name}_change"]) == values["change"]
        assert cells[f"{name}_smoothed"] == str(values["smoothed"] or "")


def test_what_rounds_compared_is_shown_even_where_it_is_dominated(folder: Path):
    compared = replace(row("exgen a=1", 0.01, 0.02), is_candidate=True)
    write_answer(folder, replace(DEPLOY, rows=(compared, row("mimalloc", -0.1, -0.2))))

    assert "exgen a=1" in measured_text(measured_front(folder))


def test_the_program_as_it_is_ran_in_rounds_where_anything_did(found: MeasuredFront):
    few = replace(found, front=tuple(one for one in found.front if not one.is_candidate))
    as_is = found.others[0]

    assert found.is_of_rounds(as_is)
    assert not few.is_of_rounds(as_is)


def test_rounds_that_are_too_few_for_a_range_are_called_few_everywhere(folder: Path):
    few = replace(row("exgen a=1", -0.2, -0.1), is_candidate=True)
    write_answer(folder, replace(DEPLOY, rows=(few, row("mimalloc", -0.1, -0.2))))

    found = measured_front(folder)

    assert [few.ran, *map(found.ran, found.rows)].count("few rounds") == 2
    text = measured_text(found, everything=True)
    assert "few rounds\n" in text
    assert "CPU time, and memory beside it: few runs or rounds, no proof" in text
    page = render_measured(folder, found)
    assert [f'"runs">{words}</td>' in page for words in ("few rounds", "few runs")] == [True, True]


def test_the_page_says_what_a_row_with_few_runs_shows(folder: Path):
    words = "lie where all runs together say"
    plain = render_measured(folder, measured_front(folder))
    seen = row("exgen a=1", -0.2, -0.1)
    changes = {**seen.changes, CPU: replace(seen.changes[CPU], smoothed=0.02)}
    lucky = replace(seen, changes=changes)
    other = row("exgen b=1", -0.1, -0.3)
    pages = []
    for rows in ((lucky, other), (lucky,)):
        write_answer(folder, replace(DEPLOY, rows=rows))
        pages.append(render_measured(folder, measured_front(folder)))

    assert words not in plain
    assert all(words in page for page in pages)
    assert ["The dotted line" in page for page in pages] == [True, False], "one point is no line"


def test_the_page_has_the_front_first_then_by_gain_and_folds_the_rest(folder: Path):
    rows = (row("glibc a=1", 0.3, 0.3), row("glibc b=1", 0.1, 0.1), row("mimalloc", -0.1, -0.1))
    write_answer(folder, replace(DEPLOY, rows=rows))

    page = render_measured(folder, measured_front(folder))

    names = ("mimalloc", "as it is", "<details>", "glibc b=1", "glibc a=1")
    places = [page.rindex(f">{name}") if name[0] != "<" else page.index(name) for name in names]
    assert places == sorted(places)


def test_the_page_names_the_program_as_it_is_like_other_tables(folder: Path):
    page = render_measured(folder, measured_front(folder))

    assert '<th scope="row">as it is (glibc)' in page
    assert '<td class="num" data-label="mean memory"><span>' in page  # shown in a narrow window


def test_the_page_has_the_values_of_the_program_as_it_is(found: MeasuredFront):
    baseline = found.answer.baseline

    cells = {one.label: cells_of(one, baseline) for one in found.rows}

    assert all(re.fullmatch(r"[\d.,]+ (B|KiB|MiB|us|ms)", text) for text in cells[AS_IS])
    assert all(text.endswith(" %") for text in cells["mimalloc"])


def test_the_table_fits_and_says_what_ran_once(found: MeasuredFront):
    text = measured_text(found)

    assert max(map(len, text.splitlines())) <= 100
    assert "as it is (glibc)" in text
    assert "mimalloc" in text
    assert "few runs" in text
    assert "SIGSEGV" not in text
    assert "3 settings ran, few times or in rounds: " in text
    assert "2 more that are dominated or failed" in text, "and the program as it is, shown above"
    whole = measured_text(found, everything=True)
    assert "killed by SIGSEGV" in whole
    assert "dominated, few runs" in whole


def test_what_the_answer_deploys_is_shown_and_marked_though_another_dominates_it(folder: Path):
    winner = row("jemalloc narenas=2", -0.1, 0.02, is_candidate=True)
    rows = (row("exgen", -0.11, 0.01), row("glibc mxfast=0", 0.01, 0.03), winner)
    write_answer(folder, replace(DEPLOY, rows=rows))

    found = measured_front(folder)
    text = measured_text(found)

    assert found.is_answer(found.rows[0])
    assert not any(map(found.is_answer, found.rows[1:]))
    assert re.search(r"^as it is .*\njemalloc narenas=2 .*  deploy$", text, re.MULTILINE)
    assert "1 more that are dominated" in text
    assert '<th scope="row">jemalloc narenas=2 <span class="tag">deploy</span></th>' in (
        render_measured(folder, found)
    )


def test_the_page_of_the_current_folder_has_its_name(
    folder: Path, found: MeasuredFront, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)

    page = render_measured(Path(), found)

    assert f"<h1>{folder.name}</h1>" in page
    assert f"<title>{folder.name}" in page
    assert "No settings were searched in emulation." in page  # the program may be recorded


def test_json_and_csv_hold_all_rows(found: MeasuredFront):
    document = json.loads(measured_json(found))
    rows = list(csv.DictReader(io.StringIO(measured_csv(found))))

    assert document["goals"] == ["mean_memory", "cpu_time"]
    assert document["rows"][0]["changes"]["cpu_time"]["bounds"] is not None
    assert document["rows"][1]["changes"]["cpu_time"]["bounds"] is None
    assert [one["label"] for one in rows] == [one["label"] for one in document["rows"]]
    assert rows[1]["cpu_time_low"] == ""
    assert [one["state"] for one in rows][-1] == "failed"
    assert [json.loads(one["in_rounds"]) for one in rows] == [
        one["in_rounds"] for one in document["rows"]
    ]


def test_the_figure_draws_what_ran_well(found: MeasuredFront):
    figure = measured_figure(found)

    assert figure is not None
    drawn = json.dumps(figure.spec)
    assert "mimalloc" in drawn
    assert "exgen" not in drawn
    hollow = next(x["mark"] for x in figure.spec["layer"] if x["mark"].get("filled") is False)
    assert hollow["strokeWidth"] < 1.5, "a star of thick strokes has no hole"


def test_the_figure_marks_what_to_deploy_above_a_faint_cloud(found: MeasuredFront):
    looks = []
    for n in (3, 300):
        cloud = tuple(row(f"exgen a={i}", -0.1, -0.1) for i in range(n))
        figure = measured_figure(replace(found, others=cloud))
        assert figure is not None
        layers = figure.spec["layer"]
        largest = max(layers, key=lambda one: one["mark"].get("size", 0))
        assert [one["allocator"] for one in largest["data"]["values"]] == ["jemalloc"]
        assert [one["text"] for one in layers[-1]["data"]["values"]] == ["deploy"]
        looks.append(next(x["mark"] for x in layers if x["mark"].get("filled") is False))

    assert ["strokeOpacity" in look for look in looks] == [False, True]


def test_what_loses_much_does_not_crowd_the_others_into_a_corner(found: MeasuredFront):
    small = [row("jemalloc", -0.02, 0.0), row("exgen", 0.03, 0.0), row("mimalloc", 0.2, 0.0)]
    highs = []
    for rows in (small, [*small, row("tcmalloc", 0.15, 0.0, is_candidate=True)]):
        figure = measured_figure(replace(found, front=tuple(rows), others=()))
        assert figure is not None
        highs.append(figure.spec["layer"][-1]["encoding"]["x"]["scale"]["domain"][1])

    assert 3.0 < highs[0] < 4.0
    assert 16.0 < highs[1] < 18.0, "what ran in rounds is in the figure"


def test_the_line_of_the_front_is_that_of_the_plane(found: MeasuredFront):
    behind = row("glibc mxfast=0", 0.2, 0.2)

    figure = measured_figure(replace(found, front=(*found.front, behind)))

    assert figure is not None
    line = next(one for one in figure.spec["layer"] if one["mark"]["type"] == "line")
    corners = [round(point["x"], 1) for point in line["data"]["values"]]
    assert corners == [round(100 * one.changes[MEAN].change, 1) for one in found.front]


def test_the_caption_says_of_which_goals_the_dotted_line_is_the_front(
    folder: Path, found: MeasuredFront
):
    assert found.front_words == "The dotted line is the front."

    three = replace(found, goals=(MEAN, CPU, PEAK))

    assert three.front_words == (
        "The dotted line is the front of mean memory and CPU time. The rows marked front are those "
        "of peak memory as well, which is not drawn."
    )
    assert three.front_words in render_measured(folder, three)


def test_front_and_report_work_where_nothing_was_emulated(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main.run(["front", str(folder)]) == 0
    assert "Measured on the program itself" in capsys.readouterr().out
    assert main.run(["report", str(folder), "--no-figures"]) == 0
    page = (folder / "report.html").read_text()
    assert "Deploy jemalloc with narenas=2." in page
    assert "glibc mxfast=0" in page
    capsys.readouterr()
    for command in (("explain",), ("pick", "--balanced")):
        assert main.run([*command, str(folder)]) == 12
        assert "malloc-tuner front" in capsys.readouterr().err


def test_values_of_several_commands_are_said_to_be_means(folder: Path):
    words = "geometric means over the 2 commands"
    assert "geometric" not in measured_text(measured_front(folder))
    request = Request(("./app",), 60.0, ("glibc",), is_direct=True, further=(("./app", "b"),))
    (folder / REQUEST_FILE).write_text(json.dumps(request.as_record()))

    found = measured_front(folder)

    assert words in measured_text(found)
    assert words in render_measured(folder, found)


def test_a_long_command_is_folded(found: MeasuredFront):
    long = replace(found, answer=replace(found.answer, command=("./app", *["--option"] * 20)))

    assert max(map(len, measured_text(long).splitlines())) <= 100


def test_the_page_is_as_narrow_as_the_terminal(
    folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    settings = " ".join(f"setting_{n}={n}" for n in range(9))
    rows = (row(f"exgen {settings}", -0.2, -0.1), row("exgen", -0.1, -0.2, is_candidate=True))
    write_answer(folder, replace(DEPLOY, rows=rows, label=f"exgen {settings}"))
    monkeypatch.setenv("COLUMNS", "80")

    lines = cli.prints("front", "--measured", folder).splitlines()

    assert max(map(len, lines)) <= 80
    assert sum("setting_" in line for line in lines) > 3


def test_a_folder_without_an_answer_says_how_to_get_one(tmp_path: Path):
    folder = tmp_path / "my run"
    folder.mkdir()
    with pytest.raises(StoreError, match="holds no optimisation"):
        measured_front(folder)
    (folder / REQUEST_FILE).write_text(json.dumps(Request(("app",), 60.0, ("glibc",)).as_record()))
    with pytest.raises(SelectionError, match=r"optimize '.*my run'` goes on to one"):
        measured_front(folder)
    assert main.run(["validate", str(folder)]) == SelectionError.exit_code
    with pytest.raises(SelectionError, match=r"malloc-tuner front '.*my run'`"):
        load_run(folder)
