"""The security cases of mimalloc-bench under the C library's malloc, exgen, and `secure:true`.

security_cases.py FOLDER LIBRARY

FOLDER has the cases' sources (`bench/security` of https://github.com/daanx/mimalloc-bench), which
are not part of this repository.  Each is built in a scratch folder for the sizes that its own build
gives it.  A case says NOT_CAUGHT where a mistake had no consequence at once; it is missed then, if
it does not end by a signal later either.

Exit status 1 if exgen misses more than the C library, or with `secure` more than `SECURE_MOST`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIZES: Final = {"small": "8", "medium": "4096", "large": "256*1024"}
FLAGS: Final = (
    *("-O3", "-w", "-fno-inline", "-fno-builtin-inline", "-fno-inline-small-functions"),
    *("-fno-ipa-pure-const", "-fsized-deallocation"),
)
SECURE_MOST: Final = 20
"""Cases that `secure` may miss."""
LIMIT_S: Final = 30.0


def build(sources: Path, folder: Path) -> Iterator[Path]:
    """Compile all cases, those in C once for each size; yield the programs."""
    for source in sorted(sources.glob("*.c")):
        for name, size in SIZES.items():
            yield compiled("cc", source, folder / f"{source.stem}_{name}", size)
    for source in sorted(sources.glob("*.cc")):
        yield compiled("c++", source, folder / source.stem, SIZES["medium"])


def compiled(compiler: str, source: Path, program: Path, size: str) -> Path:
    """Compile a case; a case that does not build is an error."""
    flags = [flag for flag in FLAGS if compiler == "c++" or "sized" not in flag]
    words = [compiler, *flags, f"-DALLOCATION_SIZE={size}", str(source), "-o", str(program)]
    subprocess.run(words, check=True, timeout=LIMIT_S)
    return program


def is_missed(program: Path, environment: dict[str, str]) -> bool:
    """Run a case; whether it went on to its end."""
    try:
        done = subprocess.run(
            [program], check=False, capture_output=True, timeout=LIMIT_S, env=environment
        )
    except subprocess.TimeoutExpired:
        return False
    return b"NOT_CAUGHT" in done.stdout and done.returncode >= 0


def main() -> int:
    """Run all cases; print what each allocator misses, and how many."""
    sources, library = Path(sys.argv[1]), sys.argv[2]
    plain = {"PATH": os.environ["PATH"]}
    ours = {**plain, "LD_PRELOAD": library}
    subjects = {"libc": plain, "exgen": ours, "secure": {**ours, "EXGEN_CONF": "secure:true"}}
    with tempfile.TemporaryDirectory() as name:
        programs = list(build(sources, Path(name)))
        missed = {
            subject: [p.name for p in programs if is_missed(p, environment)]
            for subject, environment in subjects.items()
        }
    for subject, cases in missed.items():
        print(f"{subject} misses {len(cases)} of {len(programs)}: {' '.join(cases)}")
    is_right = len(missed["exgen"]) <= len(missed["libc"]) and len(missed["secure"]) <= SECURE_MOST
    return 0 if is_right and programs else 1


if __name__ == "__main__":
    sys.exit(main())
