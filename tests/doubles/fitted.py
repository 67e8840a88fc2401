"""Traces and the profiles fitted to them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tuner.errors import TraceError
from tuner.profile.file import profile_text, write_profile
from tuner.profile.fit import FitOptions, fit
from tuner.trace.file import Trace

ON_FILES = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fitted(trace: Path, options: FitOptions | None = None) -> Path:
    path = trace.with_suffix(".profile.json")
    with Trace(trace) as opened:
        write_profile(path, fit(opened, options))
    return path


def refusal(path: Path, profile: dict[str, Any]) -> str:
    path.write_text(profile_text(profile))
    with pytest.raises(TraceError) as caught:
        Trace(path)
    return str(caught.value)
