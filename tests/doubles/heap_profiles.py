"""Heap profiles that are imported, or refused."""

from pathlib import Path

import pytest

from tests.doubles.places import DATA
from tuner.errors import TraceError
from tuner.importers import import_file

SAMPLES = DATA / "imports"
"""One program, recorded by valgrind 3.19, jemalloc 5.3 and gperftools 2.10."""


def refuse_profile(folder: Path, text: str, message: str) -> None:
    """Import a malformed heap profile; the error says what is wrong, and nothing is left."""
    (folder / "bad").write_text(text)
    with pytest.raises(TraceError) as error:
        import_file(folder / "bad", folder / "out.json")
    assert message in str(error.value)
    assert not (folder / "out.json").exists()
