"""Anonymous memory of a program while it is recorded."""

import os
import tracemalloc

import pytest

from tuner.recording.memory import AnonymousMemory


def status(high: int, anon: int, file: int) -> str:
    return (
        f"Name:\tapp\nVmHWM:\t{high} kB\nRssAnon:\t {anon} kB\nRssFile:\t{file} kB\n"
        "RssShmem:\t0 kB\nThreads:\t1\n"
    )


@pytest.fixture
def memory() -> AnonymousMemory:
    return AnonymousMemory(os.getpid(), begun_s=10.0)


def test_a_peak_between_samples_is_that_of_the_kernel_without_files(memory: AnonymousMemory):
    memory.sample(status(300, 100, 150), 10.0)
    memory.sample(status(900, 200, 150), 11.0)

    assert memory.peak_bytes == 750 * 1024


def test_a_high_water_mark_that_falls_a_little_is_of_the_same_program(memory: AnonymousMemory):
    memory.sample(status(900, 800, 10), 11.0)
    memory.sample(status(890, 400, 10), 12.0)

    assert memory.peak_bytes == 890 * 1024
    assert memory.mean_bytes == pytest.approx(1024 * (400 + 600) / 2.0)


def test_the_mean_is_over_time(memory: AnonymousMemory):
    for moment, anon in ((12.0, 100), (13.0, 100), (16.0, 300)):
        memory.sample(status(500, anon, 10), moment)

    assert memory.mean_bytes == pytest.approx(1024 * (50 * 2 + 100 * 1 + 200 * 3) / 6.0)


def test_an_exec_begins_afresh_and_a_zombie_has_no_memory(memory: AnonymousMemory):
    memory.sample(status(9000, 8000, 10), 11.0)
    memory.sample(status(100, 50, 10), 12.0)
    memory.sample("Name:\tapp\nState:\tZ (zombie)\n", 13.0)

    assert (memory.peak_bytes, memory.mean_bytes) == (90 * 1024, 25 * 1024.0)


def test_nothing_is_known_without_a_sample(memory: AnonymousMemory):
    assert (memory.peak_bytes, memory.mean_bytes) == (0, 0.0)


def test_a_long_recording_is_not_kept_sample_by_sample(memory: AnonymousMemory):
    tracemalloc.start()
    for moment in range(2_000):
        memory.sample(status(900 + moment, 800, 10), float(moment))
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept_bytes < 20_000
