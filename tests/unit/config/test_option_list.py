"""A search space made from an allocator's own list of settings: what follows, what is refused."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tuner.config import option_list, shipped_allocator_file
from tuner.config.allocator_file import AllocatorFile, load_allocator_file
from tuner.config.option_list import Option, complete, read_option_list
from tuner.errors import MissingToolError, SpecError
from tuner.resources import configs_dir

HEAD = (
    'schema = 1\nname = "exgen"\ntitle = "exgen"\noption_list = "list.json"\n'
    '[library]\npart = "libexgen.so"\n'
)


def option(**fields: Any) -> Option:
    """Return a setting of a list: by default a number of bytes from 0 to 1 MiB."""
    said = {
        "name": "delay",
        "kind": "number",
        "unit": "bytes",
        "scale": "log",
        "low": 0,
        "high": 1 << 20,
        "default": 8192,
        "effect": "e",
    }
    return Option.model_validate_json(json.dumps({**said, **fields}))


def choice(**fields: Any) -> Option:
    said = {"kind": "choice", "unit": "none", "scale": "category", "choices": ["a", "b", "c"]}
    return option(**{"low": None, "high": None, "default": "b", **said, **fields})


def levels(one: Option, **said: Any) -> tuple[Any, ...]:
    """Return the levels of a setting about which a file says something."""
    entry = {"name": one.name, **said} if said else None
    return _file([one], *([entry] if entry else [])).find(one.name).levels


def _file(options: list[Option], *entries: dict[str, Any], **never: str) -> AllocatorFile:
    data = {
        "schema": 1,
        "name": "exgen",
        "title": "exgen",
        "library": {"part": "libexgen.so"},
        "environment": {"variable": "EXGEN_{NAME}"},
        "parameters": list(entries),
        "never": never,
    }
    return AllocatorFile.model_validate_json(json.dumps(complete(data, options)))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (option(high=1 << 14), (0, 4096, None, 16384)),
        (option(low=100, high=1000, default=256), (128, None, 512)),
        (option(unit="ms", high=10, default=3), (0, 1, 2, None, 5, 10)),
        (option(unit="ms", high=10, default=0), (None, 1, 2, 5, 10)),
        (option(scale="power2", unit="count", low=1, high=8, default=8), (1, 2, 4, None)),
        (option(scale="linear", high=4, default=2), (0, 1, None, 3, 4)),
        (option(scale="linear", high=400, default=70), (0, 50, None, *range(100, 401, 50))),
        (choice(), (None, "a", "c")),
        (choice(kind="flag", choices=[], default=True), (None, False)),
    ],
)
def test_levels_follow_from_kind_scale_and_range(one: Option, expected: tuple[Any, ...]):
    assert expected == levels(one)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"low": "64 KiB"}, (0, None, 65536, 131072, 262144, 524288, 1048576)),
        ({"high": 8192, "specials": []}, (4096, None)),
        ({"values": [0, 4096, 8192, 12288]}, (0, 4096, None, 12288)),
        ({"scale": "linear", "low": 0, "high": 10000, "step": 5000}, (0, 5000, None, 10000)),
    ],
)
def test_a_file_may_narrow_or_replace_the_levels(said: dict[str, Any], expected: tuple[Any, ...]):
    assert expected == levels(option(), **said)


def test_a_setting_of_a_new_kind_is_searched_only_with_levels_of_the_file():
    sizes = option(kind="list", scale="none", low=None, high=None, default="")
    assert "no scale to search through" in _file([sizes]).never["delay"]
    assert levels(sizes, values=["16|32"]) == (None, "16|32")


def test_what_is_not_to_be_tuned_is_never_set_for_the_reason_in_the_list():
    file = _file([option(scale="never", effect="debugging")])
    assert (file.keys, file.never) == ((), {"delay": "debugging"})


def test_a_file_of_ones_own_may_tune_with_levels_what_the_list_leaves_alone():
    classes = option(kind="list", scale="never", default="")
    assert levels(classes, values=["16+32", "16+48"]) == (None, "16+32", "16+48")


def test_a_file_may_give_a_reason_not_to_tune():
    assert _file([option()], delay="inert here").never == {"delay": "inert here"}


def test_parents_stand_before_their_children_whatever_the_list_says():
    child, parent, other = option(name="child"), choice(name="parent"), option(name="other")
    file = _file([child, other, parent], {"name": "child", "when": _when("parent")})
    assert file.keys == ("parent", "child", "other")


def _when(parent: str) -> dict[str, Any]:
    return {"parameter": parent, "unless": ["b"]}


def test_a_circle_of_parents_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    circle = '[[parameters]]\nname = "a"\nwhen = { parameter = "b", values = [0] }\n'
    circle += '[[parameters]]\nname = "b"\nwhen = { parameter = "a", values = [0] }\n'
    message = _message(tmp_path, monkeypatch, circle, [option(name="a"), option(name="b")])
    assert "is not a parameter that stands before it" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[parameters]]\nname = "dely"\n', "dely: exgen has no such setting; did you mean"),
        ('[never]\ndely = "x"\n', "dely: exgen has no such setting; did you mean 'delay'?"),
        ('[[parameters]]\nname = "delay"\nhigh = "2 MiB"\n', "delay: 2097152 is not accepted"),
        ('[[parameters]]\nname = "delay"\nvalues = [-1]\n', "delay: -1 is not accepted"),
        ('[[parameters]]\nname = "delay"\nvalues = ["a"]\n', 'delay: "a" is not accepted'),
        ('[[parameters]]\nname = "delay"\ndefault = 3\n', "default comes from the list"),
        ('[[parameters]]\nname = "delay"\nlow = 3\nhigh = 8\n', "must be powers of two"),
        ('[[parameters]]\nname = "delay"\nscale = "log"\nlow = 1\nhigh = nan\n', "not a number"),
        ('[[parameters]]\nname = "delay"\nlow = true\n', "true is not a number"),
        ('[[parameters]]\nname = "delay"\nscale = "cubic"\n', 'scale "cubic": use log2, log'),
    ],
)
def test_a_file_that_has_drifted_from_the_list_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
):
    assert expected in _message(tmp_path, monkeypatch, text, [option()])


def _message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, options: list[Option]
) -> str:
    document = {"format": 1, "options": [one.model_dump() for one in options]}
    (folder / "list.json").write_text(json.dumps(document))
    monkeypatch.setattr(option_list, "native_file", folder.joinpath)
    path = folder / "own.toml"
    path.write_text(HEAD + text)
    with pytest.raises(SpecError) as caught:
        load_allocator_file(path)
    return str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "options": []}'])
def test_a_list_that_cannot_be_used_says_to_reinstall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    (tmp_path / "list.json").write_text(text)
    monkeypatch.setattr(option_list, "native_file", tmp_path.joinpath)
    with pytest.raises(MissingToolError, match="reinstall malloc-tuner"):
        read_option_list("list.json")


@pytest.mark.parametrize("name", ["exgen", "exgen-st"])
def test_every_setting_that_ships_is_searched_or_has_a_reason_not_to_be(name: str):
    file = shipped_allocator_file(name)
    listed = {option.name: option for option in read_option_list(file.option_list)}
    assert {*file.keys, *file.never} == listed.keys()
    for parameter in file.parameters:
        assert parameter.default == listed[parameter.name].default
        assert parameter.effect == listed[parameter.name].effect


def test_the_shipped_file_repeats_no_range_of_the_list():
    """A bound that the list has already would only be a copy that can drift."""
    listed = {option.name: option for option in read_option_list("exgen-options.json")}
    said = tomllib.loads((configs_dir() / "allocators" / "exgen.toml").read_text())
    for entry in said["parameters"]:
        natural = complete({"name": "exgen"}, [listed[entry["name"]]])["parameters"][0]
        repeated = [k for k in entry.keys() & natural.keys() if entry[k] == natural[k]]
        assert repeated == ["name"]
