"""What is said of settings on services under a load that was not tuned on."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import service_emulation, service_recording, services
from benchmarks.harness import Call
from benchmarks.services import (
    OURS,
    SERVICES,
    first_of_each,
    of_seconds,
    short_load,
    tables,
    targets,
)
from tuner.config.program_file import load_program_file
from tuner.errors import SpecError
from tuner.optimize.quantities import SERVICE_NAMES
from tuner.optimize.request import Request
from tuner.optimize.tuned import AS_IS
from tuner.resources import configs_dir

P99, PEAK = SERVICE_NAMES["p99"], SERVICE_NAMES["peak"]
USUAL = {"mean": 4e7, "peak": 5e7, "floor": 3e7, "cpu": 2e5, "rate": 4e3, "p99": 5e6}


def part(**changed: float) -> dict[str, Any]:
    rows = [
        {
            "task": "redis",
            "subject": subject,
            "round": number,
            "status": "ok",
            "reason": None,
            **{
                SERVICE_NAMES[name]: value
                * (1.0 + 0.001 * number)
                * (changed.get(name, 1.0) if subject == OURS else 1.0)
                for name, value in USUAL.items()
            },
        }
        for number in range(6)
        for subject in (AS_IS, "tcmalloc", OURS)
    ]
    kept = {"decision": "deploy", "sentence": "Deploy x.", "seconds": 60.0, "brings": "jemalloc"}
    return {**kept, "subjects": {"tcmalloc": "key", OURS: "key"}, "rows": rows}


def test_each_service_has_its_table_with_the_answer_first():
    text = "\n".join(tables({"redis": part(floor=0.8)}))

    assert "**redis**: Deploy x. As it is (jemalloc): mean memory 38.2 MiB" in text
    assert text.index("| answer") < text.index("| tcmalloc")
    assert "-20.0 % (-20.0 .. -20.0)" in text


def test_the_page_has_a_row_for_each_service():
    answered, *_, row = first_of_each({"redis": part(floor=0.8)})

    assert answered == "- **redis**: Deploy x."
    assert [word.strip() for word in row.split("|")[1:3]] == ["redis", "answer"]


@pytest.mark.parametrize(
    ("changed", "n_worse", "n_gains"),
    [
        ({"floor": 0.8}, 0, 1),
        ({"mean": 0.8}, 0, 1),
        ({"mean": 0.9}, 0, 0),
        ({"floor": 0.8, "p99": 1.03}, 0, 0),
        ({"floor": 0.8, "p99": 1.06}, 1, 0),
        ({"floor": 0.8, "rate": 0.97}, 1, 0),
        ({"floor": 0.8, "rate": 1.05}, 0, 1),
        ({"floor": 0.8, "peak": 1.02}, 1, 0),
        ({"cpu": 1.03}, 1, 0),
    ],
)
def test_answers_are_judged_in_the_terms_of_a_service(
    changed: dict[str, float], n_worse: int, n_gains: int
):
    worse, gaining = targets({"redis": part(**changed)})

    assert (worse.value, gaining.value) == (n_worse, n_gains)


def test_few_rounds_prove_no_answer_no_worse():
    kept = part(mean=0.8)
    few = {**kept, "rows": [row for row in kept["rows"] if row["round"] < 5]}

    worse, _ = targets({"redis": kept, "puma": few})

    assert worse.what == "answers worse beyond doubt (1 proven no worse, 1 in doubt)"
    assert "-20.0 % (range -20.0 .. -20.0)" in "\n".join(tables({"puma": few}))


def judged_alone(kept: dict[str, Any]) -> tuple[float, float, float]:
    """Return how many answers of one service gain: proven, by the medians, at most."""
    _, gaining = targets({"redis": kept})
    assert gaining.interval is not None
    return gaining.interval.low, gaining.value, gaining.interval.high


def test_a_gain_of_memory_is_proven_by_whole_intervals():
    noisy, silent, few = (part(floor=0.8) for _ in range(3))
    heavy = part(floor=0.8, peak=1.015)
    for row in heavy["rows"]:
        row[PEAK] *= 1.0 - 0.01 * (row["round"] == 0 and row["subject"] == OURS)
    for row in noisy["rows"]:
        row[P99] *= 1.0 + 0.1 * (row["round"] == 0 and row["subject"] == OURS)
    for row in silent["rows"]:
        del row[P99]
    few["rows"] = [row for row in few["rows"] if row["round"] < 5]

    assert judged_alone(part(floor=0.8)) == (1, 1, 1)
    assert judged_alone(part(floor=0.9)) == (0, 0, 0)
    assert judged_alone(noisy) == (0, 1, 1), "latency may be worse"
    assert judged_alone(silent) == (0, 0, 1), "without a latency none is equal"
    assert judged_alone(few) == (0, 1, 1)
    assert judged_alone(heavy) == (1, 1, 1), "not worse beyond doubt"


def test_a_service_that_failed_as_it_is_leaves_doubt_about_its_answer():
    kept = part(floor=0.8)
    for row in kept["rows"]:
        if row["subject"] == AS_IS and row["round"] == 5:
            row |= {"status": "failed", "reason": "killed by SIGSEGV"}

    worse, _ = targets({"redis": kept})

    assert (worse.value, judged_alone(kept)) == (0, (0, 1, 1))


def test_an_answer_that_failed_is_worse_and_no_gain():
    kept = part(floor=0.8)
    kept["rows"][-1] |= {"status": "failed", "reason": "killed by SIGSEGV"}

    worse, gaining = targets({"redis": kept})

    assert (worse.value, gaining.value) == (1, 0)
    assert "failed" in "\n".join(tables({"redis": kept}))


NEEDS_ROOT = SpecError("--user postgres: only root can start a service as another user")


def refuses(_call: Call, name: str, *_: object, **__: object) -> Any:
    """Refuse one of the services, as where only root can start it."""
    if name == "postgresql":
        raise NEEDS_ROOT
    return Namespace(name=name)


@pytest.mark.parametrize(
    ("module", "measures"),
    [(services, "_prepare"), (service_emulation, "_measure"), (service_recording, "run_rounds")],
)
def test_a_service_that_needs_root_leaves_the_others(
    module: ModuleType, measures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, measures, refuses)
    kept: list[str] = []
    monkeypatch.setattr(Call, "keep", lambda _, part, *__, **___: kept.append(part))
    monkeypatch.setattr(services, "_estimate", lambda *_: 1.0)
    monkeypatch.setattr(services, "_measure", lambda call, one: call.keep(one.name, {}))
    monkeypatch.setattr(service_emulation, "located", lambda _: {})
    parts = ["postgresql", "redis"]
    options = Namespace(parts=parts, smoke=True, window=1, idle=1, rounds=1)
    call = Call(module.BENCHMARK, options, tmp_path, {})

    module.measure(call)

    assert call.left_out == ["postgresql"]
    assert kept == ["redis"]


def test_one_round_leaves_every_doubt():
    kept = part(mean=1.5)
    first = {**kept, "rows": [row for row in kept["rows"] if row["round"] == 0]}

    worse, _ = targets({"redis": first})

    assert worse.value == 0
    assert "+50.0 % (one round)" in "\n".join(tables({"redis": first}))


def test_a_service_without_an_answer_is_neither():
    kept = part(mean=2.0)

    worse, gaining = targets({"redis": {**kept, "subjects": {"tcmalloc": "key"}}})

    assert (worse.value, gaining.value) == (0, 0)


def test_another_build_of_an_allocator_begins_anew(monkeypatch: pytest.MonkeyPatch):
    request = Request(("app",), 1.0, ("exgen",))
    digests = set()
    for build in "aba":
        monkeypatch.setattr(services, "installed", lambda _, build=build: {"exgen": build})
        digests.add(services._digest(request))  # noqa: SLF001 - in the name of its journal
        digests.add(services._digest(replace(request, seconds=9.0)))  # noqa: SLF001 - the same

    assert len(digests) == 2


def test_every_shipped_service_has_a_load_that_is_not_tuned_on():
    shipped = {path.stem: path for path in (configs_dir() / "services").glob("*.toml")}

    assert set(SERVICES) == set(shipped)
    for path in shipped.values():
        table = load_program_file(path).service
        assert table is not None
        assert table.held_out_load not in (None, table.load)


def test_a_load_that_says_its_length_is_made_shorter_and_a_count_stays():
    assert of_seconds("wrk -t1 -d15s URL", 2.5) == "wrk -t1 -d2.5s URL"
    assert of_seconds("hey -z 15s -q 20 URL", 2.5) == "hey -z 2.5s -q 20 URL"
    assert of_seconds("pgbench -T 15 -R 200", 2.5) == "pgbench -T 2 -R 200"
    assert of_seconds("pgbench -t 500", 4.0) == "pgbench -t 500"


def test_a_quick_look_takes_a_moment():
    assert short_load("wrk -t1 -c8 -d15s URL -- 40 3000") == "wrk -t1 -c8 -d1s URL -- 40 3000"
    assert short_load("pgbench -c 8 -t 500 && redis-benchmark -n 200000 -t set") == (
        "pgbench -c 8 -t 200 && redis-benchmark -n 200 -t set"
    )
