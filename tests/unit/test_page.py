"""Lines of a page keep what belongs together."""

import pytest

from tuner.page import wrapped


@pytest.mark.parametrize(
    "figure",
    [
        "+6.25 %",
        "1.4 MiB",
        "15 s",
        "-3.1 % (-4.0 .. -1.0)",
        "\N{MULTIPLICATION SIGN}12.0 (-4.0 % .. \N{MULTIPLICATION SIGN}40.0)",
    ],
)
def test_a_figure_stays_whole_wherever_the_line_ends(figure: str):
    text = f"class_steps: 2 gives the cost {figure}"

    for width in range(len(figure), len(text) + 1):
        lines = wrapped(text, width)
        assert sum(figure in line for line in lines) == 1
        assert " ".join(lines) == text


def test_words_longer_than_a_line_are_not_cut():
    assert wrapped("see /a-long/path-to/a-file now", 8) == ["see", "/a-long/path-to/a-file", "now"]
