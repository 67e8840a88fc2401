"""A setting that was given is read back, and exported for a shell or a container."""

import json
import shutil
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.export_readers import kubernetes_environment, shell_environment
from tuner.errors import SettingError, SpecError
from tuner.export.formats import render
from tuner.export.sources import setting_deployment
from tuner.library import settings_of
from tuner.optimize.tuned import label_of
from tuner.records import Configuration
from tuner.registry import EXPORTERS
from tuner.resources import native_file

SETTING = "exgen purge_delay=100 slab_order=fifo"


def setting_of(text: str) -> Configuration:
    return settings_of([text])[0][0]


def test_what_tables_print_is_understood():
    assert label_of(setting_of(SETTING)) == SETTING
    assert setting_of(label_of(Configuration("exgen"))) == Configuration("exgen")


def test_a_setting_is_of_the_library_that_the_allocators_name(tmp_path: Path):
    library = shutil.copy(native_file("libexgen.so"), tmp_path / "libmine.so")

    _, files = settings_of([SETTING], ["glibc", f"exgen:{library}"])

    assert [here.library for _, here in files.values()] == [library, None]


def test_a_setting_that_the_library_would_cut_back_is_refused():
    setting = setting_of("exgen small_max=8192 superblock_size=16384")

    with pytest.raises(SettingError, match="small_max = 8192 was not taken: 4096 is in effect"):
        setting_deployment(setting)


def test_the_comment_says_what_it_is_and_where_the_library_comes_from():
    found = setting_deployment(setting_of(SETTING))
    text = " ".join(render(found, "env").replace("#", "").split())

    assert dict(found.variables) == {
        "LD_PRELOAD": str(native_file("libexgen.so")),
        "EXGEN_CONF": "purge_delay:100,slab_order:fifo",
    }
    assert "exgen 0.1.0, 2 settings" in text
    assert "validated: not on your program" in text
    assert "library: comes with malloc-tuner, and is needed where the program runs" in text
    assert "export again with --library" in text


@pytest.mark.parametrize("form", EXPORTERS)
def test_the_library_of_the_other_machine_is_named(form: str):
    found = setting_deployment(setting_of(SETTING), Path("/usr/local/lib/libexgen.so"))
    text = render(found, form)

    assert "/usr/local/lib/libexgen.so" in text
    assert str(native_file("libexgen.so")) not in text
    assert "export again" not in text


@pytest.mark.parametrize(
    ("library", "expected"),
    [("lib/libexgen.so", "needs a path from the root"), ("/a b/x.so", "blanks or colons")],
)
def test_a_library_that_cannot_be_preloaded_is_refused(library: str, expected: str):
    with pytest.raises(SpecError, match=expected):
        setting_deployment(setting_of(SETTING), Path(library))


def test_the_json_of_a_setting_has_neither_pick_nor_gain():
    document = json.loads(render(setting_deployment(setting_of(SETTING)), "json"))

    assert document["pick"] is document["trace"] is document["campaign"] is document["date"] is None
    assert document["gain"] == []


def test_one_command_writes_a_setting(tmp_path: Path, cli: CommandLine):
    path = tmp_path / "service.env"

    assert cli.prints("export", "--setting", SETTING, "-o", path) == f"wrote {path}\n"

    environment = shell_environment(f"set -a; . {path}; set +a")
    assert environment["LD_PRELOAD"] == str(native_file("libexgen.so"))
    assert environment["EXGEN_CONF"]
    assert "./service.env;" in path.read_text()
    assert "malloc.env" not in path.read_text()


def test_a_setting_for_a_container(cli: CommandLine):
    arguments = ["export", "--setting", SETTING, "--format", "kubernetes"]

    out = cli.prints(*arguments, "--library", "/usr/lib/libexgen.so")
    assert kubernetes_environment(out)["LD_PRELOAD"] == "/usr/lib/libexgen.so"
    assert "the image must hold /usr/lib/libexgen.so" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "--setting"),
        (["runs/app", "--setting", "exgen"], 2, "--setting"),
        (["--setting", "exgen", "--trial", "1"], 2, "--setting"),
        (["--setting", "exgem"], 3, "did you mean 'exgen'?"),
        (["--setting", ""], 3, "allocator"),
        (["--setting", "exgen purge_dely=1"], 3, "did you mean 'purge_delay'?"),
        (["--setting", "exgen purge_delay=1 purge_delay=2"], 3, "sets something twice"),
        (["--setting", "exgen check=true"], 3, "check"),
    ],
)
def test_what_is_no_setting_is_refused(
    arguments: list[str], code: int, words: str, cli: CommandLine
):
    assert words in cli.run("export", *arguments, code=code)[1]
