"""What is asked for: how a service is started, when it is ready, loaded, and stopped."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from tuner.errors import SpecError
from tuner.service.output import AUTO, check_reader
from tuner.service.readiness import check_ready

_PORT = re.compile(r"(?<!\$)\{port\d*\}")
STATE = "{state}"
"""Stands for the state folder; ``{port}``, ``{port2}``, ... stand for free ports."""
_NAMED = re.compile(rf"{_PORT.pattern}|(?<!\$)\{STATE}")
_NEARLY = re.compile(r"(?<!\$)\{(?:ports?|states?)[-_]?\d*\}", re.IGNORECASE)
"""What is meant as one of these names.  Any other word in braces is of the shell or a script."""
_LEAST_PORT: Final = 10_000
_TRIES: Final = 256
"""Ports that are looked at before one of the clients' is taken."""
_CLIENTS_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The first and the last port that the kernel gives to clients.  Source: ip(7)."""


@dataclass(frozen=True)
class ServicePlan:
    """A service and what is done to it in one run; times in seconds."""

    command: tuple[str, ...]
    ready: str
    """``tcp:PORT``, ``http://...``, ``line:TEXT`` or ``command:...``, see `readiness`."""
    load: str
    """Shell command that loads the service and ends."""
    warm_ups: int = 1
    """Runs of the load before the one that counts."""
    idle_s: float = 10.0
    """Left alone after the load; the end of it is the floor."""
    stop: str = "SIGTERM"
    """Name of a signal, or a shell command."""
    setup: str | None = None
    """Shell command that fills the fresh state folder."""
    teardown: str | None = None
    """Shell command after the stop."""
    user: str | None = None
    """Whom the service and all commands but the load run as; None: as this process does."""
    read: str = AUTO
    """How the output of the load is read, see `output.read_load`."""
    ready_s: float = 60.0
    """Limit from the start until it is ready."""
    ready_options: str = "--timeout"
    """What sets this limit, as messages name it."""
    load_s: float = 600.0
    """Limit of one run of the load, of setup, of a stop command and of teardown."""
    stop_s: float = 30.0
    """Limit from the stop until no process is left."""
    sample_ms: int = 50
    """Least time between two samples of memory."""

    def checked(self) -> Self:
        """Return it.

        Raises:
            SpecError: readiness, stop, reader or a name in braces is not understood, or a number
                is out of range.
        """
        for name in _NEARLY.findall(" ".join(_texts(self))):
            if name != STATE and not _PORT.fullmatch(name):
                raise SpecError(
                    f"{name}: free ports are {{port}}, {{port2}}, ..., the folder {STATE}"
                )
        check_ready(self.ready)
        check_reader(self.read)
        stop_signal(self.stop)
        if not self.command or not self.load.strip():
            raise SpecError("a service needs a command and a load; give --load 'COMMAND'")
        if self.idle_s < 0.0 or self.warm_ups < 0:
            raise SpecError("the idle time and the number of warm-ups are 0 or more")
        return self

    def within(self, seconds: float) -> Self:
        """Return it with no more time to get ready than there is for all."""
        if self.ready_s <= seconds:
            return self
        return replace(self, ready_s=seconds, ready_options="--timeout and --time")

    @property
    def is_ready_elsewhere(self) -> bool:
        """Return whether the command has a free port, and the condition names a fixed one."""
        has_fixed = re.match("(tcp|https?):", self.ready) and not _PORT.search(self.ready)
        return bool(has_fixed and _PORT.search(" ".join(self.command)))

    def placed(self, state: str) -> Self:
        """Return it with a state folder and free ports in place of their names."""
        names = sorted(set(_PORT.findall(" ".join(_texts(self)))))
        known = dict(zip(names, map(str, free_ports(len(names))), strict=True)) | {STATE: state}

        def fill(text: str) -> str:
            return _NAMED.sub(lambda name: known[name[0]], text)

        changes: dict[str, Any] = {
            name: fill(value)
            for name in ("ready", "load", "stop", "setup", "teardown")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, command=tuple(map(fill, self.command)), **changes)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ServicePlan:
        """Rebuild it from its fields, as a file has them."""
        return cls(**{**record, "command": tuple(record["command"])})


def stop_signal(stop: str) -> int | None:
    """Return the number of a signal; None for a command.

    Raises:
        SpecError: it looks like a signal and is none.

    Example:
        >>> stop_signal("SIGINT"), stop_signal("INT"), stop_signal("nginx -s quit")
        (2, 2, None)
    """
    if not re.fullmatch(r"[A-Z][A-Z0-9]*", stop):
        return None
    with contextlib.suppress(KeyError):
        return int(signal.Signals[stop if stop.startswith("SIG") else f"SIG{stop}"])
    raise SpecError(f"--stop {stop}: no such signal; give one like SIGTERM, or a command")


def free_ports(n: int) -> list[int]:
    """Return `n` different free TCP ports.

    They are below those that the kernel gives to clients, where it leaves some: a client of another
    program cannot take one before the service does.
    """
    below = range(_LEAST_PORT, int(_CLIENTS_PORTS.read_text().split()[0]))
    drawn = random.SystemRandom().sample(below, min(_TRIES, len(below)))
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in itertools.chain(drawn, itertools.repeat(0)):
            if len(found) == n:
                break
            one = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # somebody has it
                one.bind(("127.0.0.1", port))
                found.append(one.getsockname()[1])
        return found


def _texts(plan: ServicePlan) -> Iterable[str]:
    yield from plan.command
    for text in (plan.ready, plan.load, plan.stop, plan.setup, plan.teardown):
        yield text or ""
