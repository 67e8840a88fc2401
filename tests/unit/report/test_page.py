"""The page stands alone, says what is there, and survives poor and hostile campaigns."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.doubles.answers import write_record
from tests.doubles.runs import MIB, failed_trial, measurement, synthetic_run, write_run
from tests.doubles.small_runs import BASELINE, BETTER, DOMINATED, run_of
from tests.doubles.small_runs import RUN as SMALL_RUN
from tuner.drawing.figure import described, embedding_script
from tuner.optimize.request import Request
from tuner.records import Configuration, Outcome, Status
from tuner.report.page import Report, compute_report, figures_of, render_page
from tuner.runs import REQUEST_FILE, Run, load_run

pytestmark = pytest.mark.slow

CASES: Mapping[str, dict[str, Any]] = {
    "full": {"validation": True, "n_trials": 80},
    "without validation": {"n_trials": 40},
    "one allocator": {"allocators": ("jemalloc",), "n_trials": 30},
    "three objectives": {"names": ("mean_heap", "cost", "faults"), "n_trials": 40},
    "one objective": {"names": ("mean_heap",), "n_trials": 30},
    "one trial": {"allocators": ("glibc",), "n_trials": 1, "rechecks": False},
    "many points": {"n_trials": 400, "spread": 0.05},
}
"""Arguments of `synthetic_run` by the name of what is special."""


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.open: list[str] = []
        self.visible: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.links += [found[name] for name in ("src", "href") if name in found]
        self.ids.add(found.get("id", ""))
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.visible.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.visible).split())

    @property
    def figure_text(self) -> str:
        pattern = r'<script type="application/json" id="figures">(.*?)</script>'
        (found,) = re.findall(pattern, self.text, re.DOTALL)
        return str(found)

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        figures: dict[str, dict[str, Any]] = json.loads(self.figure_text)
        return figures


def page_of(run: Run) -> Page:
    return Page(render_page(compute_report(run)))


@pytest.fixture(scope="module", params=CASES)
def report(request: pytest.FixtureRequest) -> Report:
    return compute_report(synthetic_run(**CASES[request.param]))


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return Page(render_page(report))


def test_page_is_well_formed_and_needs_nothing_from_outside(page: Page):
    assert page.open == []
    assert page.links == []
    assert "@import" not in page.text.split("<script", maxsplit=1)[0]
    assert page.text.count("window.vegaEmbed=") == 1


def test_data_cannot_end_the_element_it_stands_in(page: Page):
    assert "<" not in page.figure_text


def test_page_forbids_the_browser_every_connection(page: Page):
    head = page.text.split("<style>", maxsplit=1)[0]

    assert "Content-Security-Policy\" content=\"default-src 'none';" in head
    assert "connect-src" not in head
    assert "unsafe-eval" not in head
    assert "editor: false" in page.text


def with_few_rows(spec: Any) -> Any:
    """Return a description with two rows of each table: the schema is the same for all rows."""
    if isinstance(spec, list):
        return [with_few_rows(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    if set(spec) == {"values"}:
        return {"values": spec["values"][:2]}
    return {name: with_few_rows(part) for name, part in spec.items()}


def test_page_and_figures_turn_dark_with_the_browser_but_not_on_paper(page: Page):
    style = page.text.split("</style>", maxsplit=1)[0]
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")

    of_light, of_dark = (set(re.findall(r"(--[a-z]+): #", text)) for text in (light, dark))
    assert of_light == of_dark
    assert ".plot .marks { filter: invert" in dark
    assert 'name="color-scheme" content="light dark"' in style


def test_every_figure_has_its_place_and_obeys_the_schema_of_vega_lite(page: Page):
    assert page.figures
    schema = alt.load_schema()
    checker = jsonschema.validators.validator_for(schema)(schema)
    for name, figure in page.figures.items():
        assert name in page.ids
        checker.validate(with_few_rows(figure))


def test_allocators_of_the_front_differ_in_colour_and_marker(report: Report, page: Page):
    front = next(figure for name, figure in page.figures.items() if name.startswith("front"))
    scales = [
        part["encoding"][channel]["scale"]
        for part in front["layer"]
        for channel in ("color", "shape")
        if "domain" in (part["encoding"].get(channel, {}).get("scale") or {})
    ]

    assert {tuple(scale["domain"]) for scale in scales} == {tuple(report.run.campaign.allocators)}
    assert all(len(set(scale["range"])) == len(scale["range"]) for scale in scales)


def test_marks_say_which_trial_they_are(page: Page, report: Report):
    front = next(figure for name, figure in page.figures.items() if name.startswith("front"))
    tips = {row["tip"] for part in front["layer"] for row in part["data"]["values"] if "tip" in row}

    for point in report.pareto[0].points:
        assert any(f"trial {point.trial.number}" in tip for tip in tips)


# Figures


def test_every_plot_has_a_figure():
    run = synthetic_run(n_trials=30, allocators=("glibc", "jemalloc"), validation=True)

    names = [figure.name for figure in figures_of(compute_report(run))]

    assert names == [
        *("front", "claims-mean_heap", "claims-cost", "heap", "hypervolume"),
        *("settings-glibc", "settings-jemalloc"),
    ]


def test_the_legend_of_claims_shows_the_marks_as_they_are_drawn():
    run = synthetic_run(n_trials=30, allocators=("glibc", "jemalloc"), validation=True)
    figure = next(f for f in figures_of(compute_report(run)) if f.name == "claims-cost")

    (looks,) = [one["encoding"] for one in figure.spec["layer"] if "color" in one["encoding"]]

    for channel in ("color", "shape"):
        assert looks[channel]["field"] == "series"
        assert len(set(looks[channel]["scale"]["range"])) == 2


def test_figures_of_three_objectives_are_one_per_pair():
    run = synthetic_run(names=("mean_heap", "cost", "faults"), allocators=("glibc",), n_trials=8)

    names = {figure.name for figure in figures_of(compute_report(run))}

    assert {"front-mean_heap-cost", "front-mean_heap-faults", "front-cost-faults"} <= names


def test_page_and_files_draw_the_same_descriptions():
    report = compute_report(synthetic_run(n_trials=30))

    page = Page(render_page(report))

    found = {figure.name: described(figure) for figure in figures_of(report)}
    assert page.figures == json.loads(json.dumps(found))


# What the words say


def test_page_holds_gain_protocol_and_commands():
    words = page_of(synthetic_run(n_trials=300)).words

    for expected in (
        "In emulation, no-regret (jemalloc with 2 settings, trial 25) changes mean heap by ",
        "4.97 % and cost by -7.48 %",
        "Validate it on the program before you deploy it.",
        "against glibc's default.",
        "All numbers on this page are emulated.",
        "instructions + 1,650 \N{MULTIPLICATION SIGN} page faults",
        "transparent huge pages madvise",
        "300 of 300 distinct configurations",
        "a line runs below it where blocks were never touched.",
        "9 refused, 1 timed out, 1 failed",
        "malloc-tuner tune runs/synthetic/campaign.toml",
    ):
        assert expected in words


def test_page_sets_claims_beside_what_was_validated():
    words = page_of(synthetic_run(n_trials=300, validation=True)).words

    assert "gs -dBATCH -dNOPAUSE -sDEVICE=nullpage report.ps" in words
    assert "7 complete rounds" in words
    assert "On the real program, no-regret: mean heap " in words
    assert "Kendall's tau" in words
    assert "CPU time, claimed as cost" in words
    assert "All numbers on this page are emulated." not in words


def test_output_that_was_ignored_is_not_said_to_be_equal():
    run = synthetic_run(n_trials=30, validation=True)
    (record,) = run.validations

    for output, said in (("stdout", "status and output had to"), ("ignored", "output was ignored")):
        conditions = replace(record.conditions, output=output)
        shown = replace(run, validations=(replace(record, conditions=conditions),))
        assert said in page_of(shown).words


@pytest.mark.parametrize("n_samples", [0, 1])
def test_page_of_a_validation_that_ranks_nothing(n_samples: int):
    run = synthetic_run(n_trials=80, validation=True)
    (record,) = run.validations
    base = [sample for sample in record.samples if sample.label == record.baseline]
    stopped = replace(record, samples=tuple(base[:n_samples]))

    words = page_of(replace(run, validations=(stopped,))).words

    assert "0 complete rounds" in words
    assert "Kendall's tau" not in words


def test_page_of_a_campaign_without_any_success():
    run = synthetic_run(n_trials=4, rechecks=False)
    failed = failed_trial(0, Configuration("glibc"), Status.FAILED, "malloc returned NULL")
    run = replace(run, trials=(failed,), campaign=replace(run.campaign, reference=None))

    words = page_of(run).words

    assert "No configuration succeeded and held every constraint." in words
    assert "1 failed" in words


def test_what_lies_outside_of_another_view_than_the_first_is_said_too():
    seen = measurement(90.0 * MIB, 0.95e8, faults=10**9)
    far = replace(DOMINATED, outcome=Outcome.succeeded(seen))
    run = run_of(BASELINE, BETTER, far, names=("mean_heap", "cost", "faults"))

    assert "“all points” shows what lies outside the first view" in page_of(run).words


def test_the_command_that_the_page_names_holds_for_every_folder():
    words = page_of(replace(SMALL_RUN, folder=Path("a b"))).words

    assert words.count("malloc-tuner validate 'a b' -- PROGRAM") == 2


def test_page_of_an_interrupted_campaign_says_so():
    run = synthetic_run(n_trials=10)

    words = page_of(replace(run, campaign=replace(run.campaign, status="interrupted"))).words

    assert "the campaign is interrupted" in words


HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>')


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_campaign_becomes_markup(text: str):
    run = synthetic_run(n_trials=30, validation=True)
    odd = replace(run.trials[5], configuration=Configuration.of("jemalloc", {"malloc_conf": text}))
    run = replace(
        run,
        campaign=replace(run.campaign, name=text, trace_path=f"/x/{text}"),
        trials=(*run.trials[:5], odd, *run.trials[6:]),
        validations=(replace(run.validations[0], command=(text,)),),
    )

    page = page_of(run)

    assert page.open == []
    assert page.links == []
    assert "<img" not in page.text.replace(embedding_script(), "")
    assert text in " ".join(page.visible)
    assert page.figure_text.count("<img") == 0


def test_report_reads_the_run_that_the_store_keeps(tmp_path: Path):
    run = synthetic_run(tmp_path / "run", n_trials=40, validation=True)
    write_run(run)

    stored = compute_report(load_run(run.folder))

    assert stored.pareto == compute_report(run).pareto
    assert stored.history == compute_report(run).history
    assert stored.heap == compute_report(run).heap


def test_the_answer_of_an_optimisation_leads_the_page(tmp_path: Path):
    run = synthetic_run(n_trials=20)
    campaign = replace(run.campaign, status="interrupted")
    folder = write_run(replace(run, folder=tmp_path / "run", campaign=campaign))
    request = Request(("./app",), 60.0, ("glibc",))
    (folder / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    write_record(
        folder,
        decision="deploy",
        configuration=run.trials[1].configuration.key,
        trial=1,
        sentence="Keep glibc as it is.",
        text=["Keep glibc as it is.", "  Nearest: <jemalloc>."],
        command=["./app", "my file"],
        as_is={"allocator": "jemalloc", "mean_memory": 1e6, "cpu_time": 1e9},
    )

    text = " ".join(" ".join(page_of(load_run(folder)).visible).split())

    assert "those on the program against the program as it is (jemalloc)" in text
    assert "Keep glibc as it is." in text
    assert "Nearest: <jemalloc>." in text
    assert "./app 'my file'" in text
    assert "ran 43 times" in text
    assert f"{campaign.name} ({tmp_path.name}/run)" in text
    assert "recommended" in text
    assert "the campaign is interrupted" not in text
    assert "Nothing was run on the real program" not in text
    assert "before you deploy" not in text
    assert "interrupted" not in text
    assert "prove it on the program" not in text


@pytest.mark.parametrize(
    ("deployed", "shown"),
    [({"mxfast": 0}, [1]), ({"mxfast": 0, "top_pad": 0}, [3]), ({"top_pad": 0}, [])],
)
def test_what_settings_do_is_said_of_what_is_deployed(
    deployed: dict[str, int], shown: list[int], tmp_path: Path
):
    """The point of the plots is the same trial; where none is it, the one with more settings."""
    chosen = Configuration.of("glibc", deployed)
    request = Request(("./app",), 60.0, ("glibc",))
    (tmp_path / REQUEST_FILE).write_text(json.dumps(request.as_record()))
    as_is = {"allocator": "glibc", "mean_memory": 1e6, "cpu_time": 1e9}
    write_record(tmp_path, decision="deploy", configuration=chosen.key, trial=3, as_is=as_is)

    found = compute_report(replace(SMALL_RUN, folder=tmp_path))

    named = [one.pick for one in found.ablations if one.pick.name == "recommended"]
    assert [pick.trial.number for pick in named] == shown
    assert [p.trial.number for p in found.picks if p.name == "recommended"] == (shown or [3])


def test_page_shows_what_a_setting_of_a_pick_does():
    text = render_page(compute_report(SMALL_RUN))

    assert "<code>top_pad=<b>0</b></code>" in text
    assert "-37.5" in text.replace("\N{MINUS SIGN}", "-")
