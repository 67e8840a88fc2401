"""Programs that come from a file."""

from pathlib import Path

import pytest

from benchmarks.allocator_programs import Command, read_programs


def test_programs_come_from_a_file(tmp_path: Path):
    file = tmp_path / "more.toml"
    file.write_text('[[program]]\nname = "a"\ncommand = ["/bin/a", "1"]\nrounds = 2\n')

    (found,) = read_programs(file)

    assert found == Command("a", ("/bin/a", "1"), rounds=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[program]]\nname = 'a'\n",
        "[[program]]\nname = 'a'\ncommand = 'a b'\n",
        "[[program]]\nname = 'a'\ncommand = ['a']\ntypo = 1\n",
        "[[program]]\nname = 'a'\ncommand = ['a']\nrounds = '2'\n",
        "not toml",
    ],
)
def test_a_wrong_file_of_programs_is_an_error(tmp_path: Path, text: str):
    file = tmp_path / "more.toml"
    file.write_text(text)

    with pytest.raises(SystemExit, match=r"more\.toml.*needs name and command"):
        read_programs(file)
