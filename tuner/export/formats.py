"""The forms of an export: one function per format, each with the quoting rules of its reader.

Sources: POSIX shell (IEEE Std 1003.1, 2.2 Quoting), docker(1) ``--env-file``
(raw values, no quoting), systemd.syntax(7) and systemd.exec(5) ``Environment=``
(``%`` is a specifier), Dockerfile reference ``ENV`` (``$`` expands), Kubernetes
"dependent environment variables" (``$(NAME)`` expands, ``$$`` is ``$``), YAML 1.2 double-quoted
scalars.  Everything but the values is ASCII, and no text of a campaign can end
a comment: control characters become blanks.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.errors import OutputError
from tuner.export.deployment import Deployment, ObjectiveGain, command_text
from tuner.front.whole import expected_words
from tuner.measure.preloads import PRELOAD, TUNABLES
from tuner.page import wrapped
from tuner.recording.explain import SWITCHES
from tuner.records import value_text
from tuner.registry import EXPORTERS
from tuner.resources import native_file
from tuner.stats import Estimate
from tuner.units import signed_percent

SCHEMA = "malloc-tuner.export"
VERSION = 1
"""Schema and version of the JSON form; docs/formats.md describes it."""

_WIDTH = 92
"""Columns of a comment line, without its mark."""
_RAW_VALUE = re.compile(r"[A-Za-z0-9_./:,+=@%-]*")
"""What a shell and ``docker --env-file`` both take as it is."""
_OTHER_TUNABLES = (
    '"$(echo "${GLIBC_TUNABLES:+$GLIBC_TUNABLES:}" | '
    """sed 's/glibc[.]malloc[.][^:]*://g')\""""
)
"""What the shell has, less those of malloc."""


def render(deployment: Deployment, name: str) -> str:
    """Write a deployment in the format of that name, one of `EXPORTERS`.

    Raises:
        OutputError: the format cannot hold a value.
    """
    for variable, value in deployment.variables:
        if not value.isprintable():
            raise OutputError(f"{variable}={value!r}: a control character cannot be exported")
    return str(EXPORTERS[name].load()(deployment))


def environment_file(deployment: Deployment) -> str:
    """Write ``NAME=value`` lines, for a shell to source and for ``docker run --env-file``."""
    for name, value in deployment.variables:
        if not _RAW_VALUE.fullmatch(value):
            raise OutputError(
                f"{name}={value}: the format env has no quoting that a shell and docker share; "
                "use --format sh, systemd, docker, kubernetes or json"
            )
    name = shlex.quote(deployment.file_name or "malloc.env")
    use = (
        f"use: (set -a; {_unset(deployment)}. ./{name}; exec PROGRAM ARGUMENT...)",
        f"  or: docker run --env-file {name} IMAGE",
        *_to_remove(deployment),
    )
    lines = [f"{name}={value}" for name, value in deployment.variables]
    return document(comments(deployment, *use, *_replaced(deployment)), lines)


def shell_wrapper(deployment: Deployment) -> str:
    """Write a script that runs its arguments as a command under the configuration.

    Libraries that are preloaded already stay, behind its allocator, and tunables other than
    malloc's.  An LD_PRELOAD of its own without an allocator replaces them: one that they have
    would act.
    """
    words = []
    for name, value in deployment.variables:
        quoted = shlex.quote(value)
        if name == PRELOAD and deployment.preloads:
            quoted += '"${LD_PRELOAD:+:$LD_PRELOAD}"'
        if name == TUNABLES:
            quoted = _OTHER_TUNABLES + quoted
        words.append(f"{name}={quoted}")
    lines = [
        "if [ $# -eq 0 ]; then",
        '    echo "usage: $0 PROGRAM [ARGUMENT...]" >&2',
        "    return 2 2>/dev/null || exit 2",  # sourced by mistake, it must not end the shell
        "fi",
        *filter(None, [_unset(deployment).removesuffix("; ")]),
        *([" \\\n    ".join(["export", *words])] if words else []),
        'exec "$@"',  # env would take a program's path with = for a variable
    ]
    name = shlex.quote(deployment.file_name or "malloc.sh")
    heading = comments(deployment, f"use: sh {name} PROGRAM ARGUMENT...")
    return "#!/bin/sh\n" + document(heading, lines)


def systemd_drop_in(deployment: Deployment) -> str:
    """Write a drop-in file of a systemd service."""
    has_preload = PRELOAD in dict(deployment.variables)
    use = (
        "use: save as /etc/systemd/system/NAME.service.d/malloc.conf, then",
        "     systemctl daemon-reload && systemctl restart NAME.service",
        *(["     (a program with file capabilities ignores LD_PRELOAD)"] * has_preload),
    )
    lines = ["[Service]"]
    for name, value in deployment.variables:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
        lines.append(f'Environment="{name}={escaped}"')
    if deployment.unset:
        lines.append(f"UnsetEnvironment={' '.join(deployment.unset)}")
    return document(comments(deployment, *use, *_replaced(deployment)), lines)


def dockerfile_lines(deployment: Deployment) -> str:
    """Write ENV instructions for the end of a Dockerfile."""
    use = ["use: at the end of the Dockerfile, since it also acts on every RUN after it"]
    if deployment.library:
        use.append(f"     the image must hold {deployment.library}")
    use += _to_remove(deployment) + _replaced(deployment)
    lines = []
    for name, value in deployment.variables:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        lines.append(f'ENV {name}="{escaped}"')
    return document(comments(deployment, *use), lines)


def kubernetes_env(deployment: Deployment) -> str:
    """Write the ``env`` list of a container."""
    use = ["use: in spec.containers[] of the pod, or of the pod's template"]
    if deployment.library:
        use.append(f"     the image must hold {deployment.library}")
    use += _to_remove(deployment) + _replaced(deployment)
    lines = ["env:" if deployment.variables else "env: []"]
    for name, value in deployment.variables:
        escaped = json.dumps(value.replace("$", "$$"), ensure_ascii=False)
        lines += [f"  - name: {name}", f"    value: {escaped}"]
    return document(comments(deployment, *use), lines)


def _unset(deployment: Deployment) -> str:
    return f"unset {' '.join(deployment.unset)}; " if deployment.unset else ""


def _to_remove(deployment: Deployment) -> list[str]:
    names = ", ".join(deployment.unset)
    return [f"     remove {names} from the image or pod"] if names else []


def _replaced(deployment: Deployment) -> list[str]:
    """Return what to do about other libraries and tunables of a service or an image."""
    set_here = dict(deployment.variables)
    names = " and ".join(name for name in (PRELOAD, TUNABLES) if name in set_here)
    if not names:
        return []
    said = f"     other entries of {names} are replaced: append those"
    return [said, "     that are not malloc's, after a colon"]


def json_document(deployment: Deployment) -> str:
    """Write everything that is known about the deployment as one JSON object."""
    pick, validation = deployment.pick, deployment.validation
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "written_by": deployment.tool,
        "campaign": deployment.campaign,
        "date": deployment.date,
        "pick": pick and {"name": pick.name, "rule": deployment.rule, "trial": pick.trial.number},
        "allocator": deployment.configuration.allocator,
        "library": deployment.library,
        "brought_allocators": list(deployment.brought),
        "settings": deployment.configuration.as_dict,
        "left_out": dict(deployment.reduction.dropped),
        "environment": dict(deployment.variables),
        "unset": list(deployment.unset),
        "valid_for": dict(deployment.valid_for),
        "trace": pick and {"name": deployment.trace, "sha256": deployment.trace_sha256},
        "baseline": deployment.baseline,
        "proven_by": deployment.proof,
        "gain": [_gain_document(gain) for gain in deployment.gains],
        "validation": None
        if validation is None
        else {
            "command": list(validation.command),
            "number": validation.identifier,
            "rounds": validation.rounds,
            "date": validation.created_at[:10],
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _gain_document(gain: ObjectiveGain) -> dict[str, Any]:
    real = gain.validated
    return {
        "objective": gain.objective,
        "emulated_ratio": gain.emulated,
        "validated_metric": gain.metric,
        "expected_ratio": gain.expected,
        "validated_ratio": real.median if real else None,
        "validated_interval": [real.interval.low, real.interval.high]
        if real and real.interval
        else None,
        "verdict": gain.verdict,
    }


# The comment block


def document(heading: list[str], lines: list[str]) -> str:
    """Return a file whose comments begin with #.

    Args:
        heading: the comments, without their mark.
        lines: what the file says.
    """
    return "\n".join([*(f"# {line}".rstrip() for line in heading), "", *lines, ""])


def comments(deployment: Deployment, *use: str) -> list[str]:
    """Return what every form says of a deployment, as lines without a mark.

    Args:
        deployment: what is written.
        use: lines that say how the form is used.
    """
    n = len(deployment.configuration.settings)
    what = f"{n} setting{'s' * (n != 1)}" if n else "as shipped"
    allocator = f"{deployment.configuration.allocator} {deployment.version}"
    lines = [f"{allocator}, {what}; written by {deployment.tool}", *use, ""]
    for title, text in _entries(deployment):
        lines += wrapped(f"{title}: {_plain(text)}", _WIDTH, others="    ")
    if not deployment.variables:
        lines.append("nothing to set: the choice is the allocator the program has anyway")
    return [_plain(line) for line in lines]


def _entries(deployment: Deployment) -> Iterator[tuple[str, str]]:
    reduction = deployment.reduction
    yield from _source_entries(deployment)
    facts = (f"{name} {value}" for name, value in deployment.valid_for.items())
    yield "valid for", "; ".join(facts)
    for gain in deployment.gains:
        yield from _gain_entries(gain, deployment.baseline)
    yield from _proof_entries(deployment)
    if deployment.is_shipped:
        where = "comes with malloc-tuner, and is needed where the program runs: copy it there"
        if Path(deployment.library or "").parent == native_file("libexgen.so").parent:
            where += ", such as to /usr/local/lib, and export again with --library and its path"
        yield "library", where
    if deployment.configuration.settings and _reads_few_variables(deployment):
        yield (
            "limit",
            (
                "this mimalloc reads only the first 256 variables of the environment; where there "
                "are more, start the program with fewer"
            ),
        )
    if deployment.library is None:
        yield "whose malloc", _whose_malloc(deployment)
    if reduction.dropped:
        settings = ", ".join(f"{name}={value_text(value)}" for name, value in reduction.dropped)
        without = "in emulation or on the program, they change too little"
        if reduction.witness is not None:
            without = f"trial {reduction.witness} measured exactly the same without"
        yield "left out", f"{settings} ({without})"


def _proof_entries(deployment: Deployment) -> Iterator[tuple[str, str]]:
    validation = deployment.validation
    if deployment.proof is not None:
        yield "proven", deployment.proof
    elif validation is not None:
        date, rounds = validation.created_at[:10], validation.rounds
        made = f"validation {validation.identifier} of {date}"
        yield "validated", f"{made}, {rounds} rounds of {command_text(validation)}"
        yield from (("note", notice) for notice in deployment.notices)
    elif deployment.pick is None:
        yield "validated", "not on your program: it is a setting that was given"
    else:
        yield "validated", "not yet; malloc-tuner validate runs it on the real program"
    if kept := ", ".join(name for name, _ in deployment.variables if name in SWITCHES):
        yield "set too", f"{kept}: the program had it as it was, and the gains are against that"
    if deployment.unset:
        names = ", ".join(deployment.unset)
        yield "not set", f"{names}: the program had it as it was, and the gains are without"


def _reads_few_variables(deployment: Deployment) -> bool:
    is_mimalloc = deployment.configuration.allocator == "mimalloc"
    return is_mimalloc and deployment.version.startswith("2.0.")


def _source_entries(deployment: Deployment) -> Iterator[tuple[str, str]]:
    pick = deployment.pick
    if pick is not None:
        who = f'pick "{pick.name}" of campaign {deployment.campaign}'
        if deployment.proof is not None:
            who = "by malloc-tuner optimize"
        which = f"trial {pick.trial.number} of {deployment.n_trials} ({deployment.rule})"
        yield "chosen", f"{who}: {which}"
        trace = f"{deployment.trace} (sha256 {(deployment.trace_sha256 or '')[:16]})"
        yield "measured", f"{deployment.date}, emulated from {trace}"


def _whose_malloc(deployment: Deployment) -> str:
    if deployment.brought:
        names = ", ".join(deployment.brought)
        return f"the program brings {names}; LD_PRELOAD puts the C library's malloc before it"
    if deployment.validation is None and deployment.proof is None:
        return (
            "the C library's; a program that is linked with another allocator keeps that one, "
            "unless this is exported after malloc-tuner validate, which notices it"
        )
    return "the C library's, which the program has anyway"


def _gain_entries(gain: ObjectiveGain, baseline: str | None) -> Iterator[tuple[str, str]]:
    default = f"{gain.label} against the default of {baseline}"
    if gain.validated is None:
        yield default, _emulated_text(gain)
    elif gain.is_of_optimize:
        if gain.emulated is not None:
            yield default, _emulated_text(gain)
        real = f"{_real_text(gain.validated)}: {gain.verdict}"
        yield f"{gain.metric} against the program as it was", real
    else:
        what = "" if gain.metric == gain.label else f" ({gain.metric})"
        expected = (
            "" if gain.expected is None else f", expected {expected_words(gain.expected, _change)}"
        )
        yield default, f"{_real_text(gain.validated)}{what}{expected}: {gain.verdict}"


def _emulated_text(gain: ObjectiveGain) -> str:
    if gain.emulated is None:
        return "not measured"
    emulated = f"{_change(gain.emulated)} emulated"
    if gain.expected is None:
        return emulated
    expected = expected_words(gain.expected, _change)
    return f"about {expected} expected of the whole program ({emulated})"


def _real_text(found: Estimate) -> str:
    real = _change(found.median)
    if found.interval:
        real += f" [{_change(found.interval.low)}, {_change(found.interval.high)}]"
    return f"{real} on the real program"


def _change(ratio: float) -> str:
    return signed_percent(ratio - 1.0, 2)


def _plain(text: str) -> str:
    """Keep a text on its line: every control or separator character becomes a blank."""
    return "".join(c if c.isprintable() else " " for c in text)
