"""Peers by path, each with a version: a figure that names a library must say which one.

The version is given (``--peer snmalloc=/opt/snmalloc.so@0.7.1``) or, for a library inside a git
checkout of its own, what ``git describe`` says there.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from benchmarks.provenance import ROOT
from tuner.bench.subjects import Subject, library_subject
from tuner.errors import SpecError


def peer_subject(text: str) -> Subject:
    """Return a library by path as a subject with a version.

    Args:
        text: ``NAME=PATH`` or ``NAME=PATH@VERSION``.

    Raises:
        SpecError: not of this form, or nothing tells the version.
        MissingToolError: there is no such file.
    """
    subject = library_subject(text)
    if subject.version is None and subject.library is not None:
        subject = replace(subject, version=_described(subject.library.resolve().parent))
    if subject.version is None:
        message = (
            f"--peer {text}: its version is not known, and figures without one are of no use; "
            f"write {text}@VERSION"
        )
        raise SpecError(message)
    return subject


def _described(folder: Path) -> str | None:
    """Return what git says of the checkout that a folder lies in; None: there is none but ours."""
    if folder.is_relative_to(ROOT):
        return None
    words = ["git", "-C", str(folder), "describe", "--always", "--tags", "--dirty"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
