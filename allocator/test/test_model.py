"""The lock-free parts of exgen under GenMC, a model checker of C programs (RC11 memory model).

test_model.py SOURCES GENMC

`model/*.c` include the sources themselves and run two or three threads in all their orders; a race,
a lost or doubled block, or one that is not as it was left, is an error.  Then each order of each
atomic operation in those sources is weakened in a copy, one at a time: GenMC has to find an error,
else the model does not show that the order is needed.  `NEEDLESS` has those where none is to be
found, and why.

Exit status 77 without the checker GENMC, a program's name or path.

Source: Kokologiannakis and Vafeiadis, "GenMC: A Model Checker for Weak Memory Models", 2021.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCES: Final = {
    "biased_lock": "system/biased_lock.c",
    "exchange": "thread/exchange.c",
    "inbox": "thread/inbox.c",
    "lock": "system/lock.c",
    "owner": "memory/layout.c",
    "pool": "memory/pool.c",
    "registry": "thread/registry.c",
    "visit": "heap/visit.c",
    "visit-owner": "heap/visit.h",
}
"""What each model is about; the same model may be about a header, too."""
WEAKER: Final = {
    "ACQUIRE": ("RELAXED",),
    "RELEASE": ("RELAXED",),
    "ACQ_REL": ("ACQUIRE", "RELEASE"),
    "SEQ_CST": ("ACQ_REL",),
}
"""The next weaker orders of each."""
NEEDLESS: Final = {
    "__atomic_store_n(&heap->entries, entries - 1, __ATOMIC_RELEASE);": "visit.c: C++20, below",
    "__atomic_store_n(&heap->is_at_kept, false, __ATOMIC_RELEASE);": "visit.h: C++20, below",
}
"""Lines with orders that may be weakened without an error, and why they are there.  Two stores come
after a release by the same thread, which they carry on in RC11 and C11, but not in C++20."""
SKIPPED: Final = 77
LIMIT_S: Final = 300.0


def run(genmc: str, model: str, sources: Path, *, failures: bool) -> bool:
    """Whether the model has no error, of any order of its threads.

    GenMC gives a comparison that fails the order of one that succeeds, which hides what `failures`
    then shows (model/model.h).
    """
    here = Path(__file__).parent / "model"
    flags = [f"-I{sources}", f"-I{here}", "-DEXGEN_THREADS=1", "-DEXGEN_CHECKED=0", "-D_GNU_SOURCE"]
    if failures:
        flags.append("-DEXGEN_MODEL_FAILURES")
    if model == "exchange":  # GenMC cannot follow its copies of structures
        flags.append("-O1")
    command = [genmc, "--disable-estimation", "--", *flags, str(here / f"{model}.c")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    said = done.stdout + done.stderr
    if "No errors were detected" in said:
        return True
    if "Verification unsuccessful" in said:
        return False
    raise SystemExit(f"{model}: GenMC did not run\n{said}")


def weakened(text: str) -> Iterator[tuple[str, bool, str]]:
    """Say what was weakened, whether it is the order of a failure, and the whole text with that.

    Lines of `NEEDLESS` are left out.
    """
    for found in re.finditer(r"__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)", text):
        before = text[: found.start()]
        line = text[before.rfind("\n") + 1 :].partition("\n")[0].strip()
        of_failure = re.search(r"__ATOMIC_\w+,\s*$", before) is not None
        for order in WEAKER[found[1]] if line not in NEEDLESS else ():
            weaker = f"__ATOMIC_{order}"
            what = f"{before.count(chr(10)) + 1}: {found[0]} -> {order} in {line}"
            yield what, of_failure, before + weaker + text[found.end() :]


def faults(genmc: str, sources: Path, model: str, path: str) -> Iterator[str]:
    """Errors of a model, and weakened orders of the file `path` that are none."""
    source = sources / path
    text = source.read_text()
    for failures in (False, True):
        if not run(genmc, model, sources, failures=failures):
            yield f"{model}: GenMC found an error"
    for what, of_failure, changed in weakened(text):
        source.write_text(changed)
        if run(genmc, model, sources, failures=of_failure):
            yield f"{path}:{what}: GenMC finds nothing wrong with it"
    source.write_text(text)


def main() -> None:
    """Run all models as they are, then with each order weakened."""
    sources, genmc = Path(sys.argv[1]), shutil.which(sys.argv[2])
    if genmc is None:
        sys.stdout.write("skipped: no GenMC on this machine\n")
        raise SystemExit(SKIPPED)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "src"
        shutil.copytree(sources, copy)
        wrong = [
            fault
            for name, path in SOURCES.items()
            for fault in faults(genmc, copy, name.partition("-")[0], path)
        ]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
