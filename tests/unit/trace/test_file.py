"""What is written is read back, and nothing a file can contain hurts the reader."""

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.errors import OutputError, TraceError
from tuner.trace.file import EVENT, Api, Events, Op, Trace, write_trace

QUANTUM_NS = 10_000
"""Resolution of times in a file; TRACE_TIME_QUANTUM_NS."""

ON_FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Program:
    """Makes legal events; keeps slots and threads as docs/formats.md asks."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.time_ns = 0
        self.owner_of: dict[int, int] = {}
        self.free_slots: dict[int, list[int]] = {0: []}
        self.running = {0}
        self.n_slots = 0

    def add(self, op: Op, api: Api, thread: int, **fields: int) -> None:
        event = {"time_ns": self.time_ns, "owner": thread, **fields}
        event |= {"op": op, "api": api, "thread": thread}
        self.rows.append(tuple(event.get(name, 0) for name in EVENT.names or ()))

    def allocate(self, thread: int, size: int, align: int | None, touch: int = 0) -> None:
        free = self.free_slots[thread]
        slot = free.pop() if free else self.n_slots
        self.n_slots = max(self.n_slots, slot + 1)
        self.owner_of[slot] = thread
        if align is None:
            self.add(Op.MALLOC, Api.NEW, thread, slot=slot, size=size, touch=touch)
        else:
            self.add(Op.ALIGNED, Api.MEMALIGN, thread, slot=slot, size=size, align_log2=align)

    def change(self, thread: int, choice: int, size: int | None, touch: int = 0) -> None:
        if not self.owner_of:
            return
        slot = sorted(self.owner_of)[choice % len(self.owner_of)]
        owner = self.owner_of[slot]
        if size is None:
            del self.owner_of[slot]
            self.free_slots[thread].append(slot)
            self.add(Op.FREE, Api.FREE, thread, slot=slot, owner=owner)
        else:
            self.owner_of[slot] = thread
            self.add(
                Op.REALLOC, Api.REALLOC, thread, slot=slot, size=size, owner=owner, touch=touch
            )

    def toggle(self, lane: int) -> None:
        thread = min(max(1, lane), len(self.free_slots))
        self.free_slots.setdefault(thread, [])
        op = Op.THREAD_EXIT if thread in self.running else Op.THREAD_START
        self.running ^= {thread}
        self.add(op, Api.THREAD, thread)

    def events(self) -> Events:
        return np.array(self.rows, EVENT)


SIZES = st.one_of(st.integers(0, 300), st.integers(0, 2**47))


@st.composite
def legal_events(draw: st.DrawFn, max_size: int = 120) -> Events:
    program = Program()
    step = st.tuples(st.sampled_from("aaaffrt"), st.integers(0, 5), st.integers(0, 2**20), SIZES)
    for what, thread_choice, number, size in draw(st.lists(step, max_size=max_size)):
        program.time_ns += (number % 3) * QUANTUM_NS
        thread = sorted(program.running)[thread_choice % len(program.running)]
        # 0 is not known, 1 all pages touched, at most all of them untouched.
        touch = number % min(size // 16384 + 2, 2**32)
        if what == "a":
            program.allocate(thread, size, number % 13 if number % 5 == 0 else None, touch)
        elif what == "t":
            program.toggle(thread_choice)
        else:
            program.change(thread, number, size if what == "r" else None, touch)
    return program.events()


@ON_FILES
@given(events=legal_events(), metadata=st.dictionaries(st.text(), st.integers() | st.text()))
def test_read_back_equals_written(tmp_path: Path, events: Events, metadata: dict[str, Any]):
    write_trace(tmp_path / "a.trace", events, metadata, page_bytes=16384)
    with Trace(tmp_path / "a.trace") as trace:
        back = trace.read_all()
        assert np.array_equal(back, events)
        assert trace.metadata == metadata
        assert trace.totals.page_bytes == 16384
        assert trace.totals.n_events == len(events)
        assert trace.totals.is_complete


@ON_FILES
@given(events=legal_events(max_size=40), data=st.data())
def test_cut_off_anywhere_it_ends_early_or_is_refused(
    tmp_path: Path, events: Events, data: st.DataObject
):
    path = tmp_path / "a.trace"
    write_trace(path, events, {}, page_bytes=16384)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    try:
        with Trace(path) as trace:
            assert not trace.totals.is_complete
            assert len(trace.read_all()) == 0, "one block holds them all"
    except TraceError:
        assert path.stat().st_size < 128 + 2 + 8


@ON_FILES
@given(events=legal_events(max_size=40), data=st.data())
def test_damage_never_passes_for_good(tmp_path: Path, events: Events, data: st.DataObject):
    path = tmp_path / "a.trace"
    write_trace(path, events, {}, page_bytes=16384)
    damaged = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    with pytest.raises(TraceError, match=r"a\.trace: "), Trace(path) as trace:
        trace.read_all()


@ON_FILES
@given(content=st.binary(max_size=400))
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "a.trace"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"not a malloc-tuner trace|it cannot be unpacked"):
        Trace(path)


@pytest.mark.parametrize("value", ["\ud800", float("inf")])
def test_metadata_that_cannot_be_written_again_are_damage(tmp_path: Path, value: object):
    path = tmp_path / "a.trace"
    write_trace(path, np.zeros(1, EVENT), {"argv": [os.fsdecode(b"\xff")]})
    with Trace(path) as trace:
        assert trace.argv == [os.fsdecode(b"\xff")]

    write_trace(path, np.zeros(1, EVENT), {"argv": [value]})
    with pytest.raises(TraceError, match="the metadata is not JSON: "):
        Trace(path)


def test_times_are_rounded_down_to_the_quantum(tmp_path: Path):
    program = Program()
    for time_ns in (0, 9_999, 10_000, 35_001):
        program.time_ns = time_ns
        program.allocate(0, 8, None)
    write_trace(tmp_path / "a.trace", program.events(), {})
    with Trace(tmp_path / "a.trace") as trace:
        assert trace.read_all()["time_ns"].tolist() == [0, 0, 10_000, 30_000]


def test_an_illegal_event_is_named_and_leaves_no_file(tmp_path: Path):
    events = np.zeros(2, EVENT)
    with pytest.raises(TraceError, match=r"a\.trace: event 1: an allocation names a slot that is"):
        write_trace(tmp_path / "a.trace", events, {})
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_an_output_error(tmp_path: Path):
    with pytest.raises(OutputError, match="cannot create the trace: No such file"):
        write_trace(tmp_path / "nowhere" / "a.trace", np.zeros(0, EVENT), {})


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(TraceError, match="not a regular file"):
        Trace(tmp_path)


def test_a_future_version_says_upgrade(tmp_path: Path):
    path = tmp_path / "a.trace"
    write_trace(path, np.zeros(0, EVENT), {})
    content = bytearray(path.read_bytes())
    content[8] = 4
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"format version 4 is newer than 3.*upgrade malloc-tuner"):
        Trace(path)


def test_batches_are_as_long_as_asked(tmp_path: Path):
    program = Program()
    for _ in range(25):
        program.allocate(0, 8, None)
    write_trace(tmp_path / "a.trace", program.events(), {})
    with Trace(tmp_path / "a.trace") as trace:
        assert [len(batch) for batch in trace.batches(10)] == [10, 10, 5]


def test_the_life_of_the_process_is_kept(tmp_path: Path):
    events = np.zeros(1, EVENT)
    events["time_ns"] = 20_000
    for life, version, life_ns, lacks in (
        ((10_000, 50_000), 3, 40_000, None),
        ((0, None), 3, 20_000, "end of the process not recorded: means over time are to its last"),
        ((None, 50_000), 3, 50_000, "start of the process not recorded"),
        ((None, None), 1, 20_000, "from its first event to its last"),
    ):
        write_trace(tmp_path / "a.trace", events, {}, life=life)
        with Trace(tmp_path / "a.trace") as trace:
            totals = trace.totals
        assert (totals.start_ns, totals.end_ns, totals.version) == (*life, version)
        assert totals.life_ns == life_ns
        assert totals.lacks is None if lacks is None else lacks in str(totals.lacks)


def test_a_process_cannot_end_before_its_last_event(tmp_path: Path):
    events = np.zeros(1, EVENT)
    events["time_ns"] = 20_000
    with pytest.raises(TraceError, match="ends before its start or last event"):
        write_trace(tmp_path / "a.trace", events, {}, life=(0, 19_999))


def many_events() -> Events:
    program = Program()
    for number in range(1000):
        program.allocate(0, number * number, None)
    return program.events()


def test_a_trace_that_fails_leaves_the_old_one_and_says_why(tmp_path: Path):
    path, limits = tmp_path / "a.trace", resource.getrlimit(resource.RLIMIT_FSIZE)
    write_trace(path, many_events(), {})
    old = path.read_bytes()
    with pytest.raises(TraceError, match=r"/a\.trace: event 1: an allocation names a slot"):
        write_trace(path, np.zeros(2, EVENT), {})
    with pytest.raises(TraceError, match=r"/a\.trace: ends before"):
        write_trace(path, many_events(), {}, life=(9, None))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        with pytest.raises(
            OutputError, match=r"/a\.trace: cannot write the trace: File too large$"
        ):
            write_trace(path, many_events(), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_may_be_as_long_as_a_file_system_allows(tmp_path: Path):
    path = tmp_path / ("a" * 255)
    with pytest.raises(TraceError, match="cannot open the trace: No such file"):
        Trace(path)
    write_trace(path, many_events(), {})
    with Trace(path) as trace:
        assert trace.totals.n_events == 1000
    with pytest.raises(TraceError, match="cannot open the trace: File name too long"):
        Trace(tmp_path / ("a" * 256))


def test_a_trace_that_is_replaced_keeps_its_mode(tmp_path: Path):
    path = tmp_path / "a.trace"
    path.touch(0o600)
    write_trace(path, many_events(), {})
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_one(tmp_path: Path):
    """A large trace goes where there is room for it."""
    link, place = tmp_path / "a.trace", tmp_path / "large" / "b.trace"
    place.parent.mkdir()
    link.symlink_to(place)
    for _ in range(2):
        write_trace(link, many_events(), {})
        assert link.is_symlink()
        assert list(place.parent.iterdir()) == [place]
