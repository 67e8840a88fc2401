"""`rand_malloc --classic` gives the figures of Langdon's program, number by number.

The figures below were printed by his rand_malloc.c 1.36 on the same records, built with
gcc 12 -O3.  Those of his published run need its records, which are his: point
MALLOC_TUNER_CLASSIC_RECORDS at order.c of github.com/wblangdon/rand_malloc to check them.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuner.resources import native_file

pytestmark = pytest.mark.end_to_end

PUBLISHED_SEED = 1801513025
NAMES = (
    "last_beyond", "max_width", "last_random", "last_free_at", "allocated_bytes", "mallocs",
    "frees", "peak_live_bytes", "final_live_bytes",
)  # fmt: skip
PRINTED = {
    ("1", PUBLISHED_SEED):
        (12011998, 4, 539682942, 12011998, 1548000, 6000, 5988, 649891, 5658),
    ("1", 7): (12011998, 4, 1045618677, 12011998, 1548000, 6000, 5988, 649891, 5658),
    ("123", PUBLISHED_SEED):
        (13625627, 6, 1881542078, 13677374, 1553398, 6000, 5991, 640834, 3999),
    ("123", 7): (14879682, 6, 247234479, 17233189, 1552153, 6000, 5989, 639694, 5659),
    ("3", PUBLISHED_SEED):
        (12979318, 6, 1566652499, 15614913, 1555188, 6000, 5991, 636850, 4148),
    ("3", 7): (14091299, 7, 2138007221, 18935931, 1548720, 6000, 5990, 642569, 5044),
}  # fmt: skip


def write_records(path: Path, types: str, n: int = 6000) -> Path:
    """Write records of the types in turn, every 500th of them due behind the horizon."""
    lines = [f"#define norder {n}", "const struct{", "int    type;  //Add=1, Add2=2 Addr=3",
             "double size;", "double life;", "} order[norder] = {"]  # fmt: skip
    for i in range(n):
        life = 12_000_000.0 + i if i % 500 == 499 else (i * i * 31) % 5003 + (i % 4) / 4 + 0.1
        size = 8 + (i * 37) % 500 + (i % 8) / 8
        lines.append(f"{{{types[i % len(types)]},{size},{life}}}, //line{i:04} 1.2/3 1 of 1")
    path.write_text("\n".join([*lines, "};/*end order*/", ""]))
    return path


def run_classic(records: Path, *words: str) -> dict[str, Any]:
    command = [
        str(native_file("rand_malloc")),
        "--classic",
        "--runs",
        "memory",
        *words,
        str(records),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("types", "seed"), PRINTED)
def test_figures_are_those_of_the_original(tmp_path: Path, types: str, seed: int) -> None:
    found = run_classic(write_records(tmp_path / "order.c", types), "--seed", str(seed))["classic"]

    assert tuple(found[name] for name in NAMES) == PRINTED[types, seed]
    assert found["steps"] == 10_000_001
    assert found["fits_original"] is True


@pytest.mark.skipif(
    "MALLOC_TUNER_CLASSIC_RECORDS" not in os.environ,
    reason="MALLOC_TUNER_CLASSIC_RECORDS does not name order.c of the published run",
)
def test_the_published_run() -> None:
    records = Path(os.environ["MALLOC_TUNER_CLASSIC_RECORDS"])
    found = run_classic(records, "--seed", str(PUBLISHED_SEED))["classic"]

    published = (11991991, 12, 539682942, 11999310, 396816157, 3502077, 3463129, 34411437, 10158805)
    assert tuple(found[name] for name in NAMES) == published
    assert found["steps"] == 10_000_001


def test_it_is_of_low_fidelity_and_touches_nothing_by_default(tmp_path: Path) -> None:
    records = write_records(tmp_path / "order.c", "1", 600)
    found = run_classic(records)

    assert found["trace"]["level"] == "classic"
    assert found["trace"]["low_fidelity"] is True
    assert found["settings"]["touch"] == "none"
    assert run_classic(records, "--touch", "all")["settings"]["touch"] == "all"


def test_where_more_blocks_are_due_at_once_than_the_original_holds_it_says_so(
    tmp_path: Path,
) -> None:
    records = tmp_path / "order.c"
    records.write_text("//\n" + "".join(f"{{1,8,{30 - i}}},\n" for i in range(30)))
    found = run_classic(records)["classic"]

    assert found["max_width"] == 30
    assert found["fits_original"] is False


def test_a_trace_is_refused(tmp_path: Path) -> None:
    records = tmp_path / "profile.json"
    records.write_text("{}")
    done = subprocess.run(
        [native_file("rand_malloc"), "--classic", records],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
