"""The malloc tests of the GNU C library that need public names only, under exgen.

glibc_tests.py FOLDER LIBRARY...

FOLDER has the sources of glibc (of which only `malloc/tst-*.c` is read), which are not part of this
repository: `apt-get source glibc`, or a clone.  Each test is built in a scratch folder against
`glibc/harness.h`, and runs under the C library's own malloc and under each library.  Those that do
not build use names that are not public; those that fail under the C library's own malloc do not
count either.

Exit status 1 if a test fails under a library that passes without it, and `EXPECTED` has no reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

EXPECTED: Final = {
    "tst-malloc-stats-cancellation": "looks for words of glibc's own statistics",
}
"""Tests that fail under exgen by intent, and why."""
HEADERS: Final = (
    *(f"support/{name}.h" for name in ("check", "support", "xthread", "xunistd", "xsignal")),
    "support/temp_file.h",
    *("support/test-driver.h", "array_length.h", "libc-diag.h", "libc-pointer-arith.h"),
)
LIMIT_S: Final = 60.0


def make_harness(sources: Path, folder: Path) -> None:
    """Copy the tests beside a header for each of glibc's harness that names ours."""
    (folder / "malloc").mkdir()
    for source in (sources / "malloc").glob("tst-*.[ch]"):
        (folder / "malloc" / source.name).write_bytes(source.read_bytes())
    here = Path(__file__).parent / "glibc"
    (folder / "include" / "support").mkdir(parents=True)
    for name in HEADERS:
        (folder / "include" / name).write_text(f'#include "{here}/harness.h"\n')
    (folder / "include/support/test-driver.c").write_text(f'#include "{here}/driver.h"\n')
    old = f'#define IS_OLD_STYLE\n#include "{here}/driver.h"\n'
    (folder / "test-skeleton.c").write_text(old)


def build(source: Path, folder: Path) -> Path | None:
    """Compile a test; None if it needs more than public names."""
    program = folder / source.stem
    flags = ["-std=gnu11", "-O1", "-w", "-fno-builtin", "-D_GNU_SOURCE", f"-I{folder / 'include'}"]
    command = ["cc", *flags, f"-I{folder}", str(source), "-o", str(program), "-pthread"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=LIMIT_S)
    return program if done.returncode == 0 else None


def run(program: Path, library: str | None) -> str:
    """Return "ok", or how it ended."""
    environment = {"PATH": os.environ["PATH"], "TIMEOUTFACTOR": "1"}
    if library is not None:
        environment["LD_PRELOAD"] = library
    try:
        done = subprocess.run(
            [program], check=False, capture_output=True, timeout=LIMIT_S, env=environment
        )
    except subprocess.TimeoutExpired:
        return "no end"
    lines = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
    return "ok" if done.returncode == 0 else f"{done.returncode}: {lines[-1] if lines else ''}"


def main() -> int:
    """Run all tests; print a line for each that fails, and how many passed."""
    sources, libraries = Path(sys.argv[1]), sys.argv[2:]
    counts: Counter[str] = Counter()
    n_wrong = n_counted = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_harness(sources, folder)
        for source in sorted((folder / "malloc").glob("tst-*.c")):
            program = build(source, folder)
            if program is None or run(program, None) != "ok":
                continue
            n_counted += 1
            for library in libraries:
                found = run(program, library)
                counts[library] += found == "ok"
                reason = EXPECTED.get(source.stem)
                n_wrong += found != "ok" and reason is None
                if found != "ok":
                    print(f"{source.stem}, {Path(library).name}: {found} ({reason or 'FAILED'})")
    for library in libraries:
        print(f"{Path(library).name}: {counts[library]} of {n_counted} pass")
    return 1 if n_wrong or n_counted == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
