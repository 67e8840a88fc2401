"""One run of a service, from a fresh state folder to nothing left.

    setup       in a folder made for this run, with free ports
    start       the service, alone, until it is ready
    warm-up     runs of the load that do not count
    window      the run of the load that counts
    idle        nothing asked of it: what it gives back
    stop        by signal or command, until no process is left

A service that fails is a result with its reason.  What is not the service's, such as a setup that
fails or a port that another program holds, is an error.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.errors import ProgramError, SpecError, TunerError
from tuner.measure.preloads import PRELOAD, not_loaded, preloaded_allocator
from tuner.measure.process import printed_last
from tuner.measure.program import Surroundings, clean_environment, steering
from tuner.output import scratch_folder
from tuner.records import Outcome, Status
from tuner.service.figures import Phases, figures
from tuner.service.guard import Guard, Use, run_shell
from tuner.service.output import LoadReport, pgbench_latencies, read_load
from tuner.service.plan import ServicePlan, stop_signal
from tuner.service.processes import Process, lacking, processes_below
from tuner.service.readiness import is_open, port_of, probe_of

_PROBE_S = 5.0
"""Limit of one command that asks whether the service is ready."""

_GRACE_S = 1.0
"""For the other processes, once the first one has ended."""

_DYING_S = 0.5
"""For a service whose load failed: a load that is cut off ends before the process that cut it."""

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


@dataclass(frozen=True)
class ServiceRun:
    """What one good run of a service used."""

    values: Mapping[str, float]
    """Name in `tuner.metrics.SERVICE` -> value."""
    libraries: tuple[str, ...] = ()
    """Allocators in its processes."""
    titles: tuple[str, ...] = ()
    """Of its processes when it was ready."""
    files: tuple[str, ...] = ()
    """Mapped into these."""
    wall_s: float = 0.0
    """Of all phases."""
    requests: float = 1.0
    """That the load made; 1 where nothing says."""
    stopped_ns: int = 0
    """When its stop signal was sent, CLOCK_MONOTONIC."""
    n_threads: int | None = None
    """Greatest number seen in one process; None where it is not known."""
    n_unshared: int = 0
    """Processes under load whose shared pages count in full."""


class _FailedError(Exception):
    """The service failed."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def run_service(
    plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings | None = None
) -> Outcome[ServiceRun]:
    """Make one run.

    Args:
        plan: what is asked for.
        environment: of the service, whole; setup, load and teardown get it without the settings of
            allocators.
        surroundings: core and kernel settings of the service.

    Raises:
        ProgramError: setup fails, or teardown after a good run, the port is taken before the
            service starts, or the output of the load is not understood.
        MissingToolError: the command of the service is not there.
    """
    begun_s = time.monotonic()
    with begun_run(plan, environment, surroundings or Surroundings()) as run:
        done = run.once()
    if done.good is None:
        return done
    return Outcome.succeeded(replace(done.good, wall_s=time.monotonic() - begun_s))


@contextlib.contextmanager
def begun_run(
    plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
) -> Iterator[RunUnderWay]:
    """Set a run up, and tear it down at the end of the context; as `run_service`.

    Of several errors the first one is raised.
    """
    if _is_own(plan.user):
        plan = replace(plan, user=None)
    with _folder(plan.user) as folder:
        placed = plan.placed(str(folder / "state"))
        run = RunUnderWay(placed, environment, surroundings, folder)
        if plan.is_ready_elsewhere:
            run.hint = "; the command has {port}, this condition another one"
        try:
            run.set_up()
            yield run
        except BaseException:
            run.has_failed = True
            raise
        finally:
            run.tear_down()


class RunUnderWay:
    """A run of a service in its folder."""

    def __init__(
        self,
        plan: ServicePlan,
        environment: Mapping[str, str],
        surroundings: Surroundings,
        folder: Path,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            plan: with folder and ports in place.
            environment: of the service, whole.
            surroundings: core and kernel settings.
            folder: of this run, with an empty folder ``state``.
        """
        self.folder = folder
        self.environment = dict(environment)
        self.has_failed = False
        """Whether something went wrong: a teardown that fails then is most likely due to that."""
        self.hint = ""
        """Why it may never be ready."""
        self._plan = plan
        self._plain = clean_environment(environment)
        self._surroundings = Surroundings(
            cpu=surroundings.cpu,
            sample_ms=plan.sample_ms,
            thp=surroundings.thp,
            aslr=surroundings.aslr,
        )

    def set_up(self) -> None:
        """Run the setup, and check that the port is free."""
        self._shell("setup", self._plan.setup)
        where = port_of(self._plan.ready)
        if where and is_open(*where):
            raise ProgramError(
                f"{where[0]}:{where[1]}: another program listens there already; stop it, or write "
                "{port} for a port that is free"
            )

    def tear_down(self) -> None:
        """Run the teardown.

        Raises:
            ProgramError: it fails, and nothing failed before it.
        """
        try:
            self._shell("teardown", self._plan.teardown)
        except (TunerError, OSError):
            if not self.has_failed:
                raise

    def once(self, *, is_recording: bool = False) -> Outcome[ServiceRun]:
        """Start, load and stop the service.

        Args:
            is_recording: leave warm-ups out.
        """
        log = self.folder / "service.out"
        log.touch()
        guard = Guard(
            self._plan.command,
            self.environment,
            log,
            surroundings=self._surroundings,
            user=self._plan.user,
        )
        with guard as service:
            try:
                return Outcome.succeeded(self._measure(service, log, is_recording=is_recording))
            except _FailedError as failure:
                self.has_failed = True
                return Outcome.did_not_succeed(failure.status, failure.reason)

    def _measure(self, service: Guard, log: Path, *, is_recording: bool) -> ServiceRun:
        self._wait_until_ready(service, log)
        found = processes_below(service.pid)
        self._check_preload(found)
        for _ in range(0 if is_recording else self._plan.warm_ups):
            self._load(service, log)
        begin = _sample(service)
        load = self._load(service, log)
        end = _sample(service)
        self._rest(service, log, self._plan.idle_s)
        phases = Phases(begin, end, _sample(service))
        stopped_ns = time.monotonic_ns()
        self._stop(service, log)
        return ServiceRun(
            figures(service.uses, phases, load),
            tuple(dict.fromkeys(one for process in found for one in process.libraries)),
            tuple(process.title for process in found),
            tuple(sorted({file for process in found for file in process.files})),
            requests=phases.requests(load),
            stopped_ns=stopped_ns,
            n_threads=max(use.threads for use in service.uses),
            n_unshared=end.unshared_processes,
        )

    def _wait_until_ready(self, service: Guard, log: Path) -> None:
        def succeeds(command: str) -> bool:
            output = self.folder / "ready.out"
            user = self._plan.user
            return run_shell(command, self._plain, output, _PROBE_S, user=user).is_good

        is_ready = probe_of(self._plan.ready, log, succeeds)
        is_met = service.wait(lambda: is_dead(service) or is_ready(), self._plan.ready_s)
        if not is_met and not service.is_over:
            limit = f"{self._plan.ready_s:g} s, see {self._plan.ready_options}"
            words = f"not ready ({self._plan.ready}) after {limit}{self.hint}"
            raise _FailedError(Status.TIMED_OUT, words + _said(log))
        self._check_alive(service, log, "before it was ready")

    def _check_alive(self, service: Guard, log: Path, when: str) -> None:
        if is_dead(service):
            raise _FailedError(Status.FAILED, f"{_ending(service)} {when}{_said(log)}")

    def _check_preload(self, found: list[Process]) -> None:
        library = preloaded_allocator(self.environment)
        if library and not any(str(Path(library).resolve()) in one.files for one in found):
            raise _FailedError(Status.REFUSED, self._why(library))
        steers = {PRELOAD, *steering(self.environment)}
        added = self.environment.items() - os.environ.items()  # what it has as it is may change
        given = {name: value for name, value in added if name in steers}
        if name := lacking((one.pid for one in found), given):
            words = f"{name} did not arrive in the service: does a script clean or set it?"
            raise _FailedError(Status.REFUSED, words)

    def _why(self, library: str) -> str:
        """Say why a library was not loaded: `--user` may not read what is in root's home."""
        output, user = self.folder / "readable.out", self._plan.user
        looks = f"test -r {shlex.quote(library)}"
        if user and not run_shell(looks, self._plain, output, _PROBE_S, user=user).is_good:
            return not_loaded(
                f"{user} may not read {library}; let {user} into its folders, or move it"
            )
        return not_loaded()

    def _load(self, service: Guard, log: Path) -> LoadReport:
        plan = self._plan
        for old in (self.folder / "state").glob("pgbench_log*"):
            old.unlink()
        output = self.folder / "load.out"
        done = run_shell(
            plan.load, self._plain, output, plan.load_s, is_wanted=lambda: not is_dead(service)
        )
        if not done.is_good:  # most likely since the service is dying
            service.wait(lambda: is_dead(service), _DYING_S)
        self._check_alive(service, log, "under load")
        if done.ended is None:
            limit = f"{plan.load_s:g} s"
            words = f"the load has not ended after {limit}; raise --timeout (in a file: timeout)"
            raise _FailedError(Status.TIMED_OUT, words + printed_last(done.text))
        if not done.is_good:
            raise _FailedError(Status.FAILED, f"the load {done.ended.words}{done.said}")
        report = read_load(done.text, plan.read)
        if report.failed > 0:
            words = f"{report.failed:g} requests failed{report.hint}{done.said}"
            raise _FailedError(Status.FAILED, words)
        if 0 in (report.rate, report.requests):
            raise _FailedError(Status.FAILED, f"the load made no requests{done.said}")
        logged = pgbench_latencies((self.folder / "state").glob("pgbench_log*"))
        return LoadReport(
            report.rate, report.requests, report.failed, {**report.latencies, **logged}
        )

    def _rest(self, service: Guard, log: Path, idle_s: float) -> None:
        service.wait(lambda: is_dead(service), idle_s)
        self._check_alive(service, log, "while idle")

    def _stop(self, service: Guard, log: Path) -> None:
        limit_s = self._plan.stop_s
        is_daemon = service.ended is not None
        self._begin_stop(service)
        ends_first = service.wait(lambda: not is_daemon and service.ended is not None, limit_s)
        if ends_first:  # the others may take a moment, and are killed then
            service.wait(lambda: False, _GRACE_S)
        elif not service.is_over:
            words = f"still running {limit_s:g} s after {self._plan.stop}; see --stop"
            raise _FailedError(Status.TIMED_OUT, words)
        if service.ended and service.ended.signal in _CRASHES:
            raise _FailedError(Status.FAILED, f"{_ending(service)} at the stop{_said(log)}")

    def _begin_stop(self, service: Guard) -> None:
        number = stop_signal(self._plan.stop)
        if number is not None:
            service.signal(number)
            return
        failure = self._failure("stop", self._plan.stop)
        if failure is not None:
            raise failure

    def _shell(self, what: str, command: str | None) -> None:
        failure = None if command is None else self._failure(what, command)
        if failure is not None:
            raise ProgramError(failure.reason)

    def _failure(self, what: str, command: str) -> _FailedError | None:
        """Run a command of the user's, and return how it failed; None where it did not."""
        output = self.folder / f"{what}.out"
        done = run_shell(command, self._plain, output, self._plan.load_s, user=self._plan.user)
        if done.is_good:
            return None
        status = Status.FAILED if done.ended else Status.TIMED_OUT
        ending = done.ended.words if done.ended else "timed out"
        return _FailedError(status, f"--{what} {command}: {ending}{done.said}")


def _sample(service: Guard) -> Use:
    """Take a sample now; a run of which none can be had fails, others may not."""
    try:
        return service.sample()
    except ProgramError as error:
        raise _FailedError(Status.FAILED, str(error)) from error


def is_dead(service: Guard) -> bool:
    """Return whether a service ended: all of it, or its first process otherwise than by a fork.

    A first process that exits with 0 and leaves others has become a daemon.
    """
    ended = service.ended
    return service.is_over or (ended is not None and ended.exit_status != 0)


def _said(log: Path) -> str:
    return printed_last(log.read_text(errors="replace"))


def _ending(service: Guard) -> str:
    return service.ended.words if service.ended else "ended"


def _is_own(user: str | None) -> bool:
    """Return whether a user is this process's, which only root can become anew."""
    with contextlib.suppress(KeyError):  # none has this name
        return user is not None and pwd.getpwnam(user).pw_uid == os.geteuid() != 0
    return False


@contextlib.contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    """Make the folder of a run.

    Raises:
        OutputError: there is no place for it.
        SpecError: there is no such user, or only root can become it.
    """
    with scratch_folder() as folder:
        state = folder / "state"
        state.mkdir(mode=0o700)
        if user is not None:
            folder.chmod(0o755)
            try:
                shutil.chown(state, user)
            except LookupError as error:
                raise SpecError(f"--user {user}: there is no such user") from error
            except PermissionError as error:
                raise SpecError(
                    f"--user {user}: only root can start a service as another user"
                ) from error
        yield folder
