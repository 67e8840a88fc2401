"""Another tool's file, imported; what has to come of it."""

from pathlib import Path

from tests.doubles.calls import Call
from tuner.importers import Imported, import_file
from tuner.trace.file import Events, Trace

A_FEW = [
    Call("malloc", 0, 100), Call("calloc", 1, 21), Call("realloc", 0, 5000),
    Call("memalign", 2, 300), Call("free", 1), Call("malloc", 1, 7), Call("free", 0),
]  # fmt: skip


def import_bytes(folder: Path, content: bytes, name: str | None = None) -> tuple[Imported, Events]:
    """Import a file of this content; return the result and the events of the trace."""
    (folder / "file").write_bytes(content)
    imported = import_file(folder / "file", folder / "app.trace", name)
    with Trace(imported.path) as trace:
        return imported, trace.read_all()
