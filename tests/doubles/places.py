"""Where tests find things."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""

DATA = ROOT / "tests" / "data"

FAKE_GEM5 = str(ROOT / "tests" / "doubles" / "gem5")
"""A program with gem5's manners."""

_MAKEFILE = "all:\n\tmkdir -p $(OUT) && for f in *.c; do cp $$f $(OUT)/$${f%.c}; done\n"


def load_file(path: Path) -> ModuleType:
    """Import a program of Python by its path, beside no package."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_suite(path: Path, text: str, *guests: str) -> str:
    """Write a suite for the fake gem5, with guests beside it and the machines traffic and core."""
    (path.parent / "guests").mkdir()
    (path.parent / "guests" / "Makefile").write_text(_MAKEFILE)
    for name in guests:
        (path.parent / "guests" / f"{name}.c").write_text("int main(void) { return 0; }\n")
    (path.parent / "traffic.json").write_text('{"traffic": {}}')
    (path.parent / "core.json").write_text('{"cpu": {}}')
    path.write_text(text)
    return str(path)
