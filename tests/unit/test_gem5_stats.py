"""Statistics of simulations: read, and compared without the host's."""

from __future__ import annotations

import pytest

from tuner.errors import ProgramError
from tuner.validate.gem5_stats import differences, parse_statistics

TEXT = """
---------- Begin Simulation Statistics ----------
simTicks                                     1000                       # Number of ticks (Tick)
hostSeconds                                  0.25                       # Real time (Second)
board.core.hostInstRate                      9000                       # Rate ((Count/Second))
board.cache.misses::total                    nan                       # of (Count)
board.cache.latency::0-1                     3     42.86%     42.86% # distribution

---------- End Simulation Statistics   ----------
"""


def test_values_are_kept_as_they_are_written() -> None:
    found = parse_statistics(TEXT, "stats.txt")
    assert found.values["simTicks"] == "1000"
    assert found.values["board.cache.latency::0-1"] == "3 42.86% 42.86%"
    assert found.number("simTicks") == 1000.0
    assert found.number("board.cache.latency::0-1") == 3.0
    assert found.number("no.such") is None


def test_statistics_of_the_host_do_not_count() -> None:
    one = parse_statistics(TEXT, "a")
    other = parse_statistics(TEXT.replace("0.25", "0.31").replace("9000", "7"), "b")
    assert one.digest == other.digest
    assert differences(one, other) == []


@pytest.mark.parametrize("change", [("1000", "1001"), ("nan", "0"), ("42.86% #", "42.87% #")])
def test_every_simulated_statistic_counts(change: tuple[str, str]) -> None:
    one, other = parse_statistics(TEXT, "a"), parse_statistics(TEXT.replace(*change), "b")
    assert one.digest != other.digest
    assert len(differences(one, other)) == 1


def test_a_missing_statistic_is_a_difference_in_words() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("simTicks")]
    (found,) = differences(parse_statistics(TEXT, "a"), parse_statistics("\n".join(lines), "b"))
    assert str(found) == "simTicks is absent, not 1000"


def test_several_dumps_are_kept_apart() -> None:
    found = parse_statistics(TEXT + TEXT.replace("1000", "2000"), "a")
    assert (found.values["simTicks"], found.values["2:simTicks"]) == ("1000", "2000")
    assert "2:hostSeconds" not in dict(found.simulated())


def test_what_is_kept_reads_back_as_the_same() -> None:
    found = parse_statistics(TEXT + TEXT, "a")
    again = parse_statistics(parse_statistics(TEXT, "a").to_text(), "b")
    assert again.digest == parse_statistics(TEXT, "a").digest
    assert parse_statistics(found.to_text(), "b").digest == found.digest


@pytest.mark.parametrize("text", ["", "nothing\n", TEXT[: TEXT.index("---------- End")]])
def test_cut_off_statistics_are_an_error(text: str) -> None:
    with pytest.raises(ProgramError, match=r"^out/stats.txt: holds no complete statistics"):
        parse_statistics(text, "out/stats.txt")
