"""The time that an optimisation took, all its calls together, however each of them ended.

It stands in `TIME_FILE`: written when a call ends, by an answer, an error or Ctrl-C, and now and
then before, so that a kill loses a few seconds.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Final, Self

from tuner.errors import OutputError
from tuner.optimize.work import Watch
from tuner.output import write_text
from tuner.runs import REQUEST_FILE

TIME_FILE: Final = "time.json"
"""Seconds of all calls, in a run folder."""

_BETWEEN_S: Final = 5.0
"""Least time between two times that it is written."""


class UsedTime:
    """Counts the time of a call on top of earlier ones; a context, at whose end it is kept."""

    def __init__(self, run: Path, watch: Watch) -> None:
        """Begin.

        Args:
            run: the folder; until it holds a request, nothing in it is of this optimisation.
            watch: of this call.
        """
        self._run = run
        self._watch = watch
        self._kept_s = watch.used_s
        self.before_s = _seconds_in(run) if self._is_begun else 0.0
        """Time that earlier calls took."""

    @property
    def _is_begun(self) -> bool:
        return (self._run / REQUEST_FILE).exists()

    def keep(self) -> None:
        """Write it, unless that was done a moment ago.

        Raises:
            OutputError: the folder cannot be written.
        """
        if self._watch.used_s >= self._kept_s + _BETWEEN_S:
            self._write()

    def _write(self) -> None:
        self._kept_s = self._watch.used_s
        seconds = round(self.before_s + self._kept_s, 3)
        record = {"schema": "malloc-tuner.time", "version": 1, "seconds": seconds}
        write_text(self._run / TIME_FILE, json.dumps(record) + "\n")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write it; a folder that is full by now shows elsewhere."""
        if self._is_begun:
            with contextlib.suppress(OutputError):
                self._write()


def _seconds_in(run: Path) -> float:
    """Return the time that the calls in a folder took; one that left nothing to read took none."""
    try:
        seconds = float(json.loads((run / TIME_FILE).read_bytes())["seconds"])
    except (OSError, KeyError, TypeError, ValueError):
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0
