"""Write a chosen configuration in the form in which a program is deployed.

    deployment.py   what is deployed: variables, what they hold for, what was gained
    reduction.py    which settings can be left out
    formats.py      the forms

A form is a function from a `Deployment` to its text and an entry of `FORMATS`.
"""

from collections.abc import Mapping
from typing import Final

FORMATS: Final[Mapping[str, str]] = {
    "env": "tuner.export.formats:environment_file",
    "sh": "tuner.export.formats:shell_wrapper",
    "systemd": "tuner.export.formats:systemd_drop_in",
    "docker": "tuner.export.formats:dockerfile_lines",
    "kubernetes": "tuner.export.formats:kubernetes_env",
    "json": "tuner.export.formats:json_document",
}
"""Name on the command line -> module and function, imported when it is used."""
