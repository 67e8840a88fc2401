"""What a profile may hold, in JSON and TOML, and how what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.fitted import ON_FILES, fitted, refusal
from tests.doubles.traces import TraceMaker, load, write_mixed_trace
from tuner.cli.main import run
from tuner.errors import TraceError
from tuner.profile.file import (
    is_profile,
    profile_text,
    profile_toml,
    read_profile,
    workload_sha256,
    write_profile,
)
from tuner.profile.fit import fit
from tuner.trace.file import Trace


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("schema", "other", "the schema is not malloc-tuner.profile"),
        ("version", 5, "version 5 is newer than 4"),
        ("end_ns", 0, "the process ends before its last event"),
        ("start_ns", 1 << 60, "the process ends before it starts"),
        ("start_ns", -1, "a whole number from 0"),
        ("version", 0, "a whole number from 1"),
        ("threads", 1, "a whole number from 0 to 0 is wanted"),
        ("threads", 4, "some thread never starts"),
        ("surplus", 1, "an unknown, repeated or misplaced key"),
        ("parts", 0, "a whole number from 1 to 4096"),
        ("kinds", [[0, 0, 8]], r"a kind is [op"),
        ("kinds", [[0, 0, 8, 0, -1, 0, 9, 0]], "a step comes after a free"),
        (
            "kinds",
            [[0, 0, 8192, 0, -1, 0, [0, 0]]],
            "needs what is touched at its allocation and at each",
        ),
        (
            "kinds",
            [[0, 0, 8192, 0, 9, 0, [0]]],
            "needs what is touched at its allocation and at each",
        ),
        ("kinds", [[0, 0, 8192, 0, [-2]]], "a whole number from -1"),
        ("kinds", [[0, 0, 8192, 0, 5]], r"a kind is [op"),
        ("duration_ns", 0, "the last window begins behind the end"),
    ],
)
def test_a_wrong_member_is_named(
    tmp_path: Path, profile: dict[str, Any], member: str, value: object, message: str
):
    assert message in refusal(tmp_path / "bad.json", {**profile, member: value})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("allocations", 10**6, "not as many as its allocations"),
        ("lives", [[0]], "a code per step"),
        ("lives", [[10**6, 0, 1]], "is wanted"),
        ("fixed", [[0]], "a fixed life is"),
        ("fixed", [[0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]], "perhaps a rank per step"),
        ("threads", [[6, 1]], "a thread exits that does not run"),
        ("surprise", 1, "an unknown key of a window"),
    ],
)
def test_a_wrong_window_is_named(
    tmp_path: Path, profile: dict[str, Any], key: str, value: object, message: str
):
    profile["windows"][0][key] = value
    assert message in refusal(tmp_path / "bad.json", profile)


def test_a_profile_that_claims_too_many_events_is_refused_before_it_generates(
    tmp_path: Path, profile: dict[str, Any]
):
    window = profile["windows"][0]
    kind = next(number for number, kind in enumerate(profile["kinds"]) if len(kind) == 4)
    window["lives"].append([kind, (1 << 28) - window["allocations"]])
    window["allocations"] = 1 << 28
    assert "more than 268435456 events" in refusal(tmp_path / "huge.json", profile)


@ON_FILES
@given(data=st.data())
def test_a_cut_off_profile_is_refused(tmp_path: Path, profile: dict[str, Any], data: st.DataObject):
    text = profile_text(profile).rstrip()
    path = tmp_path / "cut.json"
    path.write_text(text[: data.draw(st.integers(1, len(text) - 1))])
    with pytest.raises(TraceError):
        Trace(path)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"version": 4', '"version" 4'),
        ('"version": 4', '"version":: 3'),
        ('"version": 4', '"version": 03'),
        ('"version": 4', '"version": 4x'),
        ('"version": 4', '"version": 4, "source"'),
        ('"version": 4,', '"version": 4'),
        ('"version": 4,', '"version": 4,,'),
        ('"version": 4', '"version": 4, "source": [1 2]'),
        ('"version": 4', '"version": 4, "source": {"a": tree}'),
        ("}\n", ",}\n"),
        ("}\n", "}}\n"),
        ("}\n", "}\n{}"),
        ("}\n", "}\n\0"),
    ],
)
def test_what_is_nearly_json_is_refused(
    tmp_path: Path, profile: dict[str, Any], good: str, bad: str
):
    text = json.dumps(profile) + "\n"
    assert text.count(good) == 1
    path = tmp_path / "nearly.json"
    path.write_text(text)
    with Trace(path):
        pass
    path.write_text(text.replace(good, bad))
    with pytest.raises(TraceError, match=r"byte \d+: "):
        Trace(path)


def test_a_profile_in_toml_generates_what_it_does_in_json(tmp_path: Path):
    profile = fitted(write_mixed_trace(tmp_path / "mixed.trace", 3, 3000))
    members = read_profile(profile)
    members["metadata"] |= {"wall_s": None, 'quo"te key': 'a \\ "b" \n é', "argv": ["a", "b c"]}
    members["fidelity"] = {
        "metrics": {"peak_heap": {"tau": None, "families": {"glibc": {"a": 0.5}}}}
    }
    toml = tmp_path / "app.profile.toml"
    write_profile(toml, members)
    write_profile(profile, members)
    assert toml.read_text().startswith('schema = "malloc-tuner.profile"')
    assert np.array_equal(load(toml, 7), load(profile, 7))
    assert workload_sha256(toml) == workload_sha256(profile)
    assert is_profile(toml)
    with Trace(toml) as one, Trace(profile) as other:
        assert one.metadata["argv"] == other.metadata["argv"] == ["a", "b c"]
        assert one.metadata['quo"te key'] == other.metadata['quo"te key']
    assert "wall_s" not in read_profile(toml)["metadata"]
    write_profile(tmp_path / "again.json", read_profile(toml))
    assert np.array_equal(load(tmp_path / "again.json"), load(profile))


def test_toml_has_a_line_for_each_kind_and_for_the_numbers_of_a_window(
    tmp_path: Path, profile: dict[str, Any]
):
    """It is there to be edited and reviewed; a line for each number was twelve times as long."""
    words = {**profile, "metadata": {"argv": ["[ a,  b, ]"]}}
    kinds = [[0, 0, 64, 0, -1, 0], [0, 0, 295000, 0, -1, 0, [71, 8]]]
    text = profile_toml({**words, "kinds": kinds, "threads": [1, 2]})
    assert "kinds = [\n    [0, 0, 64, 0, -1, 0],\n    [0, 0, 295000, 0, -1, 0, [71, 8]],\n]" in text
    assert "threads = [1, 2]\n" in text
    assert '"[ a,  b, ]"' in text


def test_toml_may_begin_with_comments_and_be_in_any_order(tmp_path: Path, profile: dict[str, Any]):
    path = tmp_path / "app.profile.toml"
    turned = {"schema": profile["schema"], **dict(reversed(list(profile.items())))}
    path.write_text("# reviewed\n\n" + profile_toml(turned))
    assert len(load(path)) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('schema = "malloc-tuner.profile"\nversion = = 1', "line 2"),
        ('schema = "malloc-tuner.profile"\nversion = 5', "newer than 4"),
        ('schema = "other"\nversion = 1', "the schema is not"),
        ('schema = "malloc-tuner.profile"\nversion = "1"', "a number is missing"),
        ("schema = " + "[" * 5000, "line 1"),
    ],
)
def test_wrong_toml_is_named(tmp_path: Path, text: str, message: str):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        Trace(path)


def test_fit_writes_toml_by_the_name(tmp_path: Path):
    trace = write_mixed_trace(tmp_path / "mixed.trace", 2, 2000)
    output = tmp_path / "app.profile.toml"
    assert run(["fit", str(trace), "-o", str(output)]) == 0
    assert run(["vary", str(output), "-o", str(tmp_path / "two.toml"), "--size", "2"]) == 0
    assert run(["trace", "info", str(tmp_path / "two.toml")]) == 0


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_profile_keeps_start_and_end_of_the_process(tmp_path: Path, suffix: str):
    maker = TraceMaker()
    maker.pause(50_000)
    maker.free(maker.allocate(100))
    trace, profile = tmp_path / "a.trace", tmp_path / f"a.{suffix}"
    for life in ((0, 900_000), (10_000, None), (None, None)):
        maker.write(trace, life)
        with Trace(trace) as opened:
            write_profile(profile, fit(opened))
        with Trace(profile) as generated:
            assert (generated.totals.start_ns, generated.totals.end_ns) == life


def test_what_generates_can_be_varied_whatever_it_leaves_out(tmp_path: Path):
    least = {
        "schema": "malloc-tuner.profile", "version": 4, "metadata": {}, "threads": 1, "parts": 1,
        "kinds": [[0, 0, 8, 0]], "windows": [{"allocations": 1, "lives": [[0, 1]]}, {}],
    }  # fmt: skip
    path, varied = tmp_path / "least.json", tmp_path / "varied.toml"
    path.write_text(json.dumps(least))
    assert len(load(path)) == 1
    for change in (["--size", "2"], ["--aged", "1KiB"], ["--threads", "3"]):
        assert run(["vary", str(path), "-o", str(varied), *change]) == 0
        assert len(load(varied)) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"dhatFileVersion": 2}', "`malloc-tuner import` reads what other tools write"),
        ('{"schema": ' + "[" * 100_000, "not a readable profile: maximum recursion"),
        ('{"schema": "malloc-tuner.profile", "version": 4, "source": "mine"}', "are tables"),
        ('{"schema": "malloc-tuner.profile", "version": 4, "source": {"trace": 1}}', "are tables"),
        (
            '{"schema": "malloc-tuner.profile", "version": 4, "source": {"varied": {"a": 1}}}',
            "varied in it is a list",
        ),
    ],
)
def test_what_describes_is_refused_where_it_cannot_be_used(tmp_path: Path, text: str, message: str):
    (tmp_path / "a.profile").write_text(text)
    with pytest.raises(TraceError, match=rf"a\.profile: .*{message}"):
        workload_sha256(tmp_path / "a.profile")


def test_a_date_in_toml_is_a_text(tmp_path: Path, profile: dict[str, Any]):
    toml, again = tmp_path / "a.toml", tmp_path / "again.json"
    dated = "[metadata]\nrecorded = 2024-02-29"
    toml.write_text(profile_toml(profile).replace("[metadata]", dated, 1))
    write_profile(again, read_profile(toml))
    assert read_profile(again)["metadata"]["recorded"] == "2024-02-29"
    assert workload_sha256(again) == workload_sha256(toml)


def test_bytes_that_are_no_text_are_written_out_in_toml(tmp_path: Path, profile: dict[str, Any]):
    """A recording keeps the arguments of its program as they were."""
    profile["metadata"]["argv"] = ["./app", "caf\udce9"]
    write_profile(tmp_path / "a.toml", profile)
    with Trace(tmp_path / "a.toml") as opened:
        assert opened.argv == ["./app", "caf\\udce9"]


def test_a_name_that_is_too_long_is_one_error(tmp_path: Path):
    with pytest.raises(TraceError, match="cannot be read: File name too long"):
        read_profile(tmp_path / ("a" * 256))
