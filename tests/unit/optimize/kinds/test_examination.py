"""The first runs, of the program and of its held-out input."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tests.doubles.programs import SINGLE, compile_
from tuner.allocators import Installation, get_allocator
from tuner.errors import ProgramError, ProgramTimeoutError, SpecError, TunerError
from tuner.optimize.kinds import examination
from tuner.optimize.kinds.examination import examine, examine_held_out, loadable, noted
from tuner.optimize.quantities import CPU
from tuner.optimize.tuned import Reference, Tuned
from tuner.optimize.view import View

FAILING = Reference(
    ("app",), {CPU: 1e9}, 1, None, None, 1.0, 30.0, notes=("As it is, the program ends with 1.",)
)


class App(View):
    """Remembers what is said, and how often it was examined."""

    command: tuple[str, ...] = ("app",)

    def __init__(self, error: TunerError | None = None) -> None:
        self.error = error
        self.said: list[str] = []
        self.n_examined = 0

    def tell(self, line: str) -> None:
        self.said.append(line)

    def examine(self) -> Reference:
        self.n_examined += 1
        if self.error is not None:
            raise self.error
        return FAILING


Examines = Callable[..., Reference]


def test_a_malloc_of_the_programs_own_is_said_whatever_starts_it(tmp_path: Path):
    own = compile_(tmp_path, "void *malloc(unsigned long n) { return (void *)n; }", "-shared")

    class Started(App):
        def examine(self) -> Reference:
            return replace(FAILING, command=("sh", "-c", "exec ./app"), program=str(own))

    app = Started()
    examine(tmp_path, cast("Tuned", app), app, is_begun=False)
    assert "note       The program has a malloc of its own" in app.said[-1]


def test_what_a_recording_shows_again_is_noted_once(tmp_path: Path):
    once = noted(tmp_path, FAILING, ["It has few events."])

    assert noted(tmp_path, once, ["It has few events."]).notes == once.notes


@pytest.mark.parametrize("first_runs", [examine, examine_held_out])
def test_what_is_known_is_not_run_again_unless_it_is_of_another(
    tmp_path: Path, first_runs: Examines
):
    app = App()
    for is_begun, n_examined in ((False, 1), (True, 1), (False, 2)):
        found = first_runs(tmp_path, cast("Tuned", app), app, is_begun=is_begun)

        assert found == FAILING
        assert app.n_examined == n_examined


def test_the_two_are_kept_apart(tmp_path: Path):
    app = App()
    examine(tmp_path, cast("Tuned", app), app, is_begun=False)
    other = replace(FAILING, exit_status=0, notes=())
    app.examine = lambda: other  # type: ignore[method-assign]

    assert examine_held_out(tmp_path, cast("Tuned", app), app, is_begun=True) == other
    assert examine(tmp_path, cast("Tuned", app), app, is_begun=True) == FAILING


def test_a_held_out_input_on_which_the_program_fails_is_said_to_do_so_in_every_call(tmp_path: Path):
    for is_begun in (False, True):
        app = App()
        examine_held_out(tmp_path, cast("Tuned", app), app, is_begun=is_begun)

        assert app.said == ["held out   As it is, the program ends with 1."]


@pytest.mark.parametrize("error", [ProgramError("killed"), ProgramTimeoutError("still running")])
def test_an_error_says_that_it_is_of_the_held_out_input(tmp_path: Path, error: TunerError):
    app = App(error)

    with pytest.raises(type(error), match=f"the held-out input: {error}"):
        examine_held_out(tmp_path, cast("Tuned", app), app, is_begun=False)


def test_a_malloc_of_the_program_itself_is_said(tmp_path: Path):
    own = f"void *malloc(unsigned long n) {{ return (void *)(n - n); }} {SINGLE}"
    for source, n_notes in ((SINGLE, 1), (own, 2)):
        file, app = compile_(tmp_path, source, "-fno-builtin", "-rdynamic"), App()
        app.examine = partial(replace, FAILING, command=(str(file),))  # type: ignore[method-assign]
        examine(tmp_path, cast("Tuned", app), app, is_begun=False)

        assert len(app.said) == n_notes
        assert app.said[-1].startswith("note       The program has a malloc") is (n_notes == 2)


def test_runs_of_a_file_that_has_changed_since_are_not_gone_on_with(tmp_path: Path):
    program, app = tmp_path / "program", App()
    app.examine = lambda: replace(FAILING, command=(str(program),))  # type: ignore[method-assign]
    for text in ("one", "other"):
        program.write_text(text)
        program.chmod(0o755)
        if text == "one":
            examine(tmp_path, cast("Tuned", app), app, is_begun=False)
            examine(tmp_path, cast("Tuned", app), app, is_begun=True)

    with pytest.raises(SpecError, match="before its file changed; choose another -o"):
        examine(tmp_path, cast("Tuned", app), app, is_begun=True)


@pytest.mark.parametrize("first_runs", [examine, examine_held_out])
@pytest.mark.parametrize("n_bytes", [3, (1 << 28) + 1], ids=["read", "too large to read"])
def test_a_file_that_the_command_names_must_stay_unless_the_program_writes_it(
    tmp_path: Path, first_runs: Examines, n_bytes: int
):
    data, out, app = tmp_path / "data", tmp_path / "out", App()
    app.command = ("sh", "-c", f"app --input={data} {out}")
    data.write_text("one")
    os.truncate(data, n_bytes)
    out.write_text("before")
    app.examine = lambda: (out.write_text("by it"), FAILING)[1]  # type: ignore[method-assign]
    first_runs(tmp_path, cast("Tuned", app), app, is_begun=False)
    out.write_text("by another run")
    first_runs(tmp_path, cast("Tuned", app), app, is_begun=True)
    data.write_text("two")

    with pytest.raises(SpecError, match=r"holds runs of app before \S+/data changed; choose an"):
        first_runs(tmp_path, cast("Tuned", app), app, is_begun=True)
    data.unlink()
    with pytest.raises(SpecError, match="/data, not found from this folder; go on where it was be"):
        first_runs(tmp_path, cast("Tuned", app), app, is_begun=True)


def test_of_several_files_the_one_that_changed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It has grown: all files together are more than is read now, and were not before."""
    monkeypatch.setattr(examination, "_MOST_DIGESTED", 9)
    files, app = [tmp_path / name for name in ("grows", "stays")], App()
    for file in files:
        file.write_text("four")
    app.command = ("app", *map(str, files))
    examine(tmp_path, cast("Tuned", app), app, is_begun=False)
    files[0].write_text("sixsix")

    with pytest.raises(SpecError, match=r"before \S+/grows changed; choose"):
        examine(tmp_path, cast("Tuned", app), app, is_begun=True)


def test_a_program_that_is_another_one_in_the_path_by_now_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = App()
    app.examine = lambda: replace(FAILING, command=("app",))  # type: ignore[method-assign]
    for folder in ("before", "now"):
        program = tmp_path / folder / "app"
        program.parent.mkdir()
        program.write_text(folder)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "before"))
    examine(tmp_path, cast("Tuned", app), app, is_begun=False)
    monkeypatch.setenv("PATH", str(tmp_path / "now"))

    with pytest.raises(SpecError, match=r"its file changed, which is .*/now/app now; choose"):
        examine(tmp_path, cast("Tuned", app), app, is_begun=True)


def test_a_static_program_without_glibc_has_nothing_to_tune(tmp_path: Path):
    bare = compile_(tmp_path, "void _start(void) { for (;;) { } }", "-static", "-nostdlib")
    static = compile_(tmp_path, SINGLE, "-static", name="static")
    files = {"glibc": (get_allocator("glibc"), Installation("glibc", None, "2.36"))}

    def left(file: Path) -> tuple[str, ...]:
        return loadable(("glibc",), files, replace(FAILING, command=(str(file),)), View())

    assert left(static) == ("glibc",)
    with pytest.raises(ProgramError, match="statically linked, and not with glibc: nothing in"):
        left(bare)


@pytest.mark.parametrize(
    ("mode", "asked", "is_refused"),
    [
        (0o4755, "geteuid", True),
        (0o2755, "getegid", True),
        (0o4755, "getegid", False),
        (0o755, "geteuid", False),
    ],
)
def test_of_a_program_with_other_rights_no_setting_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, asked: str, *, is_refused: bool
):
    program = tmp_path / "app"
    program.write_text("#!/bin/sh\n")
    program.chmod(mode)
    monkeypatch.setattr(os, asked, lambda: 4321)
    is_so = pytest.raises(ProgramError, match=r"app is setuid or setgid: the system ignores")

    with is_so if is_refused else nullcontext():
        loadable(("exgen",), {}, replace(FAILING, command=(str(program),)), View())
