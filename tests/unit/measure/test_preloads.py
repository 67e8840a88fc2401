"""Whether a file exports malloc."""

from pathlib import Path

import pytest
from elftools.elf.sections import SymbolTableSection

from tuner.measure.preloads import exports_malloc
from tuner.resources import native_file

_LIBRARY = native_file("libexgen.so")


def test_symbols_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch):
    """Large programs have tens of thousands."""
    monkeypatch.setattr(SymbolTableSection, "iter_symbols", None)
    assert exports_malloc(_LIBRARY) is True
    assert exports_malloc(native_file("malloc_bench")) is False


@pytest.mark.parametrize("field", range(0, 64, 4))
def test_a_file_with_damaged_tables_is_no_defect_of_ours(tmp_path: Path, field: int):
    content = bytearray(_LIBRARY.read_bytes())
    sections = int.from_bytes(content[40:48], "little")
    for start in range(sections, len(content) - 63, 64):
        content[start + field : start + field + 4] = b"\xff" * 4
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(content)
    assert exports_malloc(damaged) in {None, True, False}


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path):
    file = tmp_path / "a.so"
    for content, found in ((b"", None), (_LIBRARY.read_bytes(), True)):
        file.write_bytes(content)
        assert exports_malloc(file) is found
