"""Every export format, read back by a parser of its own; and the reduction before it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.doubles.export_readers import (
    dockerfile_environment,
    kubernetes_environment,
    shell_environment,
    systemd_environment,
)
from tests.doubles.fronts import NAMES
from tests.doubles.runs import MIB, failed_trial, synthetic_run, trial
from tuner.errors import OutputError, SelectionError
from tuner.export.deployment import Deployment
from tuner.export.formats import render
from tuner.export.reduction import reduce_configuration
from tuner.export.sources import deployment
from tuner.front.kept import all_picks
from tuner.front.picks import Pick
from tuner.metrics import METRICS
from tuner.records import Configuration, Outcome, Status, Trial
from tuner.registry import EXPORTERS
from tuner.runs import Run
from tuner.store import AllocatorRecord, WorkloadRecord

HOSTILE = "a b\"c'd$HOME`id`%h\\n$(NAME)$$(N)$$$\\\\;#\N{LATIN SMALL LETTER E WITH ACUTE}"
"""Every character that means something to some reader."""


def run_with(*trials: Trial) -> Run:
    return replace(synthetic_run(n_trials=4), trials=trials)


def tried(number: int, allocator: str = "glibc", **settings: int | str | bool) -> Trial:
    return trial(number, Configuration.of(allocator, settings))


def plain(allocator: str = "jemalloc", **settings: int | str | bool) -> Deployment:
    chosen = tried(1, allocator, **settings)
    run = run_with(trial(0, Configuration("glibc"), 60.0 * MIB, 1.1e8), chosen)
    return deployment(run, Pick("knee", chosen, "knee of mean_heap and cost"))


def with_value(value: str) -> Deployment:
    return replace(plain(), variables=(("LD_PRELOAD", "/lib/x.so"), ("CONF", value)))


# Reduction


def test_setting_is_dropped_when_measured_without_effect():
    trials = [tried(0), tried(1, mxfast=0), tried(2, mxfast=0, arena_max=2)]
    trials[0] = trial(0, Configuration("glibc"), 70.0 * MIB)

    reduction = reduce_configuration(trials[2], trials, NAMES)

    assert reduction.configuration == trials[1].configuration
    assert reduction.dropped == (("arena_max", 2),)
    assert reduction.witness == 1


@pytest.mark.parametrize("name", [n for n, metric in METRICS.items() if metric.is_repeatable])
def test_setting_is_kept_when_one_number_differs_by_one(name: str):
    with_it, without = tried(1, mxfast=0), tried(0)
    assert without.measurement is not None
    changes = {name: without.measurement.value(name) + 1}
    without = replace(
        without, outcome=Outcome.succeeded(without.measurement.with_values(**changes))
    )

    assert reduce_configuration(with_it, [without, with_it], NAMES).dropped == ()


def test_setting_is_kept_when_its_removal_was_not_measured():
    lonely = tried(1, mxfast=0, arena_max=2)
    failed = failed_trial(0, Configuration.of("glibc", {"mxfast": 0}), Status.FAILED, "crash")

    reduction = reduce_configuration(lonely, [failed, lonely], NAMES)
    assert reduction.configuration == lonely.configuration


def test_the_smallest_equal_configuration_wins():
    trials = [tried(0), tried(1, mxfast=0), tried(2, mxfast=0, arena_max=2)]

    assert reduce_configuration(trials[2], trials, NAMES).configuration == Configuration("glibc")


def test_other_allocators_and_other_values_are_no_evidence():
    chosen = tried(1, "jemalloc", tcache=False)
    trials = [tried(0, "mimalloc"), tried(2, "jemalloc", tcache=True), chosen]

    assert reduce_configuration(chosen, trials, NAMES).dropped == ()


def test_every_setting_is_kept_where_latency_is_minimised():
    fast, slow = tried(1, mxfast=0), tried(0)
    fast, slow = (
        replace(one, outcome=Outcome.succeeded(one.measured.with_values(p99_latency=latency)))
        for one, latency in ((fast, 90.0), (slow, 400.0))
    )

    assert reduce_configuration(fast, [slow, fast], ("mean_heap", "p99_latency")).dropped == ()


def test_what_breaks_a_limit_is_no_evidence_for_what_holds_it():
    good, slow = tried(1, mxfast=0), replace(tried(0), violation=0.2)

    assert reduce_configuration(good, [slow, good], NAMES).dropped == ()


# What is exported


def test_preload_stands_first_and_abort_conf_is_left_to_the_search():
    found = plain("jemalloc", dirty_decay_ms=0, tcache=False)

    assert [name for name, _ in found.variables] == ["LD_PRELOAD", "MALLOC_CONF"]
    assert "abort_conf" not in found.variables[1][1]


def test_default_of_glibc_needs_no_variable():
    found = plain("glibc")

    assert found.variables == ()
    assert "nothing to set" in render(found, "env")
    assert yaml.safe_load(render(found, "kubernetes")) == {"env": []}


def test_glibc_comes_before_an_allocator_that_the_program_brings():
    run = synthetic_run(validation=True, n_trials=40)
    record = run.validations[0]
    record = replace(record, brought_allocators=("libjemalloc.so.2",))
    run = replace(run, validations=(record,))

    by_allocator = {t.configuration.allocator: t for t in run.trials if t.configuration.is_default}
    glibc = deployment(run, Pick("a", by_allocator["glibc"], ""))
    mimalloc = deployment(run, Pick("b", by_allocator["mimalloc"], ""))

    assert dict(glibc.variables) == {"LD_PRELOAD": "libc.so.6"}
    assert "the program brings libjemalloc.so.2" in render(glibc, "env").replace("\n#    ", "")
    assert dict(mimalloc.variables)["LD_PRELOAD"].endswith("libmimalloc.so.2.0")


def test_a_glibc_setting_says_whose_malloc_it_is_for():
    text = render(plain("glibc", mxfast=0), "env").replace("\n#    ", "")

    assert "a program that is linked with another allocator keeps that one" in text


def test_failed_trial_is_not_exported():
    failed = failed_trial(1, Configuration.of("glibc", {"mxfast": 0}), Status.FAILED, "crash")

    with pytest.raises(SelectionError, match="crash"):
        deployment(run_with(tried(0), failed), Pick("trial-1", failed, ""))


@pytest.mark.parametrize("path", ["/opt/my libs/x.so", "/opt/a:b/x.so"])
def test_library_that_the_loader_would_split_is_refused(path: str):
    chosen = tried(1, "jemalloc", tcache=False)
    run = run_with(tried(0), chosen)
    allocators = {**run.campaign.allocators, "jemalloc": AllocatorRecord(path, "5.3.0")}
    run = replace(run, campaign=replace(run.campaign, allocators=allocators))

    with pytest.raises(OutputError, match="LD_PRELOAD"):
        deployment(run, Pick("knee", chosen, ""))


def test_comments_name_validity_gain_and_source():
    text = render(plain("jemalloc", tcache=False), "env")

    for fact in (
        "jemalloc 5.3.0, 1 setting; written by malloc-tuner",
        "transparent huge pages madvise",
        "vm.max_map_count 65530",
        "mean heap against the default of glibc: -16.67 % emulated",
        "trial 1 of 2 (knee of mean_heap and cost)",
        "ghostscript.trace (sha256 9f9f9f9f9f9f9f9f)",
        "validated: not yet",
    ):
        assert fact in " ".join(text.replace("#", "").split())


def test_comments_name_what_was_left_out():
    trials = [tried(0, mxfast=0), tried(1, mxfast=0, arena_max=2)]
    found = deployment(run_with(*trials), Pick("knee", trials[1], ""))

    text = render(found, "env")

    assert "# left out: arena_max=2 (trial 0 measured exactly the same without)" in text
    assert "GLIBC_TUNABLES=glibc.malloc.mxfast=0\n" in text


def test_comments_give_the_figures_of_the_real_program():
    run = synthetic_run(validation=True)
    (label,) = {s.label for s in run.validations[0].samples if s.label == "no-regret"}
    number = next(s.trial for s in run.validations[0].samples if s.label == label)
    assert number is not None

    text = render(deployment(run, Pick("no-regret", run.trial(number), "")), "sh")

    assert "on the real program" in " ".join(text.replace("#", "").split())
    assert "7 rounds of gs -dBATCH" in " ".join(text.replace("#", "").split())


def test_what_ran_without_a_claim_shows_what_was_measured():
    run = synthetic_run(validation=True)
    (record,) = run.validations
    best = next(one for one in record.subjects if one.label == "no-regret")
    rows = [replace(one, roles=("dominated",)) if one == best else one for one in record.subjects]
    run = replace(run, validations=(replace(record, subjects=tuple(rows)),))

    text = render(deployment(run, Pick("mine", run.trial(best.trial or 0), "")), "env")

    gains = [line for line in text.replace("\n#    ", "").splitlines() if " against " in line]
    assert all("on the real program" in one for one in gains)
    assert all(one.endswith(": measured, no claim") for one in gains)
    assert "not confirmed does not" not in text


@pytest.mark.parametrize("name", [name for name in EXPORTERS if name != "json"])
def test_no_text_of_a_campaign_ends_a_comment(name: str):
    hostile = "x\nLD_PRELOAD=/tmp/evil.so\r\v\f\x1c\x85\N{LINE SEPARATOR}touch /tmp/evil\\"
    found = replace(
        plain(),
        campaign=hostile,
        pick=Pick("knee", tried(1), hostile),
        trace=hostile,
        valid_for={"kernel": hostile},
    )

    lines = [line for line in render(found, name).splitlines() if line and not line.startswith("#")]

    expected = render(plain(), name).splitlines()
    assert lines == [line for line in expected if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["env", "systemd", "docker", "kubernetes"])
@pytest.mark.parametrize("proof", [None, "12 runs of ./app"])
def test_what_becomes_of_other_libraries_and_tunables_is_said(name: str, proof: str | None):
    said = "other entries of {} are replaced: append those"
    tunables = replace(plain("glibc", mxfast=0), proof=proof)
    both = replace(tunables, variables=(("LD_PRELOAD", "libc.so.6"), *tunables.variables))

    assert said.format("LD_PRELOAD") in render(replace(plain(), proof=proof), name)
    assert said.format("GLIBC_TUNABLES") in render(tunables, name)
    assert said.format("LD_PRELOAD and GLIBC_TUNABLES") in render(both, name)
    assert "replaced" not in render(plain("glibc"), name) + render(both, "sh")


# The formats, each read back


def test_env_file_is_what_a_shell_sources(tmp_path: Path):
    found = plain("glibc", mxfast=0, trim_threshold=65536)
    path = tmp_path / "malloc.env"
    path.write_text(render(found, "env"))

    assert shell_environment(f"set -a; . {path}; set +a") == dict(found.variables)


def test_env_file_is_what_docker_takes_raw():
    found = plain("jemalloc", dirty_decay_ms=0, tcache=False)

    lines = [x for x in render(found, "env").splitlines() if x and not x.startswith("#")]

    assert dict(line.split("=", 1) for line in lines) == dict(found.variables)


def test_env_file_refuses_what_it_cannot_quote():
    with pytest.raises(OutputError, match="--format sh"):
        render(with_value("a b"), "env")


def test_shell_wrapper_gives_its_arguments_the_environment(tmp_path: Path):
    found = replace(plain(), variables=(("CONF", HOSTILE),))
    path = tmp_path / "malloc.sh"
    path.write_text(render(found, "sh"))
    program = tmp_path / "a=b"  # what env would take for a variable
    program.symlink_to("/usr/bin/printenv")

    done = subprocess.run(
        ["/bin/sh", path, program, "CONF"], capture_output=True, check=True, env={}
    )

    assert done.stdout.decode() == HOSTILE + "\n"


def test_shell_wrapper_keeps_what_is_no_allocators(tmp_path: Path):
    path = tmp_path / "malloc.sh"
    own = (("LD_PRELOAD", "/lib/x.so"), ("GLIBC_TUNABLES", "glibc.malloc.a=1"))
    path.write_text(render(replace(plain(), variables=own), "sh"))
    words = ["/bin/sh", str(path), "/usr/bin/printenv", "LD_PRELOAD", "GLIBC_TUNABLES"]
    tunables = "glibc.malloc.b=1:glibc.pthread.rseq=0:glibc.malloc.a=2"
    had = {"PATH": os.environ["PATH"], "LD_PRELOAD": "/lib/other.so", "GLIBC_TUNABLES": tunables}

    found = [subprocess.check_output(words, env=env) for env in (had, {"PATH": had["PATH"]})]

    behind = b"/lib/x.so:/lib/other.so\nglibc.pthread.rseq=0:glibc.malloc.a=1\n"
    assert found == [behind, b"/lib/x.so\nglibc.malloc.a=1\n"]


def test_value_with_a_control_character_is_refused():
    for name in ("env", "sh", "systemd", "docker", "kubernetes"):
        with pytest.raises(OutputError, match="control character"):
            render(with_value("a\nb"), name)


def test_shell_wrapper_without_a_program_prints_its_usage(tmp_path: Path):
    path = tmp_path / "malloc.sh"
    path.write_text(render(plain(), "sh"))

    done = subprocess.run(["/bin/sh", path], capture_output=True, check=False, text=True)

    assert (done.returncode, done.stderr) == (2, f"usage: {path} PROGRAM [ARGUMENT...]\n")


def test_shell_wrapper_that_is_sourced_leaves_the_shell_alive(tmp_path: Path):
    path = tmp_path / "malloc.sh"
    path.write_text(render(plain(), "sh"))

    for shell in ("sh", "bash"):
        words = [shell, "-c", f". {path}; echo alive"]
        done = subprocess.run(words, capture_output=True, check=True, text=True)

        assert done.stdout == "alive\n"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("systemd", systemd_environment),
        ("docker", dockerfile_environment),
        ("kubernetes", kubernetes_environment),
    ],
)
def test_every_value_is_quoted(name: str, read: Callable[[str], dict[str, str]]):
    found = with_value(HOSTILE)

    assert read(render(found, name)) == dict(found.variables)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_drop_in(tmp_path: Path):
    (tmp_path / "app.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "app.service.d").mkdir()
    (tmp_path / "app.service.d" / "malloc.conf").write_text(
        render(with_value("a b%h\"c'd"), "systemd")
    )

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "app.service")],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )

    assert "malloc.conf" not in done.stderr


def test_dockerfile_starts_with_no_parser_directive():
    assert not re.match(r"#\s*\w+\s*=", render(plain(), "docker"))


def test_kubernetes_values_stay_texts():
    entries = yaml.safe_load(render(with_value("1"), "kubernetes"))["env"]

    assert entries[1] == {"name": "CONF", "value": "1"}


def test_allocator_of_the_recording_is_brought_before_any_validation():
    run = synthetic_run(n_trials=20)
    campaign = replace(
        run.campaign, workload=WorkloadRecord(recorded_with="/opt/app/libjemalloc.so.2")
    )
    run = replace(run, campaign=campaign)

    found = deployment(run, Pick("best", run.trials[0], ""))

    assert found.brought == ("libjemalloc.so.2",)
    assert found.variables == (("LD_PRELOAD", "libc.so.6"),)
    assert "the program brings libjemalloc.so.2" in render(found, "env")


def test_reality_stands_beside_what_was_expected_of_the_program():
    run = synthetic_run(validation=True, n_trials=300)
    (pick,) = (p for p in all_picks(run) if p.name == "no-regret")

    found = deployment(run, pick)
    comments = " ".join(render(found, "env").replace("\n#", " ").split())
    cost = json.loads(render(found, "json"))["gain"][1]

    assert " on the real program (CPU time), expected -0.21 %: " in comments
    assert " emulated;" not in comments
    assert cost["expected_ratio"] == pytest.approx(0.9979, abs=1e-4)
    assert cost["emulated_ratio"] == pytest.approx(0.9252, abs=1e-4)


def test_mimalloc_that_reads_few_variables_is_exported_with_the_limit():
    assert "first 256 variables" in render(plain("mimalloc", allow_decommit=0), "sh")
    assert "first 256 variables" not in render(plain("mimalloc"), "sh")


def test_json_carries_settings_environment_and_gain():
    document = json.loads(render(plain("jemalloc", dirty_decay_ms=0), "json"))

    assert (document["schema"], document["version"]) == ("malloc-tuner.export", 1)
    assert document["settings"] == {"dirty_decay_ms": 0}
    assert document["environment"]["LD_PRELOAD"] == document["library"]
    assert document["gain"][0]["emulated_ratio"] == pytest.approx(50.0 / 60.0)
    assert document["validation"] is None


def test_what_the_program_had_and_was_measured_without_is_unset():
    had = replace(plain(tcache=False), unset=("GLIBC_TUNABLES", "MALLOC_ARENA_MAX"))

    assert "\nunset GLIBC_TUNABLES MALLOC_ARENA_MAX\nexport " in render(had, "sh")
    assert "\nUnsetEnvironment=GLIBC_TUNABLES MALLOC_ARENA_MAX\n" in render(had, "systemd")
    assert json.loads(render(had, "json"))["unset"] == ["GLIBC_TUNABLES", "MALLOC_ARENA_MAX"]
    for name in ("env", "docker", "kubernetes"):
        text = render(had, name)
        assert "# not set: GLIBC_TUNABLES, MALLOC_ARENA_MAX: the program had" in text
        assert "remove GLIBC_TUNABLES, MALLOC_ARENA_MAX from the image or pod" in text
    assert "(set -a; unset GLIBC_TUNABLES MALLOC_ARENA_MAX; . ./" in render(had, "env")
