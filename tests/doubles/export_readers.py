"""Readers of the exported formats, each after the documentation of the real reader."""

import re
import subprocess

import yaml


def shell_environment(script: str) -> dict[str, str]:
    """Run a script in an empty environment and return that of its end."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"{script}\nexec /usr/bin/env -0"],
        env={},
        capture_output=True,
        check=True,
    )
    pairs = (entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)
    return {name: value for name, value in pairs if name not in ("PWD", "_", "SHLVL", "OLDPWD")}


def systemd_environment(text: str) -> dict[str, str]:
    """Read Environment= as systemd.syntax(7) says: quoted, C escapes, %% is %."""
    values = {}
    for match in re.finditer(r'^Environment="((?:[^"\\]|\\.)*)"$', text, re.MULTILINE):
        unquoted = re.sub(r"\\(.)", r"\1", match[1])
        assert "%" not in unquoted.replace("%%", "")  # a specifier that would be expanded
        name, value = unquoted.replace("%%", "%").split("=", 1)
        values[name] = value
    return values


def dockerfile_environment(text: str) -> dict[str, str]:
    r"""Read ENV NAME="value" as the Dockerfile reference says: backslash escapes \\, " and $."""
    values = {}
    for match in re.finditer(r'^ENV (\w+)="((?:[^"\\]|\\.)*)"$', text, re.MULTILINE):
        assert not re.search(r"(?<!\\)(?:\\\\)*\$", match[2])
        values[match[1]] = re.sub(r"\\(.)", r"\1", match[2])
    return values


def kubernetes_environment(text: str) -> dict[str, str]:
    """Read the env list; Kubernetes expands $(NAME), and $$ is $ to it."""
    entries = yaml.safe_load(text)["env"]
    assert not any("$(" in entry["value"].replace("$$", "") for entry in entries)
    return {entry["name"]: entry["value"].replace("$$", "$") for entry in entries}
