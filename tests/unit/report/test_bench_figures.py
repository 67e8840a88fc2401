"""The figures of a comparison of allocators."""

from pathlib import Path

from tests.doubles.bench import comparison, sample
from tuner.drawing.style import looks
from tuner.report.bench_figures import write_bench_figures


def test_colours_do_not_move_up_where_the_first_subject_failed(tmp_path: Path) -> None:
    found = comparison(sample("bob", 0), sample("bob", 1))
    colours = looks(["alice", "bob"])
    drawn = {path.stem: path.read_text() for path in write_bench_figures(found, tmp_path, ("svg",))}

    assert {"throughput-threads", "memory-threads", "latency"} <= set(drawn)
    for text in drawn.values():
        assert colours["bob"].colour in text
        assert colours["alice"].colour not in text
