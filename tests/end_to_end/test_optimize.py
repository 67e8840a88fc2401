"""`malloc-tuner optimize` on a real program with real allocators."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.doubles.programs import compile_
from tuner.cli.main import run
from tuner.compare.plan import Step
from tuner.errors import ProgramError
from tuner.measure.program import ProgramRunner
from tuner.optimize import request
from tuner.optimize.answering.recommendation import recommended
from tuner.optimize.choosing import emulation
from tuner.optimize.kinds.program import Program
from tuner.optimize.tuned import AS_IS, Reference

pytestmark = pytest.mark.end_to_end

STATIC = """
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char *blocks[4000];
    for (int i = 0; i < 200000; i++) {
        free(blocks[i % 4000]);
        blocks[i % 4000] = memset(malloc(16 + i % 900), i, 16 + i % 900);
    }
    return 0;
}
"""

PROGRAM = "import sys; x = [bytes(700 * (i % 9)) for i in range(9000)]; print(len(x))"


def optimize(folder: Path, *options: str, program: str = PROGRAM, held_out: str = "") -> int:
    words = ["optimize", "-o", str(folder), "--allocators", "glibc,jemalloc", "--evaluations", "8"]
    words += [*options, "--", sys.executable, "-S", "-c", program]
    if held_out:
        words += ["--held-out", "--", sys.executable, "-S", "-c", held_out]
    return run(words)


def test_it_ends_with_a_sentence_and_continues(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    folder = tmp_path / "run"

    assert optimize(folder, "--time", "12s", held_out=PROGRAM.replace("9000", "8000")) == 0
    out, err = capfd.readouterr()

    assert out.strip().splitlines()[0].startswith(("Deploy ", "Keep ", "Not decided "))
    assert "as it is (glibc)" in out
    assert "recorded" in err
    assert out.count("9000") == 0, "what the program prints is its own"
    answer = json.loads((folder / "answer.json").read_text())
    found = recommended(folder)
    assert found is not None
    assert found.decision == answer["decision"]
    exported = run(["export", str(folder)])
    out, err = capfd.readouterr()
    if answer["decision"] == "deploy":
        assert exported == 0
        assert "proven:" in out
    else:
        assert exported == 12
        assert "name its --pick" in err

    for path in folder.glob("store.sqlite*"):
        path.unlink()
    assert run(["optimize", str(folder), "--time", "1s"]) == 0
    said = "searched" if answer["decision"] == "undecided" else "the answer is known"
    assert said in capfd.readouterr().err, "again what is missing, unless nothing is"

    limit = ["--constraint", "peak_memory <= default * 1.1"]
    assert run(["optimize", str(folder), "--time", "6s", "--json", *limit]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "malloc-tuner.answer"
    assert "recorded" not in err
    assert (folder / "before-1" / "answer.json").exists(), "of other constraints"
    assert json.loads((folder / "optimize.json").read_text())["rules"]["limits"]


def test_too_little_time_gives_a_proposal_that_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """Also where an earlier call was killed while it recorded."""
    (tmp_path / "run/program.trace.spool").mkdir(parents=True)
    (tmp_path / "run/reference.json").touch()

    program = f"import time; time.sleep(0.2); {PROGRAM}"

    assert optimize(tmp_path / "run", "--time", "1s", program=program) == 0

    said = " ".join(capfd.readouterr().out.split())  # where a line ends depends on the proposal
    assert "which no run has confirmed" in said


def test_a_program_longer_than_the_time_is_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(request, "PATIENCE_S", 1.0)
    program = "import time; time.sleep(600)"

    assert optimize(tmp_path / "run", "--time", "1s", program=program) == 8
    assert "still running after 1 s; give it the --time of" in capfd.readouterr().err


def test_a_recording_that_the_time_has_no_room_for_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """More time goes on from there."""
    monkeypatch.setattr(request, "PATIENCE_S", 0.0)
    program = f"import time; time.sleep(1.0); {PROGRAM}"

    assert optimize(tmp_path / "run", "--time", "2s", program=program) == 8
    assert "a recording take all of --time 2s; give it the --time" in capfd.readouterr().err
    assert not (tmp_path / "run" / "program.trace").exists()

    monkeypatch.undo()
    assert optimize(tmp_path / "run", "--time", "2s", program=program) == 0


def test_a_driver_of_others_is_followed(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Its child is what is recorded and measured; a build may refuse the answer."""
    child = f"{PROGRAM}; sum(i * i for i in range(2000000))"
    driver = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])"

    code = optimize(tmp_path / "run", "--time", "1s", "--fail-if", "undecided", program=driver)

    out, err = capfd.readouterr()
    assert code == 19
    assert "figures are of that child, run alone" in out
    assert "--fail-if 'undecided' holds: Not decided in " in err
    reference = json.loads((tmp_path / "run" / "reference.json").read_text())
    assert reference["command"][-1] == child


def test_a_script_of_several_programs_is_refused_unless_it_works_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    script, folder = tmp_path / "nightly.sh", tmp_path / "run"
    words = ["optimize", "-o", str(folder), "--time", "1s", "--", "sh", str(script)]
    child = f"{sys.executable} -S -c '{PROGRAM}; sum(range(5000000)) #"
    script.write_text("".join(f"{child}{n}'\n" for n in range(3)))

    assert run(words) == 7
    what, heaviest, advice = capfd.readouterr().err.split("\n  ")
    assert "sh: 9" in what
    assert heaviest.startswith("the heaviest by CPU time: python")
    assert f"`malloc-tuner optimize -- {sys.executable} -S -c " in advice
    assert not folder.exists()

    script.write_text("true | true\ni=0; while [ $i -lt 300000 ]; do i=$((i+1)); done\n")
    assert run(words) == 0


def test_a_static_program_is_tuned_without_a_recording(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    program = compile_(tmp_path, STATIC, "-static")
    folder = tmp_path / "run"
    words = ["optimize", "-o", str(folder), "--allocators", "glibc,jemalloc", "--time", "15s"]

    assert run([*words, "--", str(program)]) == 7
    assert "statically linked" in (err := capfd.readouterr().err)
    assert "`malloc-tuner optimize --direct` does without a recording" in err

    assert run([*words, "--direct", "--", str(program)]) == 0
    out, err = capfd.readouterr()
    assert f"{program} is statically linked, so nothing can be preloaded into it: only" in err
    assert "malloc-tuner report" in out
    runs = (folder / "selection.jsonl").read_text()
    assert '"subject":"glibc ' in runs
    assert '"subject":"jemalloc' not in runs, "it ran once"
    assert not (folder / "program.trace").exists()
    assert run(["front", str(folder), "--all"]) == 0
    shown = capfd.readouterr().out
    assert "Measured on the program itself" in shown
    assert "glibc " in shown
    assert run(["report", str(folder), "--no-figures"]) == 0
    assert "Measured on the program" in (folder / "report.html").read_text()
    assert run(["explain", str(folder)]) == 12
    assert "malloc-tuner front" in capfd.readouterr().err
    words[2:5] = [str(tmp_path / "other"), "--allocators", "jemalloc"]
    assert run([*words, "--direct", "--", str(program)]) == 7
    assert "name glibc among --allocators" in capfd.readouterr().err


def test_a_program_that_fails_is_one_error_before_anything_is_tuned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    crash = "import os; os.write(2, b'out of luck\\n'); os.kill(os.getpid(), 11)"

    assert optimize(tmp_path / "run", program=crash) == 7

    err = capfd.readouterr().err
    assert "killed by SIGSEGV before anything was changed" in err
    assert "out of luck" in err
    assert not (tmp_path / "run" / "program.trace").exists()


def test_more_time_searches_more_where_no_run_has_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The number of evaluations is that of the longer call."""
    folder = tmp_path / "run"
    words = ["optimize", "-o", str(folder), "--allocators", "glibc"]
    slow = f"import time; time.sleep(1.5); {PROGRAM}"
    monkeypatch.setattr(emulation, "evaluations_within", lambda *_: 3)
    assert run([*words, "--time", "10s", "--", sys.executable, "-S", "-c", slow]) == 0
    assert not (folder / "selection.jsonl").exists()
    assert emulation.begun(folder)
    first_s = json.loads((folder / "time.json").read_text())["seconds"]
    monkeypatch.setattr(emulation, "evaluations_within", lambda *_: 9)

    assert run(["optimize", str(folder), "--time", "1s"]) == 0

    searched = emulation.begun(folder)
    assert searched
    assert searched.budget == 9
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["seconds"] > first_s, "of both calls"


def test_what_was_begun_is_gone_on_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """As if it had been killed while candidates were selected; other time, same candidates."""
    folder = tmp_path / "run"
    assert optimize(folder, "--time", "12s") == 0
    selection = folder / "selection.jsonl"
    if not selection.exists():
        pytest.skip("no time to select here")
    header, *runs = selection.read_text().splitlines(keepends=True)
    selection.write_text("".join([header, *runs[:1], runs[1][:20]]))
    for name in ("exploration.jsonl", "confirmation.jsonl", "answer.json"):
        (folder / name).unlink(missing_ok=True)
    capfd.readouterr()

    assert optimize(folder, "--time", "20s") == 0

    assert selection.read_text().startswith(header)
    assert len(selection.read_text().splitlines()) > len([header, runs[0]])
    assert (folder / "answer.json").exists()


def test_a_failed_first_call_does_not_take_the_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = tmp_path / "run"
    crash = "import os; os.kill(os.getpid(), 11)"

    assert optimize(folder, program=crash) == 7
    assert optimize(folder, "--time", "1s") == 0


def test_a_file_in_place_of_the_folder_is_refused_before_anything_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")

    assert optimize(tmp_path / "file", program="import os; os._exit(3)") == 10
    assert "is a file); choose another place with -o" in capfd.readouterr().err


def test_input_that_the_program_would_not_see_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "in.txt"
    path.write_text("1\n")
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run(["optimize", "--", "true"]) == 3
    assert "standard input is not passed on" in capfd.readouterr().err


def test_what_the_kernel_does_for_a_program_is_counted():
    program = Program([sys.executable, "-S", "-c", "print(1)"], ProgramRunner(), os.environ, {})
    more = "import os\nfor _ in range(1000): os.getppid()\nprint(1)"
    busier = Program([sys.executable, "-S", "-c", more], ProgramRunner(), os.environ, {})

    few = program.count_kernel({}, program.examine(), AS_IS)
    many = busier.count_kernel({}, busier.examine(), AS_IS)

    assert few["page faults"] > 100
    assert 950 <= many["system calls"] - few["system calls"] <= 1100


def test_a_program_that_is_stopped_ends_on_any_core():
    """As on Ctrl-C, while others run beside it."""
    command = ("sleep", "5")
    program = Program(command, ProgramRunner(), os.environ, {})
    reference = Reference(command, {}, 0, None, None, wall_s=5.0, timeout_s=60.0)
    core = min(os.sched_getaffinity(0))

    program.stop()

    with pytest.raises(ProgramError):
        program.on_core(core).runner({}, reference)(Step(0, 0, None, AS_IS))
