"""`malloc-tuner validate` and `optimize` on real services, where they are installed."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tuner.cli.main import run

pytestmark = pytest.mark.end_to_end

REDIS_READY = "command:redis-cli -p {port} ping"
REDIS_LOAD = "redis-benchmark -p {port} -c 4 -n 4000 -r 1000 -d 300 -t set,get --csv"
REDIS = ("redis-server", "--port", "{port}", "--save", "", "--appendonly", "no")
FAST = ("--idle", "200ms", "--warm-ups", "0")
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), Path("/nonexistent"))

needs_redis = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("redis-benchmark")),
    reason="redis is not installed",
)
needs_postgres = pytest.mark.skipif(
    not (POSTGRES / "initdb").exists() or os.getuid() != 0,
    reason="PostgreSQL is not installed, or nobody may run it as another user",
)


@needs_redis
def test_redis_is_compared_with_its_own_jemalloc_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    words = ["validate", "-o", str(tmp_path / "v"), "--allocators", "jemalloc"]
    words += ["--rounds", "1", *FAST, "--ready", REDIS_READY, "--load", REDIS_LOAD, "--", *REDIS]

    assert run(words) == 0
    first = capfd.readouterr().out
    journal = (tmp_path / "v" / "comparison.jsonl").read_text()
    assert run(words) == 0

    assert "as it is (jemalloc)" in first
    assert re.search(r"jemalloc background_thread=true\s+\S+ %", first)
    assert all(name in first for name in ("idle memory", "CPU/request", "requests/s", "p99"))
    assert (tmp_path / "v" / "comparison.jsonl").read_text() == journal


@needs_postgres
def test_postgresql_runs_as_its_user_and_all_its_processes_count(tmp_path: Path):
    where = "-h 127.0.0.1 -p {port} -U postgres postgres"
    words = ["validate", "-o", str(tmp_path / "v"), "--allocators", "glibc", "--rounds", "1", *FAST]
    words += ["--user", "nobody", "--stop", "SIGINT"]
    words += ["--setup", f"{POSTGRES}/initdb -D {{state}}/d -U postgres -A trust --no-sync"]
    words += ["--ready", f"command:{POSTGRES}/pg_isready -q -h 127.0.0.1 -p {{port}}"]
    words += ["--load", f"pgbench -q -i -s 1 {where} && pgbench -c 2 -t 50 {where}"]
    words += ["--", f"{POSTGRES}/postgres", "-D", "{state}/d", "-p", "{port}", "-k", "{state}"]

    assert run([*words, "-c", "listen_addresses=127.0.0.1"]) == 0

    values = json.loads((tmp_path / "v" / "reference.json").read_text())["values"]
    assert 1e6 < values["mean memory"] < 100e6
    assert values["mean latency"] > 0


@needs_redis
def test_optimize_records_searches_and_runs_a_service(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    words = ["optimize", "-o", str(tmp_path / "o"), "--time", "20s", "--evaluations", "6"]
    words += ["--allocators", "glibc", *FAST, "--ready", REDIS_READY, "--load", REDIS_LOAD]

    assert run([*words, "--", *REDIS]) == 0

    assert (tmp_path / "o" / "program.trace").is_file()
    assert re.search(r"Keep|Deploy|Not decided", capfd.readouterr().out)


@needs_redis
def test_optimize_with_time_for_few_runs_tries_what_is_known_and_records_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    words = ["optimize", "-o", str(tmp_path / "o"), "--time", "20s", "--allocators", "glibc"]
    words += [*FAST, "--ready", REDIS_READY, "--load", REDIS_LOAD]

    assert run([*words, "--", *REDIS]) == 0

    assert not (tmp_path / "o" / "program.trace").exists()
    assert "glibc mmap_threshold=262144" in (tmp_path / "o" / "selection.jsonl").read_text()
    assert re.search(r"Keep|Deploy|Not decided", capfd.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("validate", "--ready", "tcp:80", "--", "server"), "--load"),
        (("optimize", "--load", "x", "--", "sh"), "--ready"),
        (("validate", "--ready", "udp:1", "--load", "x", "--", "server"), "udp:1"),
        (
            ("optimize", "--ready", "tcp:1", "--load", "x", "--constraint", "p98<=1", "--", "sh"),
            "p98",
        ),
        (
            ("optimize", "--ready", "tcp:{port}", "--load", "x", "--stop", "SIGX", "--", "sh"),
            "SIGX",
        ),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
):
    assert run(list(words)) == 3

    assert said in capfd.readouterr().err
