"""A profile's digest is the same whether its windows are taken apart or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.places import ROOT
from tuner.errors import TraceError
from tuner.profile.file import profile_sha256, profile_text, read_profile, write_profile
from tuner.profile.identity import read_identity

PROFILE = ROOT / "configs/workloads/git-pack/git-pack.profile.json.zst"
SMALL: dict[str, Any] = {
    "schema": "malloc-tuner.profile",
    "version": 4,
    "kinds": [[0, 4, 32, 0]],
    "windows": [{"time_ns": 5, "fixed": [[0, -1], [2, 3, 4], []]}, {"time_ns": 7, "events": 0}],
    "metadata": {"argv": ['a "windows": [']},
    "fidelity": {"configurations": 3},
}


def test_the_windows_of_a_written_profile_are_not_taken_apart() -> None:
    members, digest = read_identity(PROFILE)
    whole = read_profile(PROFILE)

    assert digest == profile_sha256(whole)
    assert members == {**whole, "windows": []}


@pytest.mark.parametrize(
    "windows",
    [
        SMALL["windows"],
        [{"time_ns": 5}],
        [],
        [{}],
        [{"time_ns": 1.5}],
        [{"time_ns": True}],
        [{"time_ns": None}],
        [{"name": "a,b"}],
        [{"name": '},\n  {"x":'}],
        [{"Time": 1}],
        [{"inner": {"b": 1, "a": 2}}],
        [3],
    ],
)
def test_any_windows_give_the_digest_of_the_whole(tmp_path: Path, windows: list[Any]) -> None:
    path = tmp_path / "a.profile.json"
    profile = {**SMALL, "windows": windows}
    write_profile(path, profile)

    members, digest = read_identity(path)

    assert digest == profile_sha256(profile)
    assert members["metadata"] == SMALL["metadata"]


@pytest.mark.parametrize("form", ["pretty", "compact", "repeated", "toml"])
def test_any_layout_gives_the_same_digest(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("a.profile.toml" if form == "toml" else "a.profile.json")
    if form == "toml":
        write_profile(path, SMALL)
    elif form == "repeated":  # the last one of equal keys counts
        path.write_text(profile_text(SMALL).replace('"time_ns":5,', '"time_ns":1,"time_ns":5,'))
    else:
        path.write_text(json.dumps(SMALL, indent=2 if form == "pretty" else None))

    assert read_identity(path)[1] == profile_sha256(SMALL)


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.profile.json"
    path.write_text('{\n "schema": "other",\n "windows": [\n  {"a":1}\n ]\n}\n')

    with pytest.raises(TraceError, match="not a profile"):
        read_identity(path)
