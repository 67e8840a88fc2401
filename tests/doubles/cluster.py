"""A Dask cluster of real processes on this machine, and kits that need no emulator."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.doubles import synthetic
from tests.doubles.fork_server import FORK_SERVER
from tests.doubles.places import ROOT
from tests.doubles.waiting import wait_until
from tuner.measure.evaluation import Evaluation
from tuner.records import Configuration, Outcome


@dataclass(frozen=True)
class SyntheticKit:
    """Computes the synthetic allocators, slowly if wanted, and keeps a log."""

    name: str
    log: Path = field(compare=False)
    """A line for each evaluation that began, and one for each that ended."""
    delay_s: float = field(default=0.0, compare=False)
    most_per_machine: int | None = field(default=2, compare=False)
    marker: str = field(default="", compare=False)
    """Environment variable whose value is part of the identity."""
    file: Path | None = field(default=None, compare=False)
    """File that must arrive; its text is written into the log."""
    slow: tuple[str, Path] | None = field(default=None, compare=False)
    """Key of a configuration that takes until a file exists."""
    meet: int = field(default=0, compare=False)
    """All but the default take until so many workers have begun an evaluation."""

    def identity(self) -> Mapping[str, str]:
        return {"marker": os.environ.get(self.marker, "")} if self.marker else {}

    def missing(self) -> list[str]:
        return []

    def content(self, sha256: str) -> bytes:
        raise AssertionError(sha256)

    def evaluator(self) -> SyntheticKit:
        return self

    def evaluate(self, configuration: Configuration, cpu: int | None = None) -> Evaluation:
        self._write("begin", configuration)
        if self.slow is not None and configuration.key == self.slow[0]:
            wait_until(self.slow[1].exists)
        if not configuration.is_default:
            wait_until(lambda: len(pids_in(self.log)) >= self.meet)
        time.sleep(self.delay_s)
        self._write("end", configuration)
        return Outcome.succeeded(synthetic.measure(configuration).with_values(wall=1000))

    def _write(self, what: str, configuration: Configuration) -> None:
        with self.log.open("a") as log:
            log.write(f"{what} {os.getpid()} {configuration.key}\n")


def pids_in(log: Path) -> set[str]:
    """Return the processes that wrote a log of `SyntheticKit`."""
    return {line.split()[1] for line in log.read_text().splitlines()}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run_dask(words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Make this process what `python -m dask` would be, with a session of its own and a log."""
    from dask.cli import cli
    from distributed.cli import dask_scheduler, dask_worker

    os.setsid()
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    with log.open("ab") as out, Path(os.devnull).open("rb") as nothing:
        for mine, stream in enumerate((nothing, out, out)):
            os.dup2(stream.fileno(), mine)
    for name, command in (("scheduler", dask_scheduler.main), ("worker", dask_worker.main)):
        cli.add_command(command, name)
    cli.main(list(words), "dask")


class Cluster:
    """A scheduler and workers, each a process of its own; use it in a ``with``."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._folder = folder
        self.scheduler: BaseProcess | None = None
        self.workers: list[BaseProcess] = []
        self.start_scheduler()

    def start_scheduler(self) -> None:
        words = ["scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard",
                 "--dashboard-address", "127.0.0.1:0"]  # fmt: skip
        self.scheduler = self._start(words, {})
        wait_until(self._answers)

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def start_worker(
        self,
        environment: Mapping[str, str] | None = None,
        machine: str | None = None,
    ) -> BaseProcess:
        """Start a worker, under the name of another machine if one is given."""
        named = ["--preload", "tests.doubles.named_machine"] if machine else []
        environment = {**(environment or {}), **({"TEST_MACHINE": machine} if machine else {})}
        words = ["worker", self.address, "--no-nanny", "--nthreads", "1",
                 "--no-dashboard", "--dashboard-address", "127.0.0.1:0",
                 "--local-directory", str(self._folder), *named]  # fmt: skip
        worker = self._start(words, environment)
        self.workers.append(worker)
        return worker

    def _start(self, words: list[str], environment: Mapping[str, str]) -> BaseProcess:
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        log = self._folder / f"{words[0]}.log"
        process = FORK_SERVER.Process(target=run_dask, args=(words, variables, log), daemon=True)
        process.start()
        return process

    def kill(self, process: BaseProcess | None) -> None:
        assert process is not None
        assert process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # where it did not lead a group yet
        process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for process in (*self.workers, self.scheduler):
            self.kill(process)
