"""Where there is no terminal, progress is a line now and then."""

import io

from rich.console import Console

from tuner.cli.progress_bar import LINE_INTERVAL_S, ProgressBar


def told(*, is_terminal: bool) -> str:
    out = io.StringIO()
    moments = [0.0]
    console = Console(file=out, force_terminal=is_terminal, width=80)
    progress = ProgressBar(console, lambda: moments[0])
    bar = progress.add_task("first run", total=3)
    progress.advance(bar)
    moments[0] += LINE_INTERVAL_S
    progress.update(bar, description="round 2   knee   ")
    progress.advance(bar)
    progress.advance(bar)
    return out.getvalue()


def test_a_log_gets_a_line_an_interval():
    assert told(is_terminal=False) == "2 of 3: round 2 knee; about 0:05 left\n"


def test_a_terminal_has_the_bar_and_gets_no_lines():
    assert "2 of 3:" not in told(is_terminal=True)


def test_brackets_of_a_label_stay_as_they_are():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, record=True)

    with ProgressBar(console) as progress:
        progress.add_task("a[/b] mine[new]")

    assert "a[/b] mine[new]" in console.export_text()


def test_no_more_time_is_left_than_a_budget_allows():
    out, moments = io.StringIO(), [0.0]
    progress = ProgressBar(Console(file=out, width=80), lambda: moments[0])
    bar = progress.add_task("round 1", total=1000)
    progress.end_within(100.0)
    moments[0] = LINE_INTERVAL_S
    progress.advance(bar)
    moments[0] = 2 * LINE_INTERVAL_S
    progress.advance(bar)
    assert out.getvalue().splitlines() == [
        "1 of 1000: round 1; about 1:30 left",
        "2 of 1000: round 1; about 1:20 left",
    ]
