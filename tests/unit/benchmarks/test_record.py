"""What recording costs, from kept rows; and that nothing outlives a stop."""

import signal
import subprocess
from typing import Any

import pytest

from benchmarks.record import _ended, lines, summary, targets, valgrind_event


def rows(ours: float | None, heaptrack: float = 3.0, n: int = 7) -> list[dict[str, Any]]:
    """Return rounds of a program that takes 1 s bare; `ours` None: it cannot be recorded."""
    found = []
    for number in range(n):
        head = {"task": "x", "round": number, "status": "ok", "reason": None, "wall_s": 1.0}
        for tool, cpu_s in (("bare", 1.0), ("ours", ours), ("heaptrack", heaptrack)):
            if cpu_s is None:
                failed = {"status": "failed", "reason": "exit status 7"}
                found += [{**head, **failed, "subject": tool}] if number == 0 else []
                continue
            own = {"n_events": 100, "file_bytes": 120} if tool == "ours" else {"file_bytes": 0}
            cpu = {"cpu_s": cpu_s + 0.001 * number, "command_cpu_s": cpu_s + 0.001 * number}
            found.append({**head, **cpu, **own, "subject": tool})
    return found


def test_added_time_is_a_share_of_heaptracks():
    parts = {"x": {"rows": rows(1.5), "lost": {"valgrind": 9, "lost": 0, "extra": 0,
                                               "other_size": 0}}}  # fmt: skip

    found = {target.what: target for target in targets(parts)}

    assert found["x: added / heaptrack's"].value == pytest.approx(0.25)
    interval = found["x: added / heaptrack's"].interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.25, 0.25))
    assert found["x: bytes an event"].value == pytest.approx(1.2)
    assert summary(parts, "reached").startswith(
        "reached: at most 0.25 of heaptrack's time in 1 of 1 programs"
    )


def test_the_whole_command_is_shown_and_not_judged():
    """The program itself is what waits for its recorder; building the trace comes later."""
    whole = [
        {**row, "command_cpu_s": 2.9 + row["cpu_s"] - 1.5} if row["subject"] == "ours" else row
        for row in rows(1.5)
    ]
    parts = {"x": {"rows": whole, "lost": None}}

    assert all(target.is_met for target in targets(parts))
    assert "; whole command 0.95 to 0.95; " in summary(parts, "reached")


def test_what_could_not_be_recorded_reaches_nothing():
    parts = {"x": {"rows": rows(None), "lost": None}}

    assert list(targets(parts)) == []
    assert summary(parts, "reached").startswith("not shown yet: no time to compare")
    assert "no result: x, ours: exit status 7" in list(lines(parts))


def test_programs_without_a_share_are_in_the_noise_or_not_compared():
    crashed = rows(1.5)
    crashed[4] |= {"status": "failed", "reason": "exit status 1"}
    without_heaptrack = [row for row in rows(1.5) if row["subject"] != "heaptrack"]
    lost = {"valgrind": 9, "lost": 0, "extra": 0, "other_size": 0}
    parts = {
        "good": {"rows": rows(1.5), "lost": lost},
        "noisy": {"rows": rows(1.5, heaptrack=1.0), "lost": lost},
        "crashed": {"rows": crashed, "lost": None},
        "alone": {"rows": without_heaptrack, "lost": None},
    }

    said = summary(parts, "reached")

    words = "1 within the noise; not compared: crashed, alone"
    assert said.startswith(
        f"partly shown: at most 0.25 of heaptrack's time in 1 of 4 programs ({words})"
    )
    assert said.endswith("; 0 lost in 2 single-threaded programs")
    assert summary({"crashed": parts["crashed"]}, "").endswith("; losses not counted")


def test_a_program_that_is_given_up_is_ended():
    server = subprocess.Popen(["sleep", "1000"], start_new_session=True)

    with pytest.raises(KeyboardInterrupt), _ended(server):
        raise KeyboardInterrupt

    assert server.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("--12-- malloc(72704) = 0x4E8E040", ("malloc", 72704)),
        ("--12-- calloc(3, 8) = 0x4E8E040", ("calloc", 24)),
        ("--12-- realloc(0x0, 9)malloc(9) = 0x4E8E040", ("malloc", 9)),
        ("--12-- free(0x0)", None),
        ("--12-- _ZdlPv(0x4E8E040)", ("free", 0)),
        ("==12== done", None),
    ],
)
def test_lines_of_valgrind_are_calls(line: str, event: tuple[str, int] | None):
    assert valgrind_event(line) == event
