"""What no longer holds keeps its content under another name."""

from pathlib import Path

from tuner.optimize.aside import last_before, move_aside, move_to_before


def test_a_file_gets_the_next_number_that_is_free(tmp_path: Path):
    path = tmp_path / "held-out.jsonl"
    for content in ("first", "second"):
        path.write_text(content)
        move_aside(path)

    assert not path.exists()
    assert (tmp_path / "held-out-1.jsonl").read_text() == "first"
    assert (tmp_path / "held-out-2.jsonl").read_text() == "second"


def test_files_of_other_constraints_have_a_folder_each_time(tmp_path: Path):
    for content in ("first", "second"):
        (tmp_path / "a").write_text(content)
        move_to_before(tmp_path, ("a", "b"))

    assert [path.name for path in sorted(tmp_path.iterdir())] == ["before-1", "before-2"]
    assert (tmp_path / "before-2" / "a").read_text() == "second"
    assert last_before(tmp_path) == tmp_path / "before-2"


def test_where_there_is_nothing_to_move_no_folder_is_made(tmp_path: Path):
    move_to_before(tmp_path, ("a", "b"))

    assert not list(tmp_path.iterdir())
