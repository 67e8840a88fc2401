"""Progress that redraws itself on a terminal, by rich."""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from tuner.campaign.progress import STOPPING, ShownProgress, clock_text
from tuner.store import CampaignRecord, Recheck

_REFRESH_HZ = 2.0
"""Redraws per second; each costs a few milliseconds."""


class LiveProgress(ShownProgress):
    """A bar and a line of scores; use it in a ``with``."""

    def __init__(self, console: Console) -> None:
        """Draw on a console, usually of standard error."""
        super().__init__()
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            console=console,
        )
        self._task = self._bar.add_task("defaults", total=None, pace="")
        self._live = Live(
            get_renderable=self._render, console=console, refresh_per_second=_REFRESH_HZ
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Draw a last time."""
        self._live.stop()

    def started(self, record: CampaignRecord, n_recorded: int, n_workers: int) -> None:
        """See `Listener.started`."""
        self._bar.update(self._task, total=record.budget)
        super().started(record, n_recorded, n_workers)

    def reference_known(self, reference: tuple[float, ...]) -> None:
        """See `Listener.reference_known`."""
        super().reference_known(reference)
        self._bar.update(self._task, description="search")

    def recheck_started(self, n_rechecks: int) -> None:
        """See `Listener.recheck_started`."""
        if n_rechecks:
            self._bar.reset(self._task, description="recheck", total=n_rechecks, pace="")

    def recheck_ended(self, recheck: Recheck) -> None:  # noqa: ARG002 - see Listener
        """See `Listener.recheck_ended`."""
        self._bar.advance(self._task)

    def stopping(self) -> None:
        """See `Listener.stopping`."""
        # Called from a signal handler, perhaps in the middle of a redraw: no printing.
        self._bar.update(self._task, description=STOPPING)

    def _counted(self, *, is_new: bool) -> None:  # noqa: ARG002 - old ones count too
        self._bar.update(self._task, completed=self._scores.n_trials)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def _render(self) -> Group:
        scores = self._scores
        pace = [] if scores.rate is None else [f"{scores.rate:.1f}/s"]
        if scores.eta_s is not None and scores.n_trials < scores.budget:
            pace.append(f"{clock_text(scores.eta_s)} left")
        self._bar.update(self._task, pace=" ".join(pace))
        return Group(self._bar.get_renderable(), Text(scores.quality()))
