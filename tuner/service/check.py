"""Whether the settings of an export are in effect in a running process, read from the process.

What the process was started with is in ``/proc/PID/environ``, the libraries that it maps in
``/proc/PID/maps``.  What its allocator makes of these variables is seen by giving the same library
the same variables in a probe: allocators read them once, at their start.  jemalloc's background
threads, which end at a fork, are looked for among the threads of the process itself.
"""

import contextlib
import filecmp
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from tuner.allocators import get_allocator
from tuner.allocators.libraries import find_library
from tuner.config.reading import first_problem
from tuner.errors import MissingToolError, ProgramError, SettingError, SpecError
from tuner.measure.preloads import OF_MALLOC, PRELOAD, TUNABLES, exports_malloc, parts_of
from tuner.measure.program import is_read_by, steering
from tuner.records import Configuration, value_text
from tuner.service.processes import Process, place_of, process_of, variables_of

_BACKGROUND = "jemalloc_bg_thd"
"""Name that jemalloc gives its background threads."""

_LIBC = "libc.so.6"
_LIBCS = "libc's malloc"
_OWN_MALLOC = "the program has a malloc of its own, which comes before those of libraries"
_MOST_LINKS = 40
"""As many as the kernel follows, see path_resolution(7)."""


class _Export(BaseModel):
    """What is used of an export in JSON."""

    document: Literal["malloc-tuner.export"] = Field(alias="schema")
    version: Literal[1]
    allocator: str
    library: str | None
    settings: dict[str, bool | int | float | str]
    environment: dict[str, str]
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportedSetting:
    """What an export asks for."""

    configuration: Configuration
    library: str | None
    """File that is preloaded; None: none is."""
    variables: Mapping[str, str]
    """All but LD_PRELOAD."""
    unset: tuple[str, ...] = ()
    """What the program had as it was, and must not have."""
    preloads_libc: bool = False
    """Whether LD_PRELOAD is to put libc's malloc before one that the program brings."""


@dataclass(frozen=True)
class InEffect:
    """One thing that was looked at."""

    what: str
    """``library``, a variable, or a setting."""
    asked: str
    is_in_effect: bool | None
    """None: it cannot be seen."""
    why: str = ""
    """What is there instead; empty when it is in effect."""


def load_expected(path: Path) -> ExportedSetting:
    """Read an export in JSON.

    Raises:
        SpecError: the file is none.
    """
    try:
        found = _Export.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise SpecError(
            f"{path}: is no export in JSON ({first_problem(error)}); write one with "
            "`malloc-tuner export RUN --format json -o FILE`"
        ) from error
    variables = {name: text for name, text in found.environment.items() if name != PRELOAD}
    configuration = Configuration.of(found.allocator, found.settings)
    is_libc = _is_libc_first(found.environment)
    return ExportedSetting(configuration, found.library, variables, found.unset, is_libc)


def check_process(pid: int, expected: ExportedSetting) -> list[InEffect]:
    """Look at a process.

    Args:
        pid: of the process; of a service, that of a worker rather than of its parent.
        expected: what is to be in effect.

    Returns:
        The library, the variables, then the settings.

    Raises:
        SpecError: there is no such process, or it has no memory.
        ProgramError: it may not be looked at.
    """
    process = process_of(pid)
    environment = _environment(pid)
    if process is None:
        raise SpecError(
            f"process {pid}: has ended, or is one of the kernel: it has no memory to look at"
        )
    findings = [_library(process, environment, expected)]
    findings += _variables(environment, expected)
    is_as_asked = all(one.is_in_effect for one in findings)
    findings += _settings(process, environment, expected, is_as_asked=is_as_asked)
    return findings


def _environment(pid: int) -> dict[str, str] | None:
    """Return the variables a process was started with; None where it has written over them."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError as error:
        raise ProgramError(f"process {pid}: may not be looked at; {_way_in()}") from error
    except OSError as error:
        raise SpecError(f"process {pid}: there is none ({error.strerror})") from error
    return variables_of(content)


def _way_in() -> str:
    """Say who may look at a process; see ptrace(2) on PTRACE_MODE_READ."""
    if os.geteuid():
        return "run this as its user, or as root"
    return (
        "root lacks the capability SYS_PTRACE here, as in most containers, or AppArmor or SELinux "
        "forbids it; run this as the user of the process, or on the host"
    )


def _is_libc_first(environment: Mapping[str, str]) -> bool:
    return parts_of(environment.get(PRELOAD))[:1] == [_LIBC]


def _library(
    process: Process, environment: Mapping[str, str] | None, expected: ExportedSetting
) -> InEffect:
    if exports_malloc(Path(f"/proc/{process.pid}/exe")):
        asked = Path(expected.library).name if expected.library else _LIBCS
        return InEffect("library", asked, is_in_effect=False, why=_OWN_MALLOC)
    if expected.library is None:
        others = ", ".join(process.libraries)
        is_first = not others or _is_libc_first(environment or {})
        is_unseen = not is_first and expected.preloads_libc and environment is None
        why = "" if is_first else f"{others} is in the process"
        if is_unseen:
            why += "; which one comes first, its variables would show"
        return InEffect("library", _LIBCS, None if is_unseen else is_first, why)
    is_there, why = _of_preloaded(process, environment, expected.library)
    return InEffect("library", Path(expected.library).name, is_there, why)


def _of_preloaded(
    process: Process, environment: Mapping[str, str] | None, library: str
) -> tuple[bool | None, str]:
    """Return whether a library serves malloc, and what is there instead."""
    mapped = _mapped(process, library)
    if mapped is None:
        return False, "it is not in the process; is LD_PRELOAD lost, or the program static?"
    if environment is None:
        return True, ""
    first = _first_preloaded(process, environment)
    if first is None and not _is_same(process, mapped, library):
        return None, f"LD_PRELOAD is lost; {mapped} may be the program's own"
    if first is not None and set(_names(process, first)).isdisjoint(_names(process, library)):
        return False, f"{first} comes before it in LD_PRELOAD"
    return True, ""


def _first_preloaded(process: Process, environment: Mapping[str, str]) -> str | None:
    """Return the allocator that is preloaded first: without files that are not there, ld.so(8)."""
    for entry in parts_of(environment.get(PRELOAD)):
        library = entry if "/" in entry else str(find_library(entry) or entry)
        mapped = _mapped(process, library)
        if mapped is not None and exports_malloc(_inside(process, mapped)) is not False:
            return library
    return None


def _is_same(process: Process, mapped: str, library: str) -> bool:
    """Return whether a mapped file is a library or the end of its link."""
    with contextlib.suppress(OSError):
        return _inside(process, mapped).samefile(_inside(process, library))
    return False


def _inside(process: Process, file: str) -> Path:
    """Return where this process finds a file of that one."""
    return Path(f"/proc/{process.pid}/root") / file.removeprefix("/")


def _mapped(process: Process, library: str) -> str | None:
    """Return the mapped file that is this library, under its own name or that of a link's end."""
    names = set(_names(process, library))
    return next((file for file in process.files if Path(file).name in names), None)


def _names(process: Process, library: str) -> Iterator[str]:
    """Yield the name of a library and of every link to it, as the process finds them."""
    place = Path(library)
    for _ in range(_MOST_LINKS):
        yield place.name
        try:
            place = place.parent / _inside(process, str(place)).readlink()
        except OSError:  # no link
            return


def _variables(
    environment: Mapping[str, str] | None, expected: ExportedSetting
) -> Iterator[InEffect]:
    for name, asked in expected.variables.items():
        if environment is None:
            why = "the process has written its title over its variables"
            yield InEffect(name, asked, None, why)
        elif name not in environment:
            yield InEffect(
                name, asked, is_in_effect=False, why="the process was started without it"
            )
        else:
            found = environment[name]
            is_same = found == asked or (name == TUNABLES and _is_alike(found, asked))
            yield InEffect(name, asked, is_same, "" if is_same else f"it is {found!r}")
    others = {name: text for name, text in (environment or {}).items() if name != PRELOAD}
    allocator = expected.configuration.allocator
    read = {name for name in steering(others) if is_read_by(name, allocator)}
    for name in sorted({*expected.unset, *read} - expected.variables.keys()):
        if environment is None:
            yield InEffect(name, "unset", None, "the process has written over its variables")
        else:
            found = f"it is {environment.get(name)!r}; start the program without it"
            is_unset = name not in environment
            yield InEffect(name, "unset", is_unset, "" if is_unset else found)


def _is_alike(found: str, asked: str) -> bool:
    """Return whether tunables are those asked for; others than malloc's may be more."""
    have, want = set(parts_of(found)), set(parts_of(asked))
    return want <= have and not any(one.startswith(OF_MALLOC) for one in have - want)


def _settings(
    process: Process,
    environment: Mapping[str, str] | None,
    expected: ExportedSetting,
    *,
    is_as_asked: bool,
) -> Iterator[InEffect]:
    if environment is None or not is_as_asked:
        # What the probe would be given is not what was asked: it has nothing to add.
        why = "" if environment is not None else "its variables cannot be read"
        for name, value in expected.configuration.settings:
            yield InEffect(name, value_text(value), None, why or "see above")
        return
    try:
        wrong = _mismatches(process, environment, expected)
    except MissingToolError as error:
        for name, value in expected.configuration.settings:
            yield InEffect(name, value_text(value), None, str(error))
        return
    for name, value in expected.configuration.settings:
        why = wrong.get(name, "")
        if not why and name == "background_thread" and value is True:
            why = _without_background_thread(process.pid)
        yield InEffect(name, value_text(value), not why, why)


def _mismatches(
    process: Process, environment: Mapping[str, str], expected: ExportedSetting
) -> dict[str, str]:
    """Return setting -> what the allocator of the process makes of the variables it has.

    Raises:
        MissingToolError: that cannot be tried out here.
    """
    allocator = get_allocator(expected.configuration.allocator)
    given = {name: environment[name] for name in expected.variables}
    if expected.library is not None:
        mapped = _mapped(process, expected.library)
        given[PRELOAD] = str(_file_of(process, mapped, Path(expected.library).name))
    else:
        _check_libc(process)
    try:
        report = allocator.observe(given)
    except SettingError as error:
        return {name: str(error) for name, _ in expected.configuration.settings}
    found = allocator.mismatches(expected.configuration, report)
    return {mismatch.setting: str(mismatch) for mismatch in found}


def _file_of(process: Process, file: str | None, name: str) -> Path:
    place = place_of(process, file) if file is not None else None
    if place is None:
        raise MissingToolError(
            f"{name} of the process cannot be read from here; check it inside its container"
        )
    return place


def _libc_of(process: Process) -> Path:
    return _file_of(process, _mapped(process, _LIBC), _LIBC)


def _check_libc(process: Process) -> None:
    """Raise MissingToolError where a process has another libc, whose malloc may differ."""
    own = process_of(os.getpid())
    if own is not None and not filecmp.cmp(_libc_of(process), _libc_of(own), shallow=False):
        raise MissingToolError(
            "its libc is another one than that of this machine; check it inside its container"
        )


def _without_background_thread(pid: int) -> str:
    if _BACKGROUND in _thread_names(pid):
        return ""
    return "the process has no such thread: it ends at a fork, and begins with the first purge"


def _thread_names(pid: int) -> Iterator[str]:
    """Yield the names of the threads of a process, without those that end meanwhile."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            yield (task / "comm").read_text(errors="replace").strip()
