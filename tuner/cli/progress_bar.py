"""Progress of what takes long: a bar on a terminal; elsewhere, as in a log, a line now and then."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn

LINE_INTERVAL_S: Final = 10.0
"""Least time between two lines."""

_N_STEPS: Final = 50
"""Steps that the time left is estimated from, the latest ones."""


class ProgressBar(Progress):
    """Shows what runs, how many of how many, and the time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Take where to print, and a clock in seconds."""
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            get_time=clock,
        )
        self._printed_s = self._stepped_s = clock()
        self._steps_s: deque[float] = deque(maxlen=_N_STEPS)
        self._end_s = math.inf

    def add_task(  # noqa: D102 - the base class's
        self,
        description: str,
        start: bool = True,
        total: float | None = 100.0,
        completed: int = 0,
        visible: bool = True,
        **fields: Any,
    ) -> TaskID:
        return super().add_task(description, start, total, completed, visible, left="", **fields)

    def say(self, text: str) -> None:
        """Print a line above the bar, as it is and on one line."""
        self.print(text, markup=False, soft_wrap=True)

    def end_within(self, seconds: float) -> None:
        """Let no more time be left than to the end of so many seconds from now."""
        self._end_s = self.get_time() + seconds

    def begin_steps(self) -> None:
        """Let the next step begin now: what came before says nothing of how long steps take."""
        self._stepped_s = self.get_time()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Count a step; without a bar, print it if nothing was printed for a while."""
        if advance > 0.0:
            self._steps_s.append((self.get_time() - self._stepped_s) / advance)
        self._stepped_s = self.get_time()
        super().advance(task_id, advance)
        self.update(task_id, left=self._left(task_id))
        if not self.disable or self.get_time() - self._printed_s < LINE_INTERVAL_S:
            return
        self._printed_s = self.get_time()
        task = self._task(task_id)
        total = "?" if task.total is None else f"{task.total:.0f}"
        what = " ".join(task.description.split())
        left = f"; {task.fields['left']}" if task.fields["left"] else ""
        self.print(f"{task.completed:.0f} of {total}: {what}{left}", markup=False, soft_wrap=True)

    def _left(self, task_id: TaskID) -> str:
        """Return the time that the steps left take, each as long as the median of the latest."""
        from tuner.campaign.progress import clock_text

        task = self._task(task_id)
        if not task.remaining or not self._steps_s:
            return ""
        left_s = task.remaining * statistics.median(self._steps_s)
        left_s = min(left_s, max(0.0, self._end_s - self.get_time()))
        return f"about {clock_text(left_s)} left"

    def _task(self, task_id: TaskID) -> Task:
        return next(task for task in self.tasks if task.id == task_id)
