"""Progress of what takes long: a bar on a terminal; elsewhere, as in a log, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

LINE_INTERVAL_S: Final = 30.0
"""Least time between two lines."""


class ProgressBar(Progress):
    """Shows what runs, how many of how many, and the time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Take where to print, and a clock in seconds."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        super().__init__(
            *columns,
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            get_time=clock,
        )
        self._told_s = clock()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Count a step; without a bar, tell of it if nothing was told for a while."""
        super().advance(task_id, advance)
        if not self.disable or self.get_time() - self._told_s < LINE_INTERVAL_S:
            return
        self._told_s = self.get_time()
        (task,) = (task for task in self.tasks if task.id == task_id)
        total = "?" if task.total is None else f"{task.total:.0f}"
        what = " ".join(task.description.split()) + self._time_left(task)
        self.print(f"{task.completed:.0f} of {total}: {what}", markup=False, soft_wrap=True)

    @staticmethod
    def _time_left(task: Task) -> str:
        """Return what is left at the pace of all steps so far, as the end of a line."""
        from tuner.campaign.progress import clock_text

        if task.total is None or not task.completed or task.elapsed is None:
            return ""
        left_s = task.elapsed / task.completed * (task.total - task.completed)
        return f"; about {clock_text(left_s)} left"
