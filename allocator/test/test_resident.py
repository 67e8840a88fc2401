"""What hardly ever runs takes no memory.

test_resident.py LIBRARY...  A program with each library preloaded prints which pages of the
library's code are resident: those of the segment that layout.ld sets apart must not be.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json
json.loads(json.dumps([str(i) * (i % 300) for i in range(5000)]))
print(open("/proc/self/smaps").read())
"""


def resident_code(library: str) -> list[int]:
    """Return KiB resident of each executable mapping of the library, by address."""
    environment = dict(os.environ, LD_PRELOAD=library, PYTHONMALLOC="malloc")
    environment.pop("EXGEN_CONF", None)
    smaps = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, text=True
    ).stdout
    is_ours = False
    found = []
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_ours = " r-xp " in line and line.endswith("/" + Path(library).name)
        elif is_ours and line.startswith("Rss:"):
            found.append(int(line.split()[1]))
    return found


def main() -> int:
    n_failed = 0
    for library in sys.argv[1:]:
        found = resident_code(library)
        is_good = len(found) == 2 and found[0] == 0 and found[1] > 0
        print(f"{Path(library).name}: KiB of code resident by segment {found}, expected 0 and some")
        n_failed += not is_good
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
