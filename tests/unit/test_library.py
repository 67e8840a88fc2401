"""The functions of `import tuner`: lazy, typed, the same that the commands call."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tuner
from tests.doubles.runs import synthetic_run
from tuner import library
from tuner.campaign.setup import CAMPAIGN_FILE
from tuner.config import dump_campaign
from tuner.errors import SpecError
from tuner.library import read_campaign

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "library.md"


def test_the_package_gives_its_functions() -> None:
    assert {name: getattr(tuner, name) for name in tuner.__all__} == {
        name: getattr(library, name) for name in tuner.__all__
    }


@pytest.mark.parametrize("name", tuner.__all__)
def test_every_function_is_typed_and_explained(name: str) -> None:
    function = getattr(tuner, name)
    signature = inspect.signature(function)

    assert "Raises:" in (function.__doc__ or "")
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import tuner; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(new - set(sys.stdlib_module_names))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert shown.stdout == "{'tuner'}\n"


def test_a_package_of_the_same_name_does_not_take_the_place_of_a_function() -> None:
    code = (
        "import tuner, tuner.export.formats, tuner.compare.plan\n"
        "print(*(callable(getattr(tuner, name)) for name in tuner.__all__))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert set(shown.stdout.split()) == {"True"}


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'measures'"):
        tuner.measures  # noqa: B018 - reading it is the test


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run as it stands, with a program of this machine and fewer evaluations."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    small = example.replace('"./app", "--input", "data"', '"ls", "/"')
    small = re.sub(r"evaluations=\d+", "evaluations=8", small).replace(
        "compare(run, program)", "compare(run, program, rounds=1, most_dominated=0)"
    )
    monkeypatch.chdir(tmp_path)

    subprocess.run([sys.executable, "-c", small], check=True)

    assert (tmp_path / "malloc.env").read_text().startswith("# ")


# Campaigns


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "demo.toml"
    path.write_text(
        'name = "demo"\ntrace = "demo.trace"\nallocators = ["glibc", "jemalloc"]\n'
        'evaluations = 200\nconstraints = ["peak_heap <= 2 GiB"]\n'
    )
    return path


def test_a_campaign_file_runs_in_the_folder_of_its_name(campaign: Path) -> None:
    spec, folder = read_campaign(campaign, None, {})

    assert Path("runs/demo") == folder
    assert campaign.with_name("demo.trace") == spec.trace
    assert spec.evaluations == 200


def test_options_replace_keys_of_the_file(campaign: Path) -> None:
    options = {"evaluations": 50, "constraints": ["cost <= default"], "seed": 7}

    spec, folder = read_campaign(campaign, Path("elsewhere"), options)

    assert Path("elsewhere") == folder
    assert (spec.evaluations, spec.constraints, spec.seed) == (50, ("cost <= default",), 7)
    assert spec.allocators == ("glibc", "jemalloc")


def test_an_option_of_a_table_keeps_the_rest_of_the_table(campaign: Path) -> None:
    campaign.write_text(campaign.read_text() + '[emulation]\ntimeout = "5 s"\n')
    options = {"emulation": {"threads": "free"}, "objectives": ["p99_latency"]}

    spec, _ = read_campaign(campaign, None, options)

    assert (spec.emulation.threads, spec.emulation.timeout_ns) == ("free", 5 * 10**9)


def test_a_trace_alone_is_a_campaign_of_all_allocators() -> None:
    spec, folder = read_campaign(None, None, {"trace": "/data/app.trace"})

    assert Path("runs/app") == folder
    assert spec.allocators == ("glibc", "tcmalloc", "jemalloc", "mimalloc", "exgen")
    assert spec.objectives == ("mean_heap", "cost")


def test_a_run_folder_continues_itself(campaign: Path, tmp_path: Path) -> None:
    spec, _ = read_campaign(campaign, None, {})
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / CAMPAIGN_FILE).write_text(dump_campaign(spec))

    again, same_folder = read_campaign(folder, None, {"evaluations": 400})

    assert folder == same_folder
    assert spec.model_copy(update={"evaluations": 400}) == again


def test_neither_campaign_nor_trace_is_an_error() -> None:
    with pytest.raises(SpecError, match="give a trace or a campaign file"):
        read_campaign(None, None, {})


def test_a_front_has_the_points_and_the_defaults() -> None:
    run = synthetic_run(n_trials=40)

    table = library.front(run, ["mean_heap"])

    assert table.objectives == ("mean_heap",)
    assert any(row.is_default for row in table.rows)
    assert [row.state for row in table.rows].count("front") == 1
