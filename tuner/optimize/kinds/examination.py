"""The first runs: what the program does as it is, kept in the run folder.

The held-out input is looked at then, too: that it cannot be run should show before the time is
spent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tuner.allocators import Installation
from tuner.errors import ProgramError, SpecError, TunerError
from tuner.measure.preloads import exports_malloc
from tuner.measure.program import digest, steering_digest
from tuner.measure.warm import warm_memory
from tuner.optimize.kinds.making import Files
from tuner.optimize.tuned import OWN_MALLOC, Reference, Tuned
from tuner.optimize.view import View
from tuner.optimize.work import HELD_OUT_REFERENCE_FILE
from tuner.output import write_text
from tuner.page import series
from tuner.recording.explain import gains_rights, has_glibc, is_static
from tuner.runs import REFERENCE_FILE
from tuner.service.plan import ServicePlan
from tuner.validate.setup import check_version

_MOST_DIGESTED: Final = 1 << 28
"""Bytes of all inputs that are read at each call, a fifth of a second or so."""


def examine(
    run: Path,
    tuned: Tuned,
    view: View,
    *,
    is_begun: bool,
    installations: Iterable[Installation] = (),
    service: ServicePlan | None = None,
) -> Reference:
    """Return what the program does as it is, from the run folder if that is known.

    Args:
        run: the folder.
        tuned: the program.
        view: is shown what is to be known of it.
        is_begun: what the folder holds is of this optimisation.
        installations: allocators that take part.
        service: what is done to it, if it is a service.

    Raises:
        SpecError: the program's file has changed since, or one that its command names.
        MissingToolError: it is of another version of an allocator.
        ProgramError: it fails, or does not do the same again.
        ProgramTimeoutError: it does not end in time.
        OutputError: the folder cannot be written.
        StoreError: what the folder holds is damaged.
    """
    path = run / REFERENCE_FILE
    if is_begun and path.exists():
        known = _unchanged(run, Reference.load(path))
        for one in installations:
            check_version(one, known.versions.get(one.allocator))
        return known
    view.begin("examining", None)
    if service is not None:
        view.tell(f"waits for  --ready {service.ready}, {service.ready_s:g} s at most, in each run")
    warm_memory()
    versions = {one.allocator: one.version for one in installations}
    texts = [] if service is None else [service.load, service.setup or "", service.teardown or ""]
    found = _kept(path, replace(_examined(tuned, texts), versions=versions))
    for note in found.notes:
        view.tell(f"note       {note}")
    return found


def noted(run: Path, reference: Reference, notes: Sequence[str]) -> Reference:
    """Return what is known of the program with what a recording showed; kept in the folder.

    Raises:
        OutputError: the folder cannot be written.
    """
    if not notes:
        return reference
    return _kept(
        run / REFERENCE_FILE,
        replace(reference, notes=tuple(dict.fromkeys((*reference.notes, *notes)))),
    )


def examine_held_out(
    run: Path,
    tuned: Tuned,
    view: View,
    *,
    is_begun: bool,
    given: str = "input",
    texts: Sequence[str] = (),
) -> Reference:
    """Return what the program as it is does with the held-out input; see `examine`.

    What is to be known of it is said again in every call: it bears on all answers.

    Args:
        run: the folder.
        tuned: the program.
        view: is shown what is to be known of it.
        is_begun: what the folder holds is of this optimisation.
        given: what is held out, an input or a load.
        texts: shell commands that are run beside the program's.
    """
    path = run / HELD_OUT_REFERENCE_FILE
    if is_begun and path.exists():
        found = _unchanged(run, Reference.load(path))
    else:
        view.begin(f"held-out {given}", None)
        try:
            found = _kept(path, _examined(tuned, texts))
        except TunerError as error:
            raise type(error)(f"the held-out {given}: {error}") from error
    for note in found.notes:
        view.tell(f"held out   {note}")
    return found


def loadable(
    names: Sequence[str], files: Files, reference: Reference, view: View
) -> tuple[str, ...]:
    """Return the allocators that the program can have, and say which and why if not all.

    Args:
        names: that were asked for, each perhaps with its library.
        files: of the allocators.
        reference: the program as it is.
        view: is shown what is to be known.

    Raises:
        ProgramError: it can have none of them, or no setting of any.
    """
    privileged = next(filter(gains_rights, _programs(reference)), None)
    if privileged is not None:
        raise ProgramError(
            f"{privileged} is setuid or setgid: the system ignores LD_PRELOAD and malloc's "
            "variables for it; it can be linked with another malloc: docs/how-to/link.md"
        )
    static = static_part(reference)
    if static is None:
        return tuple(names)
    left = tuple(one for one in names if files[one.partition(":")[0]][1].library is None)
    words = f"{static} is statically linked, so nothing can be preloaded into it"
    if not left:
        raise ProgramError(
            f"{words}; name glibc among --allocators: its settings act if it has its malloc"
        )
    view.tell(f"note       {words}: only settings of glibc act, unless it has another malloc")
    return left


def static_part(reference: Reference) -> Path | None:
    """Return a program into which nothing can be preloaded; None where there is none.

    Args:
        reference: the program as it is.

    Raises:
        ProgramError: there is one whose malloc nothing changes.
    """
    static = next(filter(is_static, _programs(reference)), None)
    if static is not None and not has_glibc(static):
        raise ProgramError(
            f"{static} is statically linked, and not with glibc: nothing in its environment "
            "changes its malloc; one of C or C++ can be linked with another: docs/how-to/link.md"
        )
    return static


def _examined(tuned: Tuned, texts: Sequence[str]) -> Reference:
    """Run it as it is; of the files that commands name, those that it left alone are inputs."""
    words = [word for text in (*tuned.command, *texts) for word in (text, *text.split())]
    before = _named_files(words)
    made = tuned.examine()
    owns = any(map(exports_malloc, _programs(made)))
    left = [word for word, stamp in _named_files(words).items() if before.get(word) == stamp]
    return replace(
        made,
        notes=(*made.notes, *(OWN_MALLOC,) * owns),
        file_sha256=_digest(made),
        inputs=_contents(left),
        environment=steering_digest(os.environ),
    )


def _programs(reference: Reference) -> Iterator[Path]:
    """Yield the files that run, where they are there: behind a shell, what that becomes."""
    for part in reference.parts or (reference,):
        file = part.program or shutil.which(part.command[0])
        if file and Path(file).is_file():
            yield Path(file)


def _named_files(words: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return size and time of change of the files that words name, or what is behind their =."""
    found = {}
    for name in (one for word in words for one in (word, word.partition("=")[2])):
        with contextlib.suppress(OSError):
            one = Path(name).stat()
            if stat.S_ISREG(one.st_mode):
                found[name] = one.st_size, one.st_mtime_ns
    return found


def _contents(files: Iterable[str]) -> dict[str, str]:
    """Return what changes with files: digests, or where much would be read, sizes and times."""
    found, n_bytes = {}, 0
    for file in sorted(files):
        n_bytes += _named_files([file]).get(file, (0, 0))[0]
        found[file] = _content(file, is_read=n_bytes <= _MOST_DIGESTED)
    return found


def _content(file: str, *, is_read: bool) -> str:
    """Return what changes with a file: its digest, or size and time where it is not read."""
    size, changed_ns = _named_files([file]).get(file, (0, 0))
    if is_read and size <= _MOST_DIGESTED:
        with contextlib.suppress(OSError):
            return digest(Path(file))
    return f"{size} {changed_ns}"


def _unchanged(run: Path, known: Reference) -> Reference:
    """Return what was known before.

    Raises:
        SpecError: it was of other files.
    """
    program = known.command[0]
    held = f"{run}: holds runs of {program} before"
    if known.file_sha256 not in ("", _digest(known)):
        now = f", which is {shutil.which(program)} now" if "/" not in program else ""
        raise SpecError(f"{held} its file changed{now}; choose another -o")
    kept = known.inputs.items()  # in either form
    changed = [word for word, text in kept if _content(word, is_read=" " not in text) != text]
    if missing := [word for word in changed if not Path(word).exists()]:
        raise SpecError(
            f"{run}: holds runs of {program} with {series(missing)}, not found from this folder; "
            "go on where it was begun"
        )
    if changed:
        raise SpecError(f"{held} {series(changed)} changed; choose another -o")
    return known


def _digest(reference: Reference) -> str:
    """Return what changes with the files of the programs; empty where none is found."""
    programs = [part.command[0] for part in reference.parts or (reference,)]
    found = "".join(digest(Path(file)) for file in map(shutil.which, programs) if file)
    return found and hashlib.sha256(found.encode()).hexdigest()


def _kept(path: Path, reference: Reference) -> Reference:
    write_text(path, json.dumps(reference.as_record(), indent=1) + "\n")
    return reference
