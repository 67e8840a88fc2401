"""What benchmarks/heap_curves.py makes of its raw figures."""

from typing import Any

import pytest

from benchmarks.harness import outcome_of
from benchmarks.heap_curves import BESIDE, errors, lines, real_means, targets

KIB = 1 << 10
Rows = list[dict[str, Any]]


def runs(subject: str, real: list[int], emulated: list[int]) -> Rows:
    models: list[int | None] = [*emulated] or [None for _ in real]
    pairs = zip(real, models, strict=True)
    return [
        {"task": "idle", "subject": subject, "round": number, "status": "ok", "reason": None,
         "real": mean * KIB, **({} if model is None else {"emulated": model * KIB})}
        for number, (mean, model) in enumerate(pairs)
    ]  # fmt: skip


def rows(exgen: int = 1030) -> Any:
    return [
        *runs("glibc", [1100, 1090, 1200], [900, 1000, 1100]),
        *runs("exgen", [1100], [exgen]),
        *runs(BESIDE, [99, 100, 101], []),
    ]


def test_what_is_no_heap_is_taken_off():
    assert real_means(rows()) == {"glibc": 1000 * KIB, "exgen": 1000 * KIB}
    assert errors(rows()) == pytest.approx({"glibc": 0.0, "exgen": 0.03})


def test_what_failed_has_no_error():
    found = rows()
    found[3] |= {"status": "failed", "reason": "killed by SIGSEGV"}

    assert set(errors(found)) == {"glibc"}
    assert outcome_of(list(targets({"idle": found}))) == (
        "**missed**: median error: 0.0%; greatest error: 0.0%; "
        "runs without a result: 1 (aim: at most 0)"
    )
    assert "no result: idle, exgen: killed by SIGSEGV" in list(lines({"idle": found}))


def test_where_everything_failed_there_is_no_error():
    found = [{**row, "status": "failed", "reason": "killed by SIGSEGV"} for row in rows()]

    assert outcome_of(list(targets({"idle": found}))).startswith(
        "**missed**: runs without a result"
    )
    assert outcome_of(list(targets({}))) == "not shown yet"
    assert set(lines({"idle": found})) == {
        f"no result: idle, {name}: killed by SIGSEGV" for name in ("glibc", "exgen", BESIDE)
    }


def test_the_table_and_targets_are_of_all_programs():
    assert next(line for line in lines({"idle": rows()}) if "idle" in line).split() == [
        *("|", "idle", "|", "1000", "KiB", "|", "+0.0", "%", "|", "+3.0", "%", "|")
    ]
    assert outcome_of(list(targets({"idle": rows()}))).startswith("reached: median error: 1.5%")
    assert outcome_of(list(targets({"idle": rows(1300)}))).startswith("**missed**: ")
