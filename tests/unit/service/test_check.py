"""Settings of an export, looked for in processes that have them, or not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.allocators import get_allocator
from tuner.cli.main import run
from tuner.errors import MissingToolError, SpecError
from tuner.records import Configuration
from tuner.service.check import ExportedSetting, check_process, load_expected

TUNABLES = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}
GLIBC = ExportedSetting(Configuration.of("glibc", {"arena_max": 2}), None, TUNABLES)


@contextmanager
def process(environment: dict[str, str], program: str = "") -> Iterator[int]:
    """Run a program that says when it has begun, and waits."""
    text = f"{program}\nprint('ready', flush=True)\nimport time; time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", text], env=environment, stdout=subprocess.PIPE
    ) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == b"ready\n"
        try:
            yield found.pid
        finally:
            found.kill()


def verdicts(pid: int, expected: ExportedSetting) -> dict[str, bool | None]:
    return {one.what: one.is_in_effect for one in check_process(pid, expected)}


def jemalloc() -> str:
    try:
        return str(get_allocator("jemalloc").locate().library)
    except MissingToolError:
        pytest.skip("jemalloc is not installed")


def test_what_a_process_was_started_with_is_in_effect() -> None:
    with process(TUNABLES) as pid:
        assert verdicts(pid, GLIBC) == {"library": True, "GLIBC_TUNABLES": True, "arena_max": True}


def test_a_variable_that_was_lost_or_changed_is_not() -> None:
    with process({}) as lost, process({"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}) as changed:
        for pid in (lost, changed):
            assert verdicts(pid, GLIBC) == {
                "library": True, "GLIBC_TUNABLES": False, "arena_max": None
            }  # fmt: skip


def test_several_tunables_are_in_effect_although_glibc_cuts_them_in_place() -> None:
    settings = {"arena_max": 2, "tcache_count": 1}
    variables = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=1"}
    asked = ExportedSetting(Configuration.of("glibc", settings), None, variables)

    with process({**variables, "OTHER": "1"}) as pid:
        assert set(verdicts(pid, asked).values()) == {True}


def test_a_value_that_the_allocator_refuses_is_not_in_effect() -> None:
    variables = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=99999999"}
    asked = ExportedSetting(Configuration.of("glibc", {"tcache_count": 99999999}), None, variables)

    with process(variables) as pid:
        assert verdicts(pid, asked)["tcache_count"] is False


def test_a_library_is_looked_for_in_the_process_itself() -> None:
    library = jemalloc()
    variables = {"MALLOC_CONF": "dirty_decay_ms:0"}
    asked = ExportedSetting(Configuration.of("jemalloc", {"dirty_decay_ms": 0}), library, variables)

    with process({**variables, "LD_PRELOAD": library}) as pid, process(variables) as without:
        assert set(verdicts(pid, asked).values()) == {True}
        assert verdicts(without, asked)["library"] is False
        assert verdicts(pid, GLIBC)["library"] is False


def test_a_background_thread_that_ended_at_a_fork_is_missed() -> None:
    library = jemalloc()
    variables = {"MALLOC_CONF": "background_thread:true"}
    asked = ExportedSetting(
        Configuration.of("jemalloc", {"background_thread": True}), library, variables
    )
    fork = "import os\nif os.fork(): os.wait()"

    with process({**variables, "LD_PRELOAD": library}, fork) as pid:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert verdicts(int(children[0]), asked)["background_thread"] is False


def test_the_command_says_it_and_ends_with_the_code_of_settings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "malloc.json"
    export.write_text(
        json.dumps(
            {"allocator": "glibc", "library": None, "settings": {"arena_max": 2},
             "environment": TUNABLES}
        )
    )  # fmt: skip
    with process(TUNABLES) as good, process({}) as bad:
        assert run(["check", str(good), str(export)]) == 0
        said = capfd.readouterr().out
        assert run(["check", str(bad), str(export), "--json"]) == 6

    assert "arena_max 2" in said
    assert "NOT" not in said
    assert "GLIBC_TUNABLES" in capfd.readouterr().err


def test_what_is_no_export_and_what_is_no_process_are_errors(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    with pytest.raises(SpecError, match="no export"):
        load_expected(tmp_path / "x")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with pytest.raises(SpecError, match="there is none"):
        check_process(ended.pid, GLIBC)
