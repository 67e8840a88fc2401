"""Presets: settings that suit many programs, found by tuning over the shipped workloads.

A preset is a file with the settings and what they gained on every workload they were measured
on: in ``configs/presets`` if it is better than the allocator's default on real programs, else
wherever its owner keeps it.  ``malloc-tuner export --preset`` writes one for a program that
nobody has recorded yet; tuning for the program itself finds more.
"""

from __future__ import annotations

from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from tuner.errors import SpecError
from tuner.records import Configuration
from tuner.resources import configs_dir
from tuner.spec.allocator_file import Scalar, Sentence, allocator_names, shipped_allocator_file
from tuner.spec.reading import Model, closest, problems_error, read_toml, validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def _allocator(name: str) -> str:
    if name not in allocator_names():
        message = f"unknown; allowed: {', '.join(allocator_names())}"
        raise ValueError(message)
    return name


class PresetGain(Model):
    """What a preset does to one workload: ratios to the default of the baseline, in emulation."""

    mean_heap: Annotated[float, Field(gt=0)]
    peak_heap: Annotated[float, Field(gt=0)]
    cost: Annotated[float, Field(gt=0)]


class Preset(Model):
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
    default_gains: dict[str, PresetGain] = Field(default_factory=dict)
    """The same of the allocator's own default, of the same day; empty: not known."""

    @property
    def configuration(self) -> Configuration:
        """The settings as a configuration."""
        return Configuration.of(self.allocator, self.settings)

    def gain(self, objective: str) -> float:
        """Return the geometric mean of a ratio over the workloads.

        Args:
            objective: mean_heap, peak_heap or cost.
        """
        return mean_gain(self.gains, objective)


def mean_gain(gains: Mapping[str, PresetGain], objective: str) -> float:
    """Return the geometric mean of a ratio (mean_heap, peak_heap or cost) over workloads."""
    return geometric_mean(getattr(gain, objective) for gain in gains.values())


def preset_names() -> tuple[str, ...]:
    """Return the names of the shipped presets, sorted."""
    return tuple(sorted(path.stem for path in (configs_dir() / "presets").glob("*.toml")))


def shipped_presets() -> Iterator[Preset]:
    """Yield the shipped presets by name."""
    yield from map(load_preset, preset_names())


def load_preset(name: str) -> Preset:
    """Read a preset.

    Args:
        name: of a shipped one, or the path of a file of one's own, which ends in ``.toml``.

    Raises:
        SpecError: there is no such preset, or the file is wrong; every problem is named.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = configs_dir() / "presets" / f"{name}.toml"
        if name not in preset_names():
            known = ", ".join(preset_names()) or "none ships; give the path of a .toml file"
            hint = closest(name, preset_names())
            message = f"there is no preset {name!r}{hint or ';'} presets: {known}"
            raise SpecError(message)
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
