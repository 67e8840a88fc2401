"""Presets: read strictly, and exported with all a deployment should know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.export_readers import kubernetes_environment, shell_environment
from tests.doubles.places import ROOT
from tuner.cli import main
from tuner.config.preset import load_preset
from tuner.errors import OutputError, SettingError, SpecError
from tuner.export.deployment import Deployment
from tuner.export.formats import render
from tuner.export.sources import preset_deployment
from tuner.registry import EXPORTERS
from tuner.resources import native_file

PRESET = """
schema = 1
name = "mine"
purpose = "a test"
allocator = "exgen"
baseline = "glibc"
found_on = "2026-11-21"
found_by = "malloc-tuner tune"

[settings]
purge_delay = 100
slab_order = "fifo"

[gains.one]
mean_heap = 0.5
peak_heap = 1.0
cost = 2.0

[gains.two]
mean_heap = 2.0
peak_heap = 1.0
cost = 2.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(PRESET)
    return path


def exported(file: Path, **options: Any) -> Deployment:
    return preset_deployment(load_preset(file), **options)


def words(text: str) -> str:
    """Return a comment as one line."""
    return " ".join(text.replace("#", "").split())


# The files


def test_gains_are_joined_by_their_geometric_mean(file: Path) -> None:
    preset = load_preset(file)

    assert preset.gain("mean_heap") == pytest.approx(1.0)
    assert preset.gain("cost") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("purge_delay", "purge_dely", "settings.purge_dely: exgen has no setting"),
        ('"fifo"', "3", "settings.slab_order: 3 is not a text"),
        ('"exgen"', '"exgem"', "unknown; allowed: glibc"),
        ("schema = 1", "schema = 2", "schema = 2: must be 1"),
        ("cost = 2.0", "cost = 0.0", "gains.one.cost = 0.0: must be greater than 0"),
        ("purge_delay = 100", "check = true", "check is never set"),
    ],
)
def test_a_wrong_preset_is_refused_with_its_place(
    file: Path, old: str, new: str, expected: str
) -> None:
    file.write_text(PRESET.replace(old, new, 1))

    with pytest.raises(SpecError) as caught:
        load_preset(file)

    assert expected in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no\.toml"):
        load_preset(tmp_path / "no.toml")


# Exports


def test_a_preset_that_the_library_would_cut_back_is_refused(file: Path) -> None:
    file.write_text(
        PRESET.replace("purge_delay = 100", "small_max = 8192\nsuperblock_size = 16384")
    )

    with pytest.raises(SettingError, match="small_max = 8192 was not taken: 4096 is in effect"):
        exported(file)


def test_a_preset_becomes_the_environment_of_a_program(file: Path) -> None:
    found = exported(file)

    assert dict(found.variables) == {
        "LD_PRELOAD": str(native_file("libexgen.so")),
        "EXGEN_CONF": "purge_delay:100,slab_order:fifo",
    }


def test_the_comment_says_what_it_is_and_where_the_library_comes_from(file: Path) -> None:
    text = words(render(exported(file), "env"))

    assert "exgen 0.1.0, 2 settings" in text
    assert 'chosen: preset "mine": a test' in text
    assert "emulated from the workloads one, two" in text
    assert "cost against the default of glibc: +100.00 % emulated" in text
    assert "validated: not on your program" in text
    assert "library: comes with malloc-tuner, and is needed where the program runs" in text


@pytest.mark.parametrize("form", EXPORTERS)
def test_the_library_of_the_other_machine_is_named(file: Path, form: str) -> None:
    text = render(exported(file, library=Path("/usr/local/lib/libexgen.so")), form)

    assert "/usr/local/lib/libexgen.so" in text
    assert str(native_file("libexgen.so")) not in text


@pytest.mark.parametrize(
    ("library", "expected"),
    [("lib/libexgen.so", "needs a path from the root"), ("/a b/x.so", "blanks or colons")],
)
def test_a_library_that_cannot_be_preloaded_is_refused(
    file: Path, library: str, expected: str
) -> None:
    with pytest.raises(OutputError, match=expected):
        exported(file, library=Path(library))


def test_the_json_of_a_preset_has_neither_pick_nor_trace(file: Path) -> None:
    document = json.loads(render(exported(file), "json"))

    assert document["preset"] == {"name": "mine", "purpose": "a test"}
    assert document["pick"] is document["trace"] is document["campaign"] is None
    assert [gain["objective"] for gain in document["gain"]] == ["mean_heap", "peak_heap", "cost"]


# The commands


def test_one_command_writes_a_preset(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "service.env"

    assert main.run(["export", "--preset", str(file), "-o", str(path)]) == 0

    environment = shell_environment(f"set -a; . {path}; set +a")
    assert environment["LD_PRELOAD"] == str(native_file("libexgen.so"))
    assert environment["EXGEN_CONF"]
    assert "./service.env;" in path.read_text()
    assert "malloc.env" not in path.read_text()


def test_a_preset_for_a_container(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "--preset", str(file), "--format", "kubernetes"]

    assert main.run([*arguments, "--library", "/usr/lib/libexgen.so"]) == 0

    out = capsys.readouterr().out
    assert kubernetes_environment(out)["LD_PRELOAD"] == "/usr/lib/libexgen.so"
    assert "the image must hold /usr/lib/libexgen.so" in out


@pytest.mark.parametrize(
    "arguments",
    [[], ["runs/app", "--preset", "mine"], ["--preset", "mine", "--trial", "1"]],
)
def test_either_a_run_or_a_preset_is_exported(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["export", *arguments]) == 2
    assert "--preset" in capsys.readouterr().err


def test_the_example_of_the_documentation_is_a_preset(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "formats.md").read_text().partition("\n## Preset\n")[2]
    (tmp_path / "example.toml").write_text(section.partition("```toml\n")[2].partition("```")[0])

    assert load_preset(tmp_path / "example.toml").settings == {"narenas": 2, "dirty_decay_ms": 1000}
