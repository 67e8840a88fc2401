"""What a process has mapped, as the script that gem5 executes reads it."""

import mmap
from pathlib import Path
from types import ModuleType

import pytest

from tests.doubles.places import ROOT, load_file


@pytest.fixture(scope="module")
def mappings() -> ModuleType:
    return load_file(ROOT / "gem5-validate" / "mappings.py")


def test_file_is_seen_while_it_is_mapped_and_there(mappings: ModuleType, tmp_path: Path):
    path = tmp_path / "with a blank"
    path.write_bytes(bytes(4096))
    before = mappings.mapped_files()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        assert sorted(mappings.mapped_files() - before) == [str(path)]
    assert not mappings.mapped_files() - before
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        path.unlink()
        assert not mappings.mapped_files() - before
