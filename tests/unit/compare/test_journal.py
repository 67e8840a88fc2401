"""A journal loses nothing: cut lines, damaged lines, a full disk, two writers."""

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tuner.compare.journal import Journal, JournalKeeper, read_journal
from tuner.compare.loop import compare
from tuner.compare.plan import Rounds, Step
from tuner.errors import OutputError, StoreError
from tuner.records import Outcome, Status


def encode(step: Step[str], sample: Outcome[int]) -> Mapping[str, Any]:
    return {"step": step.key, "status": sample.status.value, "value": sample.values}


def decode(record: Mapping[str, Any]) -> tuple[tuple[int, str, str], Outcome[int]]:
    number, task, subject = record["step"]
    return (number, task, subject), Outcome(Status(record["status"]), None, record["value"])


HEADER = {"schema": "test", "version": 1, "seed": 3}
RECORDS = [{"n": number, "text": "é" * number} for number in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "samples.jsonl"
    with Journal(path, HEADER) as journal:
        for record in RECORDS:
            journal.append(record)
    return path


def records(path: Path) -> list[Mapping[str, Any]]:
    found = read_journal(path)
    return [] if found is None else list(found.records)


def test_what_was_appended_is_read(path: Path):
    found = read_journal(path)

    assert found is not None
    assert found.header == HEADER
    assert list(found.records) == RECORDS
    assert found.note is None


def test_a_kill_at_any_byte_loses_the_line_it_hit_alone(path: Path):
    whole = path.read_bytes()
    for n_bytes in range(len(whole)):
        path.write_bytes(whole[:n_bytes])
        n_whole = whole[:n_bytes].count(b"\n")
        with Journal(path, HEADER) as journal:
            assert list(journal.content.records) == RECORDS[: max(0, n_whole - 1)]
            is_cut = n_whole > 0 and not whole[:n_bytes].endswith(b"\n")
            assert (journal.content.note is not None) == is_cut
            journal.append({"n": "next"})

        assert records(path)[-1] == {"n": "next"}
        assert len(records(path)) == max(0, n_whole - 1) + 1


@pytest.mark.parametrize("damage", ["not JSON", "[1]", ""])
def test_damage_elsewhere_names_the_line(path: Path, damage: str):
    lines = path.read_text().splitlines()
    lines[2] = damage
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(StoreError, match=r"line 3 is damaged"):
        read_journal(path)


def test_a_whole_last_line_that_is_damaged_is_no_kill(path: Path):
    path.write_text(path.read_text() + "{\n")

    with pytest.raises(StoreError, match=r"line 6 is damaged"):
        read_journal(path)


def test_a_record_that_is_not_understood_names_the_line(path: Path):
    found = read_journal(path)

    assert found is not None
    with pytest.raises(StoreError, match=r"line 4 is damaged \(no 2\)"):
        found.decode(lambda record: {0: 0, 1: 1}[record["n"]])


def test_another_comparison_is_refused(path: Path):
    before = path.read_bytes()
    with pytest.raises(StoreError, match="other seed"):
        Journal(path, {**HEADER, "seed": 4}, same=("seed",))
    with pytest.raises(StoreError, match="other version"):
        Journal(path, {**HEADER, "version": 2})
    Journal(path, {**HEADER, "machine": "another"}).close()
    Journal(path, {**HEADER, "environment": "of a later version"}, same=("environment",)).close()

    assert path.read_bytes() == before


def test_a_second_writer_is_refused(path: Path):
    with Journal(path, HEADER), pytest.raises(StoreError, match="another process"):
        Journal(path, HEADER)

    Journal(path, HEADER).close()


def test_a_file_system_without_locks_is_no_second_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)

    with pytest.raises(OutputError, match=r"locked \(No locks available\); use a local disk"):
        Journal(path, HEADER)


def test_a_full_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch):
    before = path.read_bytes()
    real = os.pwrite
    with Journal(path, HEADER) as journal:
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:5], at))
        with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)):
            journal.append({"n": 4})
        assert path.read_bytes() == before
        monkeypatch.undo()
        journal.append({"n": 5})

    assert records(path) == [*RECORDS, {"n": 5}]


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="cannot be written"):
        Journal(tmp_path / "file" / "samples.jsonl", HEADER)


def test_nothing_is_no_journal(tmp_path: Path):
    assert read_journal(tmp_path / "none") is None


def test_a_comparison_goes_on_from_its_journal(tmp_path: Path):
    path = tmp_path / "samples.jsonl"
    plan = Rounds(("a", "b"), ("x",), 2)
    calls: list[tuple[int, str, str]] = []

    def run(step: Step[str]) -> Outcome[int]:
        calls.append(step.key)
        return Outcome.succeeded(len(calls))

    for _ in range(2):
        with Journal(path, HEADER) as journal:
            keeper = JournalKeeper(journal, encode, decode)
            course = compare(plan, run, keeper)

    assert len(calls) == 4
    assert sorted(sample.values or 0 for sample in course.samples.values()) == [1, 2, 3, 4]
    assert json.loads(path.read_text().splitlines()[1])["value"] == 1
