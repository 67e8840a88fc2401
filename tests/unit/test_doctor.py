"""The doctor: findings, packages, verdict, and both ways of printing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from tuner import doctor
from tuner.cli import app as application
from tuner.cli import doctor as command
from tuner.cli import main
from tuner.cli.epilog import add_command
from tuner.config import shipped_allocator_file
from tuner.doctor import Examination, Finding, package_choices
from tuner.emulation import Calibration
from tuner.errors import SpecError
from tuner.machine import read_machine
from tuner.measure import instruments
from tuner.measure.instruments import Instrument
from tuner.measure.offers import NO_PTRACE, Offer, ask
from tuner.resources import packages_file

GLIBC = Finding("allocators", "glibc", works=True, detail="2.36", needed=True)
QEMU = Finding("instruments", "qemu", works=True, detail="7.2", needed=False)
NO_JEMALLOC = Finding(
    "allocators", "jemalloc", works=False, detail="not found", needed=False, package="libjemalloc2"
)


NO_INSTRUMENT = "no instrument counts the allocator's instructions here"


@pytest.fixture
def known_instruments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try out no instrument: that takes the longest of an examination."""
    qemu = Instrument("qemu", works=True, detail="7.2")
    monkeypatch.setattr(instruments, "find_instruments", lambda: (qemu,))


def examination(*findings: Finding) -> Examination:
    return Examination(read_machine(), findings)


def test_ready_when_everything_needed_works():
    assert examination(GLIBC, NO_JEMALLOC, QEMU).problems == ()


def test_a_missing_peer_is_no_problem_but_names_its_package():
    found = examination(GLIBC, NO_JEMALLOC, replace(NO_JEMALLOC, name="again"), QEMU)

    assert found.packages == ("libjemalloc2",)


def test_a_missing_native_part_is_a_problem():
    part = Finding("native parts", "probe", works=False, detail="not found", needed=True)

    assert examination(part, GLIBC, QEMU).problems == ("probe: not found",)


def test_one_instrument_must_work():
    broken = replace(QEMU, works=False)

    assert examination(GLIBC, broken).problems == (NO_INSTRUMENT,)
    assert examination(GLIBC, broken, replace(QEMU, name="perf")).problems == (NO_INSTRUMENT,)
    assert examination(GLIBC, broken, replace(QEMU, name="cachegrind")).problems == ()


def test_a_machine_without_ptrace_is_not_ready_and_what_works_there_is_named():
    run = Finding("programs", "supervised run", works=True, detail=NO_PTRACE, needed=True)
    (problem,) = examination(GLIBC, QEMU, run).problems

    assert "--objectives mean_heap,instructions" in problem
    assert "--direct" in problem


def test_an_instrument_that_lacks_something_is_not_a_missing_package(
    monkeypatch: pytest.MonkeyPatch,
):
    """Debian 13's qemu-user is built without plugins: installing it again is no help."""
    verdict = Instrument("qemu", works=False, detail="unknown option 'plugin'")
    monkeypatch.setattr(instruments, "find_instruments", lambda: (verdict,))
    monkeypatch.setattr(doctor, "ask", lambda _words: Offer(works=True, detail="10.0"))
    found = doctor.examine()

    assert [f.detail for f in found.findings if f.group == "instruments"] == [verdict.detail]
    assert not {"qemu-user", "valgrind"} & set(found.packages)


@pytest.mark.usefixtures("known_instruments")
@pytest.mark.parametrize("program", ["libjemalloc.so.2", "valgrind"])
def test_what_is_here_and_does_not_work_is_no_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
):
    (tmp_path / program).write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = doctor.examine()

    assert str(tmp_path / program) in "".join(f.detail for f in found.findings if not f.works)
    assert not {"libjemalloc2", "valgrind"} & set(found.packages)


@pytest.mark.parametrize(
    ("word", "packages"), [("jemalloc", ("libjemalloc2",)), ("new-and-old", ("new", "old"))]
)
def test_packages_are_looked_up_by_what_they_provide(word: str, packages: tuple[str, ...]):
    text = "# run jemalloc commented\nrun jemalloc libjemalloc2\nrun,test new-and-old new|old\n"

    assert package_choices(text, word) == packages


def test_an_unknown_word_is_an_error():
    with pytest.raises(SpecError, match="nothing provides 'nothing'"):
        package_choices("run jemalloc libjemalloc2\n", "nothing")


def test_the_shipped_list_has_every_word_the_doctor_uses(monkeypatch: pytest.MonkeyPatch):
    """Also where there is no apt to ask which of the names it knows."""
    monkeypatch.setattr("shutil.which", lambda _program: None)
    words = [*doctor.TOOLS, "tcmalloc", "jemalloc", "mimalloc"]

    assert all(doctor.package_for(word) for word in words)


@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc", "mimalloc"])
def test_allocator_files_and_the_list_name_the_same_packages(name: str):
    package = shipped_allocator_file(name).library.package

    assert package.split("|") == [*package_choices(packages_file().read_text(), name)]


def test_every_line_of_the_shipped_list_has_three_columns():
    lines = Path(__file__).resolve().parents[2] / "packages.txt"
    groups = "build|run|demo|test|lint|bench|serve"

    for line in lines.read_text().splitlines():
        assert re.fullmatch(rf"#.*|(?:{groups})(?:,(?:{groups}))*\s+\S+\s+[a-z0-9.+|-]+", line), (
            line
        )


def test_asking_a_program_that_answers():
    offer = ask(["sh", "-c", "echo; echo answer 1.0; echo more"])

    assert offer.works
    assert offer.detail.endswith("/sh: answer 1.0")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-such-program"], "not found"),
        (["sh", "-c", "echo broken >&2; exit 3"], "exit status 3: broken"),
        (["sh", "-c", "exit 4"], "exit status 4: no output"),
    ],
)
def test_asking_a_program_that_does_not(words: list[str], why: str):
    offer = ask(words)

    assert not offer.works
    assert offer.detail.endswith(why)


def test_text_says_what_to_install_and_what_is_wrong():
    text = command.as_text(examination(replace(GLIBC, works=False, detail="gone"), NO_JEMALLOC))

    assert re.search(r"^  glibc +MISSING +gone$", text, re.MULTILINE)
    assert re.search(r"^  jemalloc +no +not found$", text, re.MULTILINE)
    assert "apt install libjemalloc2" in text
    assert text.endswith(f"Not ready:\n  glibc: gone\n  {NO_INSTRUMENT}")


def test_text_of_a_good_machine():
    assert command.as_text(examination(GLIBC, QEMU)).endswith("Ready to record, tune and validate.")


PRICES = Calibration(
    900.0, 400.0, 0.3, 90.0, (800.0, 1000.0), (80.0, 100.0), (300.0, 500.0), n_draws=3
)


def test_prices_are_shown_with_their_interval():
    found = replace(examination(GLIBC, QEMU), prices=PRICES)

    text = command.as_text(found)
    assert "a page fault costs 900 (800 to 1,000) instructions" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    assert json.loads(command.as_json(found))["prices"]["c_fault_interval"] == [800.0, 1000.0]


def test_without_prices_it_says_how_to_measure_them():
    found = examination(GLIBC, QEMU)

    assert "not measured yet; --calibrate" in command.as_text(found)
    assert json.loads(command.as_json(found))["prices"] is None


@pytest.mark.parametrize("has_another", [True, False])
def test_counters_that_nobody_needs_are_no_lack(
    monkeypatch: pytest.MonkeyPatch, *, has_another: bool
):
    perf = Instrument("perf", works=False, detail="no counters")
    found = (Instrument("qemu", works=has_another, detail="7.2"), perf)
    monkeypatch.setattr(instruments, "find_instruments", lambda: found)

    (finding,) = (one for one in doctor.examine().findings if one.name == "perf")

    assert finding.detail.startswith("no counters")
    assert ("not needed" in finding.detail) == has_another


@pytest.mark.usefixtures("known_instruments")
def test_prices_are_measured_only_when_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "kept_calibration", lambda: None)
    monkeypatch.setattr(doctor, "load_calibration", lambda: PRICES)

    assert doctor.examine().prices is None
    assert doctor.examine(calibrate=True).prices == PRICES


def test_json_holds_every_finding():
    value = json.loads(command.as_json(examination(GLIBC, NO_JEMALLOC, QEMU)))

    assert (value["schema"], value["version"]) == ("malloc-tuner.doctor", 1)
    assert [f["name"] for f in value["findings"]] == ["glibc", "jemalloc", "qemu"]
    assert value["is_ready"] is True
    assert value["machine"]["page_bytes"] == read_machine().page_bytes


@pytest.mark.parametrize(("works", "code"), [(True, 0), (False, 4)])
def test_exit_code(monkeypatch: pytest.MonkeyPatch, works: bool, code: int):
    found = examination(replace(GLIBC, works=works), QEMU)
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: found)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    add_command(app, "doctor", command.doctor)
    monkeypatch.setattr(application, "build_app", lambda _: app)

    assert main.run(["doctor"]) == code


@pytest.mark.usefixtures("known_instruments")
@pytest.mark.parametrize(
    ("script", "works"),
    [
        ("test $4 = -c && echo 'gem5 version 24.0.0.1' && echo USE_X86_ISA = True", True),
        ("echo 'gem5 version 24.0.0.1'; echo '    USE_X86_ISA = False'", False),
        ("echo something else", False),
        ("exit 1", False),
    ],
)
def test_gem5_is_tried_out(tmp_path: Path, script: str, works: bool):
    """It must answer, and as a gem5 with X86; the rest of this machine is examined as it is."""
    program = tmp_path / "gem5.opt"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)

    found = doctor.examine(gem5=str(program))

    gem5 = next(finding for finding in found.findings if finding.name == "gem5")
    assert gem5.works == works
    assert str(program) in gem5.detail
    assert any(str(program) in problem for problem in found.problems) == (not works)


@pytest.mark.parametrize("gem5", [None, ""])
def test_without_gem5_all_is_well_and_it_says_where_to_get_it(gem5: str | None):
    found = doctor.examine(gem5=gem5)
    gem5_ = next(finding for finding in found.findings if finding.name == "gem5")
    assert (gem5_.works, gem5_.needed) == (False, False)
    assert "gem5.org/documentation" in gem5_.detail
