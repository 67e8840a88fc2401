"""Write the seeds of fuzz_profile: run after the format changed.

    python tests/fuzz/make_profile_seeds.py

Profiles of small random traces, with threads, reallocs, bursts and fixed lives.  The seed
version-1 is one of these in the version before, and stays as it is.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner.profile.file import profile_text
from tuner.profile.fit import FitOptions, fit
from tuner.trace.file import Trace

SEEDS = Path(__file__).parent / "corpus" / "fuzz_profile"


def text_of(trace: Path) -> str:
    with Trace(trace) as opened:
        return profile_text(fit(opened, FitOptions(even_windows=2, most_windows=4)))


def main() -> None:
    SEEDS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.trace"
        burst = TraceMaker()
        for slot in [burst.allocate(32) for _ in range(20)]:
            burst.free(slot)
        seeds = {
            "burst": text_of(burst.write(path)),
            "one-thread": text_of(write_mixed_trace(path, 1, 60)),
            "threads": text_of(write_mixed_trace(path, 3, 90)),
            "life": text_of(burst.write(path, (1000, 10**7))),
        }
    for name, content in seeds.items():
        (SEEDS / name).write_text(content)


if __name__ == "__main__":
    main()
