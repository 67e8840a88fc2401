"""Files are complete or not there, and a failure says which file and why."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tuner.errors import OutputError, StoreError
from tuner.output import folder_if_used, make_folder, scratch_folder, write_bytes, write_text


def test_text_replaces_a_file_and_makes_folders(tmp_path: Path):
    path = tmp_path / "new" / "a.txt"

    write_text(path, "old")
    write_text(path, "new\n")

    assert path.read_bytes() == b"new\n"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_permissions_follow_the_umask(tmp_path: Path):
    previous = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "")
        write_text(tmp_path / "b", "", executable=True)
    finally:
        os.umask(previous)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


def test_a_new_folder_that_stays_empty_is_gone(tmp_path: Path):
    """A program that could not be tuned left an empty run folder."""
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyError), folder_if_used(tmp_path / "new"):
        raise KeyError
    with folder_if_used(tmp_path / "mine"), folder_if_used(tmp_path / "used"):
        write_text(tmp_path / "used" / "a.txt", "")

    assert {path.name for path in tmp_path.iterdir()} == {"mine", "used"}


def test_a_folder_has_one_process_at_a_time(tmp_path: Path):
    with folder_if_used(tmp_path), pytest.raises(StoreError, match="another process"):
        folder_if_used(tmp_path).__enter__()
    with folder_if_used(tmp_path):
        pass


def test_a_folder_where_a_file_is_cannot_be_made(tmp_path: Path):
    make_folder(tmp_path / "b" / "c")
    make_folder(tmp_path / "b" / "c")
    (tmp_path / "a").write_text("")

    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(OutputError, match=rf"^{path}: .* \({tmp_path}/a is a file\)"):
            make_folder(path)


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path):
    (tmp_path / "a").write_text("")

    with pytest.raises(OutputError, match=r"a/b: cannot be written \([^)]+\); choose"):
        write_bytes(tmp_path / "a" / "b", b"")


def test_a_failure_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match=r"\(No space left on device\); make room, or"):
        write_text(path, "new")

    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_device_is_written_in_place(tmp_path: Path):
    write_text(Path(os.devnull), "text")

    assert not Path(os.devnull).is_file()


def test_what_links_lead_to_is_written_and_keeps_its_mode(tmp_path: Path):
    """-o /dev/stdout > file: as root it put a file in the place of /dev/stdout."""
    file, link, printed = (tmp_path / name for name in ("file", "link", "printed"))
    file.touch(0o600)
    link.symlink_to("file")
    write_text(link, "text", executable=True)
    with (tmp_path / "log").open("w") as log:
        os.set_inheritable(log.fileno(), True)
        print("head", file=log, flush=True)
        printed.symlink_to(f"/proc/self/fd/{log.fileno()}")
        write_text(printed, "text\n")
        print("tail", file=log)

    assert link.is_symlink()
    assert printed.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("text", 0o700)
    assert (tmp_path / "log").read_text() == "head\ntext\ntail\n"


def test_a_descriptor_that_the_user_did_not_open_is_not_written(tmp_path: Path):
    """It was our own: -o /dev/fd/3 wrote into the store; /dev/fd/abc was a defect."""
    with (tmp_path / "store").open("w") as store:
        for name in (str(store.fileno()), "abc", "9" * 30):
            with pytest.raises(OutputError, match=rf"^/dev/fd/{name}: cannot be written \("):
                write_text(Path(f"/dev/fd/{name}"), "text")

    assert (tmp_path / "store").read_text() == ""


def test_a_machine_without_a_temporary_folder_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", nowhere)
    monkeypatch.setenv("TMPDIR", "/full")

    with pytest.raises(OutputError, match=r"^/full: .*No usable .*; set TMPDIR"), scratch_folder():
        pass


def test_a_temporary_folder_that_is_full_is_said_but_no_other_error_is_hidden():
    full = r": cannot be written \(No space.*\); make room, or set TMPDIR"
    with pytest.raises(OutputError, match=full), scratch_folder() as folder:
        raise OSError(errno.ENOSPC, "No space left", str(folder / "file"))
    with pytest.raises(FileNotFoundError), scratch_folder() as folder:
        (folder / "nothing").read_text()
    with pytest.raises(OSError, match="No space"), scratch_folder():
        raise OSError(errno.ENOSPC, "No space left", "/elsewhere")


HOLDER = """
import sys, time
from tuner.output import scratch_folder
with scratch_folder() as folder:
    print(folder.name, flush=True)
    time.sleep(60)
"""


def test_folders_of_killed_tools_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tools = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    names = [tool.stdout.readline().strip() for tool in tools if tool.stdout]
    tools[0].kill()
    tools[0].communicate()
    cores = "malloc-tuner-cores-0"  # of a cluster's workers, who lock the files in it
    (tmp_path / cores).mkdir()
    for name in (*names, cores):
        os.utime(tmp_path / name, (0, 0))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with scratch_folder() as folder:
        left = {path.name for path in tmp_path.iterdir()}
    tools[1].kill()
    tools[1].communicate()

    assert left == {names[1], folder.name, cores}
