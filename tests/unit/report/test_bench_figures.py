"""The figures of a comparison of allocators."""

from pathlib import Path

from tests.doubles.bench import comparison, sample, stopped
from tuner.bench.journal import Comparison
from tuner.bench.plan import Task
from tuner.drawing.style import looks
from tuner.report.bench_figures import write_bench_figures


def test_colours_do_not_move_up_where_the_first_subject_failed(tmp_path: Path):
    found = comparison(sample("bob", 0), sample("bob", 1))
    colours = looks(["alice", "bob"])
    drawn = {path.stem: path.read_text() for path in write_bench_figures(found, tmp_path, ("svg",))}

    assert {"throughput-threads", "memory-threads", "latency"} <= set(drawn)
    for text in drawn.values():
        assert colours["bob"].colour in text
        assert colours["alice"].colour not in text


def test_the_legend_names_every_setting(tmp_path: Path):
    label = "jemalloc background_thread=true dirty_decay_ms=500"
    found = Comparison((label,), dict([sample(label, 0)]), 0.1)

    path = next(write_bench_figures(found, tmp_path, ("svg",)))
    assert ">dirty_decay_ms=500<" in path.read_text()


def test_sizes_that_all_failed_with_one_number_of_threads_have_no_panel(tmp_path: Path):
    one, two = (Task("sizes", threads, 64) for threads in (1, 2))
    found = comparison(sample("bob", 0, one), stopped("alice", 0, two), stopped("bob", 0, two))

    drawn = {path.stem: path.read_text() for path in write_bench_figures(found, tmp_path, ("svg",))}

    assert ">1 thread<" in drawn["throughput-sizes"]
    assert ">2 threads<" not in drawn["throughput-sizes"]
