"""Presets: settings that suit many programs.

A preset is a file of a user's own, with the settings and what they gained on every workload they
were measured on; none ships, for reasons in docs/decisions/exgen.md.  ``malloc-tuner export
--preset`` writes one for a program that has not been recorded; tuning for the program itself
finds more.
"""

from __future__ import annotations

from statistics import geometric_mean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from tuner.config.allocator_file import shipped_allocator_file
from tuner.config.allocator_interface import Scalar, Sentence
from tuner.config.reading import StrictModel, problems_error, read_toml, validate
from tuner.records import Configuration
from tuner.registry import ALLOCATORS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _allocator(name: str) -> str:
    if name not in ALLOCATORS:
        message = f"unknown; allowed: {', '.join(ALLOCATORS)}"
        raise ValueError(message)
    return name


class PresetGain(StrictModel):
    """What a preset does to one workload: ratios to the default of the baseline, in emulation."""

    mean_heap: Annotated[float, Field(gt=0)]
    peak_heap: Annotated[float, Field(gt=0)]
    cost: Annotated[float, Field(gt=0)]


class Preset(StrictModel):
    """One preset."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Sentence
    purpose: Sentence
    """One sentence: what it is good for."""
    allocator: Annotated[str, AfterValidator(_allocator)]
    baseline: Annotated[str, AfterValidator(_allocator)]
    """Allocator to whose default the gains are ratios."""
    found_on: Sentence
    """Day of the measurement, ISO 8601."""
    found_by: Sentence
    """The command that finds it."""
    thp: Literal["never", "keep"] = "never"
    """Transparent huge pages in the emulation that found it; presets without it had none."""
    settings: dict[str, Scalar]
    gains: Annotated[dict[str, PresetGain], Field(min_length=1)]
    """Workload -> what the preset does to it."""

    @property
    def configuration(self) -> Configuration:
        """The settings as a configuration."""
        return Configuration.of(self.allocator, self.settings)

    def gain(self, objective: str) -> float:
        """Return the geometric mean of a ratio over the workloads.

        Args:
            objective: mean_heap, peak_heap or cost.
        """
        return geometric_mean(getattr(gain, objective) for gain in self.gains.values())


def load_preset(path: Path) -> Preset:
    """Read a preset.

    Raises:
        SpecError: the file is missing or wrong; every problem is named.
    """
    preset = validate(Preset, read_toml(path), str(path))
    problems = [*_setting_problems(preset)]
    if problems:
        raise problems_error(str(path), problems)
    return preset


def _setting_problems(preset: Preset) -> Iterator[str]:
    file = shipped_allocator_file(preset.allocator)
    for name, value in preset.settings.items():
        try:
            file.find(name).coerce(value)
        except ValueError as error:
            yield f"settings.{name}: {error}"
