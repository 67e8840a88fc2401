"""Examine this machine: what malloc-tuner needs, what is there, what would provide the rest.

`examine` gathers facts and prints nothing.  Each fact is a `Finding`; those
with `needed` decide whether the main chain (record, emulate, tune, validate,
export) works here.  Which Debian package provides what stands in packages.txt
and nowhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner import allocators
from tuner.allocators.libraries import find_library
from tuner.emulation import Calibration
from tuner.errors import MissingToolError, ProgramError, SpecError
from tuner.machine import Machine, read_machine
from tuner.measure import instruments
from tuner.measure.calibration import kept_calibration, load_calibration
from tuner.measure.offers import (
    NO_PTRACE,
    Offer,
    ask,
    try_gem5,
    try_native_part,
    try_supervision,
)
from tuner.resources import packages_file

NATIVE_PARTS = {
    "libmalloctrace.so": (),
    "librecorder.so": (),
    "rand_malloc": ("--version",),
    "probe": (),
    "supervise": ("--version",),
    "build_trace": (),
    "libprofiletoml.so": (),
    "malloc_bench": ("--version",),
}
"""Built and installed with the package, with a question each program answers; an installation
lacks none.  The adapters below call the probe."""

TOOLS = {"qemu": ("qemu-x86_64", "--version"), "cachegrind": ("valgrind", "--version")}
"""Programs the instruments use, by the word packages.txt has for them."""

_NO_GEM5 = (
    "none given; for gem5 build it as "
    "https://www.gem5.org/documentation/general_docs/building says, and set GEM5 to its gem5.opt"
)


_NO_COST = (
    "ptrace is forbidden here: `tune` cannot measure cost (give --objectives "
    "mean_heap,instructions), and `optimize` does without emulation, as with --direct"
)

_WITHOUT_PERF = "; as in most virtual machines, and not needed: another instrument counts"
"""What to do about ``perf``, which no package provides."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    group: str
    """Heading it stands under."""
    name: str
    works: bool
    detail: str
    """Path and version, or why it does not work."""
    needed: bool
    """True when the main chain does not work without it."""
    package: str | None = None
    """Debian package that provides it; None when none does, or when it works."""


@dataclass(frozen=True)
class Examination:
    """Everything `doctor` found out."""

    machine: Machine
    findings: tuple[Finding, ...]
    """In the order of printing; findings of one group stand together."""
    prices: Calibration | None = None
    """What faults and system calls cost here; None when that was not measured."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about what keeps the main chain from working; empty when it works."""
        found = [f"{f.name}: {f.detail}" for f in self.findings if f.needed and not f.works]
        # perf counts whole processes: no cost without the allocator's share.
        counters = [f for f in self.findings if f.group == "instruments" and f.name != "perf"]
        if not any(f.works for f in counters):
            found.append("no instrument counts the allocator's instructions here")
        if any(f.works and f.detail.endswith(NO_PTRACE) for f in self.findings):
            found.append(_NO_COST)
        return tuple(found)

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages that would provide what is missing, without repeats."""
        return tuple(dict.fromkeys(f.package for f in self.findings if f.package))


def package_choices(text: str, word: str) -> tuple[str, ...]:
    """Return the packages that provide something, newest name first.

    Args:
        text: content of packages.txt.
        word: what is wanted, as in its second column.

    Raises:
        SpecError: the list has no such word.
    """
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and not line.startswith("#") and fields[1] == word:  # noqa: PLR2004 - its three columns
            return tuple(fields[2].split("|"))
    raise SpecError(f"packages.txt: nothing provides {word!r}")


def package_for(word: str) -> str:
    """Return the package to install on this machine: the first choice that apt knows."""
    choices = package_choices(packages_file().read_text(), word)
    if len(choices) > 1 and shutil.which("apt-cache"):
        for choice in choices:
            if ask(["apt-cache", "show", choice]).works:
                return choice
    return choices[0]


def _finding(
    group: str, name: str, offer: Offer, *, needed: bool, word: str | None = None
) -> Finding:
    package = package_for(word) if word and not offer.works else None
    return Finding(group, name, offer.works, offer.detail, needed, package)


def _allocators() -> Iterable[Finding]:
    for adapter in allocators.all_allocators():
        name = adapter.name
        try:
            found = adapter.locate()
            where = found.library or "the C library"
            offer = Offer(works=True, detail=f"{found.version}, {where}")
        except MissingToolError as error:
            offer = Offer(works=False, detail=str(error).removeprefix(f"{name}: "))
        library = adapter.file.library
        # A library that is here and does not work is not mended by its package.
        is_missing = library.sonames and not any(map(find_library, library.sonames))
        word = name if is_missing and library.package else None
        yield _finding("allocators", name, offer, needed=name == "glibc", word=word)


def _instruments() -> list[Finding]:
    try:
        found = instruments.find_instruments()
    except (MissingToolError, ProgramError) as error:
        return [Finding("instruments", "rand_malloc", False, str(error), needed=False)]  # noqa: FBT003 - a verdict
    # No package here: TOOLS say whether the program is missing, or only lacks something.
    is_only = not any(one.works for one in found)
    return [_instrument(one, is_only=is_only) for one in found]


def _instrument(one: instruments.Instrument, *, is_only: bool) -> Finding:
    is_needless = one.name == "perf" and not one.works and not is_only
    detail = one.detail + _WITHOUT_PERF if is_needless else one.detail
    return _finding("instruments", one.name, Offer(one.works, detail), needed=False)


def _gem5(path: str | None) -> Finding:
    """Try gem5 out; without one say where it is from."""
    if not path:
        return _finding("programs", "gem5", Offer(works=False, detail=_NO_GEM5), needed=False)
    offer = try_gem5(path)
    return _finding("programs", "gem5", offer, needed=True)


def _prices(*, calibrate: bool) -> Calibration | None:
    """Return the prices that are kept; with `calibrate`, measure those that are due."""
    try:
        return load_calibration() if calibrate else kept_calibration()
    except (MissingToolError, ProgramError):  # the finding says why
        return None


def examine(
    gem5: str | None = None, root: Path = Path("/"), *, calibrate: bool = False
) -> Examination:
    """Look at everything.

    Args:
        gem5: the gem5 program to try out; None when the user has none.
        root: where ``proc`` and ``sys`` are mounted.
        calibrate: measure prices that are not known or old; takes seconds.
    """
    findings = [
        _finding("native parts", name, try_native_part(name, *question), needed=True)
        for name, question in NATIVE_PARTS.items()
    ]
    findings.extend(_allocators())
    findings.extend(_instruments())
    findings.append(_finding("programs", "supervised run", try_supervision(), needed=True))
    for tool, command in TOOLS.items():
        word = None if shutil.which(command[0]) else tool
        findings.append(_finding("programs", command[0], ask(command), needed=False, word=word))
    findings.append(_gem5(gem5))
    return Examination(read_machine(root), tuple(findings), _prices(calibrate=calibrate))
