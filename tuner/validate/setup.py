"""The environment of every subject, read back before anything is measured.

A validation must use the very libraries the campaign measured: another version
under the same name would prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.allocators import Allocator, Installation, Located, get_allocator, libc_malloc
from tuner.config import AllocatorChoice, AllocatorFile
from tuner.errors import MissingToolError, SettingError
from tuner.measure.preloads import PRELOAD, in_front, preloaded_allocator
from tuner.measure.program import environment_under, padded
from tuner.records import Configuration
from tuner.store import AllocatorRecord, CampaignRecord
from tuner.store.subject import AS_IT_IS, Subject


@dataclass(frozen=True)
class Prepared:
    """A subject that is ready to run."""

    subject: Subject
    environment: Mapping[str, str]
    """The program's whole environment, of the same length for every subject."""
    refusal: str | None
    """Why the allocator did not take the settings; None when it did."""
    wants_huge_pages: bool = False
    """For all of its memory, see `Allocator.wants_huge_pages`."""


def prepare(
    subjects: Sequence[Subject],
    campaign: CampaignRecord,
    environment: Mapping[str, str],
    files: Mapping[str, AllocatorFile] | None = None,
) -> list[Prepared]:
    """Build the environments and read every setting back.

    Args:
        subjects: what will run.
        campaign: names the library and version that were measured.
        environment: the user's; variables that steer an allocator are left out.
        files: search spaces of the campaign that replace the shipped ones, by allocator.

    Raises:
        MissingToolError: a library is missing, or has another version than in the campaign.
    """
    found = {
        name: _locate(name, record, (files or {}).get(name))
        for name, record in campaign.allocators.items()
        if any(subject.configuration.allocator == name for subject in subjects)
    }
    entries = []
    for subject in subjects:
        allocator, installation = found[subject.configuration.allocator]
        variables = allocator.environment(installation, subject.configuration)
        entries.append(
            Prepared(
                subject,
                environment_under(variables, environment),
                _refusal(allocator, installation, subject),
                allocator.wants_huge_pages(subject.configuration),
            )
        )
    return _alike(entries)


def with_libc_malloc(prepared: Sequence[Prepared]) -> list[Prepared]:
    """Put the C library's malloc in front of an allocator that the program brings itself.

    Settings of glibc's malloc would act on nothing there; see `libc_malloc`.

    Args:
        prepared: subjects with a preloaded allocator are left as they are.
    """
    libc = {PRELOAD: libc_malloc()}
    return _alike(
        entry
        if preloaded_allocator(entry.environment)
        else replace(entry, environment=in_front(libc, entry.environment))
        for entry in prepared
    )


def with_program_as_it_is(
    brought: Path,
    prepared: Sequence[Prepared],
    campaign: CampaignRecord,
    environment: Mapping[str, str],
) -> list[Prepared]:
    """Add the program as its user runs it: nothing preloaded, its whole environment.

    Args:
        brought: the allocator that the program brings.
        prepared: the subjects, the baseline first.
        campaign: if it measured that allocator, the program as it is becomes the baseline, and
            its claims are those of the allocator's default; else there is nothing to claim, and
            it stands behind the baseline.
        environment: the user's.
    """
    known = next(
        (
            name
            for name, record in campaign.allocators.items()
            if record.library and Path(record.library).resolve().name == brought.resolve().name
        ),
        None,
    )
    subject = Subject("as-it-is", Configuration(known or brought.name), None, (AS_IT_IS,))
    entry = Prepared(subject, dict(environment), None)
    return _alike([entry, *prepared] if known else [prepared[0], entry, *prepared[1:]])


def _alike(entries: Iterable[Prepared]) -> list[Prepared]:
    """Return subjects whose environments are equally long."""
    found = list(entries)
    environments = padded([one.environment for one in found])
    return [replace(a, environment=b) for a, b in zip(found, environments, strict=True)]


def locate_choices(
    texts: Sequence[str],
    measured: Mapping[str, AllocatorRecord],
    files: Mapping[str, AllocatorFile],
) -> Located:
    """Return allocators as a user names them; those that a campaign measured as it did.

    Args:
        texts: ``jemalloc``, or ``jemalloc:/opt/lib/libjemalloc.so`` for another file.
        measured: libraries and versions of the campaign.
        files: search spaces of the campaign that replace the shipped ones, by allocator.

    Raises:
        SpecError: a name is wrong.
        MissingToolError: a library is missing, or has another version than in the campaign.
    """
    found = {}
    for text in texts:
        adapter = get_allocator(text)
        record = measured.get(adapter.name)
        if record is None:
            found[adapter.name] = (adapter, adapter.locate())
            continue
        library = AllocatorChoice.parse(text).library or record.library
        record = replace(record, library=str(library) if library else None)
        found[adapter.name] = _locate(adapter.name, record, files.get(adapter.name))
    return found


def _locate(
    name: str, record: AllocatorRecord, file: AllocatorFile | None
) -> tuple[Allocator, Installation]:
    allocator = get_allocator(name, file)
    installation = allocator.locate(Path(record.library) if record.library else None)
    check_version(installation, record.version)
    return allocator, installation


def check_version(installation: Installation, measured: str | None) -> None:
    """Raise MissingToolError where another version was measured; None: that is not known."""
    if measured not in (None, installation.version):
        raise MissingToolError(
            f"{installation.allocator}: version {measured} was measured, here is "
            f"{installation.version}; begin another run folder (-o) with this one, or install that "
            "one"
        )


def _refusal(allocator: Allocator, installation: Installation, subject: Subject) -> str | None:
    try:
        allocator.read_back(installation, subject.configuration)
    except SettingError as error:
        return str(error)
    return None
