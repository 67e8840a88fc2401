"""What `optimize` shows while it works."""

import io
import math
import os
import sys
import threading

import pytest
from rich.console import Console

from tests.doubles.clock import Clock
from tests.doubles.runs import trial
from tuner.cli import optimize_view
from tuner.cli.optimize_view import ProgressView
from tuner.optimize.proof.judgement import Gain, Standing, State
from tuner.optimize.quantities import CPU, MEAN, SERVICE_NAMES
from tuner.records import Configuration

GAINS = {MEAN: Gain(0.1, 0.1, 0.1, is_exact=True), CPU: Gain(0.02, -0.01, 0.05)}


def view(clock: Clock, out: io.StringIO) -> ProgressView:
    return ProgressView("runs/app", 300.0, Console(file=out, width=100), clock)


def test_emulation_shows_how_far_how_long_and_how_good():
    clock, out = Clock(), io.StringIO()
    shown = view(clock, out)
    shown.begin("emulation", 40)
    clock.now_s = 8.0
    shown.emulated(trial(9, Configuration("glibc")), {MEAN: math.log(0.91), CPU: 0.05})

    lines = list(shown.lines())

    assert lines[0] == "runs/app  0:08 of 5:00"
    assert "10 of 40  about 0:24 left" in lines[1]
    assert lines[1].endswith("best expected: mean memory -9 %")


def test_a_line_shows_the_candidate_that_promises_most():
    """Of exgen, which gained five times as much, nothing was to be seen."""
    shown = view(Clock(), io.StringIO())
    standings = {
        name: Standing(name, 3, State.OPEN, GAINS, (), (), (), promise=promise)
        for name, promise in (("mimalloc", 0.1), ("exgen", 0.2))
    }

    shown.standing(standings, ["mimalloc", "exgen"])

    assert "; exgen mean memory" in shown.line()


def test_a_reader_that_goes_away_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch):
    """`2>&1 | head -2` ended it with exit code 0 and no answer."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        shown = ProgressView("runs/app", 300.0)
        shown.tell("a line")
        shown.tell("another")
        print("an error", file=stderr, flush=True)


def test_no_estimate_is_shown_that_the_time_has_no_room_for():
    """As of the first evaluations, which are slow to begin."""
    clock = Clock()
    shown = view(clock, io.StringIO())
    shown.begin("emulation", 220)
    clock.now_s = 8.0
    shown.emulated(trial(0, Configuration("glibc")), None)

    assert "1 of 220" in shown.line()
    assert "left" not in shown.line()


def test_emulation_promises_nothing_of_what_it_does_not_know():
    shown = view(Clock(), io.StringIO())
    shown.begin("emulation", 40)
    shown.emulated(
        trial(9, Configuration("glibc")), {MEAN: math.log(0.91), SERVICE_NAMES["rate"]: 0.0}
    )

    (_, line) = shown.lines()

    assert line.endswith("best expected: mean memory -9 %")


def test_a_confirmation_shows_what_is_proven_and_what_failed():
    shown = view(Clock(), io.StringIO())
    shown.begin("confirmation", None)
    shown.ran("exgen", "killed by SIGSEGV", None)
    one = Standing("mimalloc", 3, State.OPEN, GAINS, (), (), ())
    shown.standing({"mimalloc": one}, ["mimalloc"])

    text = "\n".join(shown.lines())

    assert "confirmation  1 run, 1 candidate left" in text
    assert "mean memory -9.5 %, CPU time -2.0 % (-4.9 .. +1.0)" in text
    assert "failed: exgen: killed by SIGSEGV" in text

    shown.begin("held-out input", 8)
    assert "mean memory" not in "\n".join(shown.lines())  # those were of the tuned one


def test_a_narrow_terminal_shows_every_gain():
    """At 80 columns CPU time was cut off, beside a label that was padded to 44."""
    out = io.StringIO()
    shown = ProgressView("runs/app", 300.0, Console(file=out, width=60), Clock())
    shown.begin("emulation", 40)
    shown.emulated(trial(9, Configuration("glibc")), {MEAN: math.log(0.91), CPU: math.log(0.8)})
    emulating = list(shown.lines())
    shown.begin("confirmation", None)
    one = Standing("exgen", 3, State.OPEN, GAINS, (), (), ())
    shown.standing({"exgen": one}, ["exgen"])
    fits = list(shown.lines())
    long = Standing("exgen " + "x" * 40, 3, State.OPEN, GAINS, (), (), ())
    shown.standing({"exgen": long}, ["exgen"])

    assert emulating[2] == "    best expected: mean memory -9 %, CPU time -20 %"
    assert fits[2:] == ["  exgen mean memory -9.5 %, CPU time -2.0 % (-4.9 .. +1.0)"]
    assert list(shown.lines())[3] == "    mean memory -9.5 %, CPU time -2.0 % (-4.9 .. +1.0)"
    narrow = ProgressView("runs/app", 300.0, Console(file=out, width=10), Clock())
    narrow.begin("confirmation", 40)
    assert all(line.strip() for line in narrow.lines())


def test_a_log_gets_a_line_every_ten_seconds():
    clock, out = Clock(), io.StringIO()
    shown = view(clock, out)
    with shown:
        shown.begin("emulation", 40)
        for number in range(40):
            clock.now_s += 1.0
            shown.emulated(trial(number, Configuration("glibc")), None)
        shown.tell("searched   40 settings")

    lines = out.getvalue().splitlines()

    assert len(lines) == 6
    assert lines[0] == "0:00 of 5:00: search in emulation", "before its first event, which is slow"
    assert lines[1].startswith("0:10 of 5:00: emulation ")
    assert lines[-1] == "searched   40 settings"


def test_a_log_hears_that_one_long_run_goes_on(monkeypatch: pytest.MonkeyPatch):
    """Nothing ends while it waits, so that no event brings a line."""
    monkeypatch.setattr(optimize_view, "_HEARTBEAT_S", 0.001)
    heard = threading.Event()

    class Log(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("0:12 of 5:00: first runs"):
                heard.set()
            return super().write(text)

    clock = Clock()
    shown = view(clock, Log())
    with shown:
        shown.begin("examining", None)
        clock.now_s = 12.0

        assert heard.wait(60.0)


def test_a_stage_is_named_by_what_it_does():
    shown = view(Clock(), io.StringIO())
    shown.begin("others", None)
    shown.ran("exgen", None, None)

    assert shown.line() == "0:00 of 5:00: last proposals 1 run"


def test_more_steps_than_were_expected_are_no_more_than_all():
    """The number is an estimate of what the time allows; it said 4 of 3."""
    shown = view(Clock(), io.StringIO())
    shown.begin("search", 3)
    for _ in range(4):
        shown.ran("exgen", None, None)

    assert shown.line().endswith("4 of 4")


def test_a_long_line_of_the_picture_does_not_wrap():
    """What is below it would jump at each refresh."""
    out = io.StringIO()
    shown = ProgressView("x" * 90, 300.0, Console(file=out, width=60, force_terminal=True), Clock())
    with shown:
        pass

    assert max(map(len, out.getvalue().splitlines())) < 90
    assert "x…" in out.getvalue()


def test_what_stays_is_broken_at_a_blank_on_a_terminal_alone():
    line = "recorded   863,214 events of malloc and free of 1 thread; the program: 13.4 MiB peak"
    shown = []
    for is_terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, width=60, force_terminal=is_terminal)
        ProgressView("runs/app", 300.0, console, Clock()).tell(line)
        shown.append(out.getvalue().splitlines())

    first, second = shown[0]
    assert second == " " * 11 + line.removeprefix(first).strip()
    assert shown[1] == [line]


def test_candidates_that_wait_for_another_are_still_counted():
    shown = view(Clock(), io.StringIO())
    shown.begin("confirmation", None)
    standings = {name: Standing(name, 3, State.OPEN, GAINS, (), (), ()) for name in ("a", "b")}
    standings["c"] = Standing("c", 3, State.WORSE, GAINS, (), (), ())

    shown.standing(standings, ["a"])

    assert "1 of 2 candidates running" in shown.line()
    shown.standing(standings, ["a", "b"])
    assert "2 candidates left" in shown.line()


def test_taking_settings_back_shows_its_own_steps_and_no_candidates():
    clock = Clock()
    shown = view(clock, io.StringIO())
    shown.begin("confirmation", None)
    standings = {name: Standing(name, 3, State.OPEN, GAINS, (), (), ()) for name in ("a", "b")}
    shown.standing(standings, ["a", "b"])
    shown.begin("one setting less", 6)
    clock.now_s = 4.0
    shown.ran("a without narenas", None, None)

    assert "candidates" not in shown.line()
    assert "1 of 6  about 0:20 left" in shown.line()


def test_without_a_limit_of_time_only_the_time_used_is_shown():
    clock = Clock()
    shown = ProgressView("runs/server-service", 0.0, Console(file=io.StringIO()), clock)
    shown.begin("comparison", None)
    clock.now_s = 16.0
    shown.ran("glibc", None, None)

    assert shown.line() == "0:16: comparison 1 run"
    assert next(shown.lines()) == "runs/server-service  0:16"
