"""What is compared: allocators by name, libraries by path, settings, picks of a run.

Settings of allocators that malloc-tuner knows are read back before anything is
measured, as everywhere: what did not take effect is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.allocators import Allocator, all_allocators, get_allocator
from tuner.allocators.base import Installation
from tuner.config.reading import check_is_utf8
from tuner.errors import MissingToolError, SpecError
from tuner.front.kept import find_configuration
from tuner.provenance import digest
from tuner.records import Configuration
from tuner.runs import load_run, search_spaces

SINGLE_THREADED = frozenset({"exgen-st"})
"""Left out unless named: each workload runs in threads of its own."""


@dataclass(frozen=True)
class BenchSubject:
    """One allocator with its settings."""

    label: str
    """Unique within a comparison."""
    library: Path | None
    """File to preload; None for libc's own malloc."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables that configure the allocator, without LD_PRELOAD; sorted."""
    version: str | None = None
    """None for a library by path whose version was not given."""

    @property
    def environment(self) -> dict[str, str]:
        """All variables of a run, LD_PRELOAD included."""
        preload = {"LD_PRELOAD": str(self.library)} if self.library else {}
        return {**preload, **dict(self.variables)}

    def identity(self) -> dict[str, object]:
        """Return what must not change between two sessions of one comparison."""
        return {
            "label": self.label,
            "library": None if self.library is None else str(self.library),
            "sha256": None if self.library is None else digest(self.library),
            "variables": dict(self.variables),
            "version": self.version,
        }


def installed_subjects() -> tuple[list[BenchSubject], list[str]]:
    """Return every allocator of this machine as shipped, and why others are missing."""
    found, missing = [], []
    for adapter in all_allocators():
        if adapter.name in SINGLE_THREADED:
            missing.append(f"{adapter.name} serves programs with one thread")
            continue
        try:
            found.append(subject_of(adapter.name, adapter, adapter.locate()))
        except MissingToolError as error:
            missing.append(str(error))
    return found, missing


def named_subject(name: str) -> BenchSubject:
    """Return an allocator as shipped.

    Args:
        name: ``jemalloc``, or ``jemalloc:/opt/lib/libjemalloc.so``.

    Raises:
        SpecError: there is no such allocator.
        MissingToolError: it is not on this machine.
    """
    adapter = get_allocator(name)
    return subject_of(adapter.name, adapter, adapter.locate())


def subject_of(
    label: str,
    adapter: Allocator,
    installation: Installation,
    configuration: Configuration | None = None,
) -> BenchSubject:
    """Return an allocator with settings, which are read back; None for as shipped.

    Raises:
        SettingError: a setting did not take effect.
    """
    asked = configuration or Configuration(adapter.name)
    adapter.read_back(installation, asked)
    variables = adapter.environment(installation, asked)
    variables.pop("LD_PRELOAD", None)
    return BenchSubject(label, installation.library, _sorted(variables), installation.version)


def library_subject(text: str) -> BenchSubject:
    """Return any library as a subject.

    Args:
        text: ``NAME=PATH``, or ``NAME=PATH@VERSION`` to say which version it is.

    Raises:
        SpecError: not of this form, or a path that ld.so would split or that is not UTF-8.
        MissingToolError: there is no such file.
    """
    label, sign, path = text.partition("=")
    if not (label and sign and path):
        raise SpecError(f"--library {text!r}: write NAME=PATH, such as mine=/opt/lib/libmine.so")
    library, version = _with_version(path)
    if not library.is_file():
        raise MissingToolError(
            f"--library {label}: {library}: no such file; give the path of a shared library"
        )
    if any(letter in str(library) for letter in ": "):
        raise SpecError(
            f"--library {label}: {library}: a path with a colon or a blank cannot be preloaded"
        )
    try:
        check_is_utf8(str(library))
    except ValueError as error:
        raise SpecError(f"--library {label}: {error}") from error
    return BenchSubject(label, library, version=version)


def _with_version(text: str) -> tuple[Path, str | None]:
    """Split ``PATH@VERSION``; a file whose name holds the sign is a path as a whole."""
    path, sign, version = text.rpartition("@")
    if not (sign and path and version) or "/" in version or Path(text).is_file():
        return Path(text).absolute(), None
    return Path(path).absolute(), version


def pick_subject(text: str) -> BenchSubject:
    """Return the pick of a campaign with the library it was measured on; settings are read back.

    Where that file is gone, the library that is found here is taken if its version is the same.

    Args:
        text: ``RUN:PICK``, such as ``runs/app:balanced``.

    Raises:
        SpecError: not of this form.
        StoreError: there is no such run.
        SelectionError: the run has no such pick.
        SettingError: a setting did not take effect.
        MissingToolError: the allocator is not on this machine, or of another version.
    """
    folder, sign, name = text.rpartition(":")
    if not (folder and sign and name):
        raise SpecError(f"--pick {text!r}: write RUN:PICK, such as runs/app:balanced")
    run = load_run(Path(folder))
    configuration = find_configuration(run, name)
    record = run.campaign.allocators[configuration.allocator]
    measured = Path(record.library) if record.library else None
    spaces = search_spaces(run.folder)
    adapter = get_allocator(configuration.allocator, spaces.get(configuration.allocator))
    here = adapter.locate(measured if measured and measured.is_file() else None)
    if here.version != record.version:
        raise MissingToolError(
            f"--pick {text}: {adapter.name} {record.version} was measured, here is {here.version}; "
            "install that one, or try the setting with this one: --setting"
        )
    return subject_of(f"{Path(folder).name}/{name}", adapter, here, configuration)


def with_variables(subjects: Sequence[BenchSubject], texts: Iterable[str]) -> list[BenchSubject]:
    """Return the subjects with further variables, which are not read back.

    Args:
        subjects: of a comparison.
        texts: ``LABEL:NAME=VALUE``.

    Raises:
        SpecError: not of this form, or no subject has the label.
    """
    extra: dict[str, dict[str, str]] = {}
    for text in texts:
        label, pair = _split_label(text, [subject.label for subject in subjects])
        name, sign, value = pair.partition("=")
        if not (label and name and sign) or name.startswith("LD_"):
            raise SpecError(f"--env {text!r}: write LABEL:NAME=VALUE; LD_ variables are fixed")
        if label not in {subject.label for subject in subjects}:
            known = ", ".join(subject.label for subject in subjects)
            raise SpecError(f"--env {text!r}: there is no subject {label!r}, only {known}")
        extra.setdefault(label, {})[name] = value
    return [_with(subject, extra.get(subject.label, {})) for subject in subjects]


def _split_label(text: str, labels: Iterable[str]) -> tuple[str, str]:
    """Split ``LABEL:NAME=VALUE`` after the longest label that it begins with, else at a colon."""
    begun = [label for label in labels if text.startswith(f"{label}:")]
    label = max(begun, key=len, default=text.partition(":")[0])
    return label, text[len(label) + 1 :]


def check_labels(subjects: Sequence[BenchSubject]) -> None:
    """Refuse two subjects of one name.

    Raises:
        SpecError: a label comes twice, or there is nothing to compare.
    """
    labels = [subject.label for subject in subjects]
    if not labels:
        raise SpecError("nothing to compare; name allocators with --allocators or --library")
    for label in labels:
        if labels.count(label) > 1:
            raise SpecError(f"two subjects have the label {label!r}; leave out or rename one")


def _with(subject: BenchSubject, variables: Mapping[str, str]) -> BenchSubject:
    merged = {**dict(subject.variables), **variables}
    return BenchSubject(subject.label, subject.library, _sorted(merged), subject.version)


def _sorted(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(variables.items()))
