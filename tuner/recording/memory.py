"""Anonymous memory of a program while it is recorded, as `supervise` counts it for validations.

A thread reads ``/proc/PID/status`` every few milliseconds.  The peak is the greater of the samples
and of VmHWM less the greatest file-backed part seen (rand_malloc/supervise/meter.h), so short peaks
are not missed; the mean is over time from the start, when there is none, so that a late first
sample on a busy machine does little.  Lazily freed pages count, and so does what the recorder holds
beyond its spool.  An exec starts the account afresh.
"""

import time
from pathlib import Path
from typing import Final

from tuner.recording.watching import Watching

_INTERVAL_S: Final = 0.01
_FIRST_S: Final = 0.001
"""Until the first sample: most programs are short."""

_AFRESH: Final = 0.9
"""Of VmHWM, below which it is another program's; its own falls a little, as the kernel counts by
core and sums up now and then."""


class AnonymousMemory(Watching):
    """Samples a process from here to the end of the block."""

    def __init__(self, pid: int, begun_s: float) -> None:
        """Prepare to sample a process of this user, started at a time of `time.monotonic`."""
        super().__init__(_FIRST_S)
        self._begun_s = begun_s
        self._status = Path(f"/proc/{pid}/status")
        self._forget()

    def _forget(self) -> None:
        self._until_s, self._last_high, self._last_anon = self._begun_s, 0, 0  # the last sample
        self._area = 0.0  # bytes times seconds up to there
        self._high = self._anon = self._file = 0  # greatest amounts

    @property
    def peak_bytes(self) -> int:
        """Greatest amount; 0: not known."""
        return max(self._anon, self._high - self._file)

    @property
    def mean_bytes(self) -> float:
        """Mean over time; 0: not known."""
        return self._area / max(self._until_s - self._begun_s, 1e-9)

    def sample(self, text: str, now_s: float) -> None:
        """Take the content of ``status``; of a process without memory, a zombie, nothing."""
        values = {
            name: int(rest.split()[0]) * 1024
            for name, _, rest in (line.partition(":") for line in text.splitlines())
            if name in ("VmHWM", "RssAnon", "RssFile", "RssShmem")
        }
        if "VmHWM" not in values:
            return
        high, anon = values["VmHWM"], values["RssAnon"]
        if high < _AFRESH * self._last_high:
            self._begun_s = self._until_s
            self._forget()  # another program runs now
        self._area += (now_s - self._until_s) * (self._last_anon + anon) / 2.0
        self._high, self._anon = max(self._high, high), max(self._anon, anon)
        self._file = max(self._file, values["RssFile"] + values["RssShmem"])
        self._until_s, self._last_high, self._last_anon = now_s, high, anon

    def look(self) -> float | None:
        """Take a sample, and return the seconds until the next one; None of what has ended."""
        try:
            text = self._status.read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        self.sample(text, time.monotonic())
        return _INTERVAL_S
