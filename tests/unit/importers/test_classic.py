"""Classic records are played as Langdon's program does, with its figures, number by number.

The figures below were printed by his rand_malloc.c 1.36 on the same records, built with
gcc 12 -O3.  Those of his published run need its records, which are his: point
MALLOC_TUNER_CLASSIC_RECORDS at order.c of github.com/wblangdon/rand_malloc to check them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.command_line import CommandLine
from tests.doubles.traces import write_mixed_trace
from tuner.cli.main import run
from tuner.errors import SpecError, TraceError
from tuner.importers import import_file
from tuner.profile.trust import caveat
from tuner.trace.file import Events, Op, Trace
from tuner.trace.lives import find_lives

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


def figures_of(records: Path, seed: int) -> Mapping[str, int]:
    return import_file(records, records.with_suffix(".trace"), seed=seed).figures


@pytest.mark.parametrize(("types", "seed"), PRINTED)
def test_figures_are_those_of_the_original(tmp_path: Path, types: str, seed: int):
    found = figures_of(write_records(tmp_path / "order.c", types), seed)

    assert tuple(found[name] for name in NAMES) == PRINTED[types, seed]
    assert found["steps"] == 10_000_001
    assert found["fits_original"] is True


@pytest.mark.skipif(
    "MALLOC_TUNER_CLASSIC_RECORDS" not in os.environ,
    reason="MALLOC_TUNER_CLASSIC_RECORDS does not name order.c of the published run",
)
def test_the_published_run(tmp_path: Path):
    records = tmp_path / "order.c"
    records.symlink_to(Path(os.environ["MALLOC_TUNER_CLASSIC_RECORDS"]).resolve())
    found = figures_of(records, PUBLISHED_SEED)

    published = (11991991, 12, 539682942, 11999310, 396816157, 3502077, 3463129, 34411437, 10158805)
    assert tuple(found[name] for name in NAMES) == published
    assert found["steps"] == 10_000_001


def test_where_more_blocks_are_due_at_once_than_the_original_holds_it_says_so(tmp_path: Path):
    records = tmp_path / "order.c"
    records.write_text("//\n" + "".join(f"{{1,8,{30 - i}}},\n" for i in range(30)))
    found = figures_of(records, 1)

    assert found["max_width"] == 30
    assert found["fits_original"] is False


ON_FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
RECORDS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.floats(1, 5000, allow_nan=False),
        st.floats(0.25, 300, allow_nan=False),
    ),
    min_size=1,
    max_size=300,
)


def write(path: Path, records: list[tuple[int, float, float]]) -> Path:
    rows = "".join(f"{{{kind},{size!r},{life!r}}},\n" for kind, size, life in records)
    path.write_text(f"// made up\n#define norder {len(records)}\n{rows}")
    return path


def read(path: Path, seed: int = 1) -> Events:
    import_file(path, path.with_suffix(".trace"), seed=seed)
    with Trace(path.with_suffix(".trace")) as trace:
        return trace.read_all()


@ON_FILES
@given(records=RECORDS, seed=st.integers(0, 2**31 - 1))
def test_every_record_is_a_block_that_is_freed_once(
    tmp_path: Path, records: list[tuple[int, float, float]], seed: int
):
    """The writer checks that every free frees a live block."""
    path = write(tmp_path / "order.c", records)
    events = read(path, seed)
    births = events[events["op"] == Op.MALLOC]

    assert len(births) == len(records)
    assert np.count_nonzero(events["op"] == Op.FREE) == len(records)
    for (kind, size, _), made in zip(records, births["size"].tolist(), strict=True):
        assert made == int(size + 0.5) if kind < 3 else 1 <= made <= 2 * size + 1
    assert np.array_equal(events, read(path, seed))


def test_lives_of_type_1_are_what_the_record_says(tmp_path: Path):
    path = write(tmp_path / "order.c", [(1, 10, 0), (1, 20, 2), (1, 30, 1), (1, 40, 0.6)])
    events = read(path)

    assert events["op"].tolist() == [0, 4, 0, 0, 0, 4, 4, 4]
    assert find_lives(events).live_bytes.tolist() == [10, 0, 20, 50, 90, 70, 40, 0]


def test_its_trace_is_a_model_and_says_so(tmp_path: Path, cli: CommandLine):
    path = write(tmp_path / "order.c", [(1, 8, 1)])
    made = tmp_path / "a.trace"
    told = json.loads(cli.prints("import", path, "-o", made, "--json"))
    with Trace(made) as trace:
        said = caveat(trace)
        level = trace.level

    assert (told["format"], told["level"], told["low_fidelity"]) == ("classic", "classic", True)
    assert told["figures"]["mallocs"] == 1
    assert level == "classic"
    assert said is not None
    assert "low fidelity (classic)" in said


def test_a_seed_is_of_classic_records_only(tmp_path: Path, cli: CommandLine):
    path = tmp_path / "a.rep"
    path.write_text("1\n1\n1\n1\na 0 8\n")
    words = ["import", str(path), "-o", str(tmp_path / "a.trace"), "--seed", "1"]
    assert "a seed does not apply to malloc-lab" in cli.fails(SpecError.exit_code, *words)


def test_a_profile_is_not_fitted_to_a_model(tmp_path: Path, cli: CommandLine):
    """It would call itself a windowed hybrid."""
    read(write(tmp_path / "order.c", [(1, 8, 1)]))
    words = ["fit", str(tmp_path / "order.trace"), "-o", str(tmp_path / "a.json")]
    assert "classic records" in cli.fails(TraceError.exit_code, *words)


def test_fidelity_judges_a_trace_of_records_and_says_what_it_is(tmp_path: Path, cli: CommandLine):
    read(write(tmp_path / "order.c", [(1, 800, 20)] * 3000))
    model = tmp_path / "order.trace"
    before = model.read_bytes()
    trace = write_mixed_trace(tmp_path / "mixed.trace", 1, 3000)
    words = ["--allocators", "glibc", "--seeds", "1", "--configurations", "2"]
    words += ["--instrument", "none", "--trace", str(trace)]
    assert "low fidelity (classic)" in cli.run("fidelity", model, *words)[0]
    assert model.read_bytes() == before
    assert run(["fidelity", str(trace), *words]) == SpecError.exit_code
