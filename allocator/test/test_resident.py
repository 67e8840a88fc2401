"""What hardly ever runs takes no memory.

test_resident.py [--one-window] LIBRARY...  A program with each library preloaded prints which pages
of the library are resident: those of the two segments that layout.ld sets apart must not be, and
with the option all other code is what Linux maps around one fault.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

WINDOW_KIB = 64
"""With one more, what is mapped behind the library moves, too."""

SCRIPT = """
import json
json.loads(json.dumps([str(i) * (i % 300) for i in range(5000)]))
print(open("/proc/self/smaps").read())
"""


def resident(library: str) -> dict[str, list[int]]:
    """Return KiB resident of each mapping of the library, by address, for each kind of access."""
    environment = dict(os.environ, LD_PRELOAD=library, PYTHONMALLOC="malloc")
    environment.pop("EXGEN_CONF", None)
    smaps = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SCRIPT],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    access = None
    found: dict[str, list[int]] = {}
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_ours = line.endswith("/" + Path(library).name)
            access = line.split()[1] if is_ours else None
        elif access is not None and line.startswith("Rss:"):
            found.setdefault(access, []).append(int(line.split()[1]))
    return found


def main() -> int:
    n_failed = 0
    libraries = sys.argv[1:]
    has_one_window = libraries[:1] == ["--one-window"]
    for library in libraries[has_one_window:]:
        found = resident(library)
        code = found.get("r-xp", [])
        constants = found.get("r--p", [])  # names, constants, unwinding tables, what was relocated
        is_good = [n > 0 for n in code] == [False, True]
        is_good = is_good and (not has_one_window or sum(code) <= WINDOW_KIB)
        touched = [n > 0 for n in constants]  # of constants proper some compilers' code needs none
        is_good = is_good and touched in ([True, True, False, True], [True, False, False, True])
        print(f"{Path(library).name}: KiB resident of code {code}, expected 0 and some")
        print(f"    and of what is only read {constants}, expected 0 at the third")
        n_failed += not is_good
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
