"""Anonymous memory of a program while it is recorded, as `supervise` counts it for validations.

A thread reads ``/proc/PID/status`` every few milliseconds.  The peak is the greater of the samples
and of VmHWM less the greatest file-backed part seen (rand_malloc/supervise/meter.h), so short peaks
are not missed; the mean is over time from the start, when there is none, so that a late first
sample on a busy machine does little.  Lazily freed pages count, and so does what the recorder holds
beyond its spool.  An exec starts the account afresh.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_INTERVAL_S: Final = 0.01
_FIRST_S: Final = 0.001
"""Until the first sample: most programs are short."""

_AFRESH: Final = 0.9
"""Of VmHWM, below which it is another program's; its own falls a little, as the kernel counts by
core and sums up now and then."""


class AnonymousMemory:
    """Samples a process from here to the end of the block."""

    def __init__(self, pid: int, begun_s: float) -> None:
        """Prepare to sample a process of this user, started at a time of `time.monotonic`."""
        self._begun_s = begun_s
        self._status = Path(f"/proc/{pid}/status")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._samples: list[tuple[float, Mapping[str, int]]] = []

    @property
    def peak_bytes(self) -> int:
        """Greatest amount; 0: not known."""
        known = [values for _, values in self._samples]
        file = max((one["RssFile"] + one["RssShmem"] for one in known), default=0)
        return max((max(one["RssAnon"], one["VmHWM"] - file) for one in known), default=0)

    @property
    def mean_bytes(self) -> float:
        """Mean over time; 0: not known."""
        moments = [self._begun_s, *(moment for moment, _ in self._samples)]
        anon = [0, *(values["RssAnon"] for _, values in self._samples)]
        steps = zip(pairwise(moments), pairwise(anon), strict=True)
        area = sum((after - before) * (a + b) / 2.0 for (before, after), (a, b) in steps)
        return area / max(moments[-1] - moments[0], 1e-9)

    def sample(self, text: str, now_s: float) -> None:
        """Take the content of ``status``; of a process without memory, a zombie, nothing."""
        values = {
            name: int(rest.split()[0]) * 1024
            for name, _, rest in (line.partition(":") for line in text.splitlines())
            if name in ("VmHWM", "RssAnon", "RssFile", "RssShmem")
        }
        if "VmHWM" not in values:
            return
        if self._samples and values["VmHWM"] < _AFRESH * self._samples[-1][1]["VmHWM"]:
            self._begun_s = self._samples[-1][0]
            self._samples.clear()  # another program runs now
        self._samples.append((now_s, values))

    def _watch(self) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they end a wait elsewhere
        wait_s = _FIRST_S
        while not self._is_over.wait(wait_s):
            wait_s = _INTERVAL_S
            try:
                text = self._status.read_text(encoding="ascii", errors="replace")
            except OSError:
                return
            self.sample(text, time.monotonic())

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()
