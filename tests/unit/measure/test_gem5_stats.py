"""Statistics of simulations: read, and compared without the host's."""

import re

import pytest

from tests.doubles.simulated import STATISTICS
from tuner.errors import ProgramError
from tuner.measure.gem5_stats import differences, parse_statistics

TICKS = "103166000"


def test_values_are_kept_as_they_are_written():
    found = parse_statistics(STATISTICS, "stats.txt")
    assert found.values["simTicks"] == TICKS
    assert found.values["board.cache_hierarchy.membus.snoopFanout::0"] == "154479 100.00% 100.00%"
    assert found.number("simTicks") == 103166000.0
    assert found.number("board.cache_hierarchy.membus.snoopFanout::0") == 154479.0
    assert found.number("no.such") is None


def test_statistics_of_the_host_do_not_count():
    one, other = parse_statistics(STATISTICS, "a"), parse_statistics(elsewhere(STATISTICS), "b")
    assert one.values != other.values
    assert one.digest == other.digest
    assert differences(one, other) == []


def elsewhere(text: str) -> str:
    """Statistics of the same simulation on another host: all that it is about, and no more."""
    return re.sub(r"^(host\w+ +)[\d.]+", r"\g<1>7", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "change",
    [
        ("simTicks 103166000", "simTicks 103166001"),
        ("154479 100.00%", "154479 100.01%"),
        ("154479 100.00%", "nan 100.00%"),
    ],
)
def test_every_simulated_statistic_counts(change: tuple[str, str]):
    one, other = (
        parse_statistics(STATISTICS, "a"),
        parse_statistics(STATISTICS.replace(*change), "b"),
    )
    assert one.digest != other.digest
    assert len(differences(one, other)) == 1


def test_a_missing_statistic_is_a_difference_in_words():
    lines = [line for line in STATISTICS.splitlines() if not line.startswith("simTicks")]
    (found,) = differences(
        parse_statistics(STATISTICS, "a"), parse_statistics("\n".join(lines), "b")
    )
    assert str(found) == f"simTicks is absent, not {TICKS}"


def test_several_dumps_are_kept_apart():
    found = parse_statistics(STATISTICS + STATISTICS.replace(TICKS, "2000"), "a")
    assert (found.values["simTicks"], found.values["2:simTicks"]) == (TICKS, "2000")
    assert "2:hostSeconds" not in dict(found.simulated())


def test_what_is_kept_reads_back_as_the_same():
    found = parse_statistics(STATISTICS + STATISTICS, "a")
    again = parse_statistics(parse_statistics(STATISTICS, "a").to_text(), "b")
    assert again.digest == parse_statistics(STATISTICS, "a").digest
    assert parse_statistics(found.to_text(), "b").digest == found.digest


@pytest.mark.parametrize(
    "text", ["", "nothing\n", STATISTICS[: STATISTICS.index("---------- End")]]
)
def test_cut_off_statistics_are_an_error(text: str):
    with pytest.raises(ProgramError, match=r"^out/stats.txt: holds no complete statistics"):
        parse_statistics(text, "out/stats.txt")
