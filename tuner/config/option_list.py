"""Search-space entries made from the list of settings that an allocator ships about itself.

exgen has one list of its settings, which its build writes as JSON beside the library:
names, ranges, defaults, effects, and how to step through them.  The search-space file then
says only what the list cannot say: parents, requirements, finer or narrower levels, reasons
under ``[never]``.  Names, ranges and defaults are in the list alone, so they cannot drift;
an entry or a level that the list does not have is an error.

allocator/src/base/options.def explains the fields.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import ConfigDict, Field

from tuner.config.allocator_interface import Scalar
from tuner.config.levels import Scale, check_scale, scale_levels
from tuner.config.reading import StrictModel, closest, show, validate
from tuner.errors import MissingToolError
from tuner.records import Value
from tuner.resources import native_file
from tuner.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMAT: Final = 1
"""Format of the list that this module reads."""

_N_LINEAR_STEPS: Final = 10
"""About so many steps lead through a linear range."""
_LEAST_SCALED_BYTES: Final = 4096
"""A scale of bytes that begins at 0 goes on with a page; less acts like 0 or like a page."""
_NOT_TUNED: Final = "never"
"""Scale of settings that a search must leave alone."""
_FROM_LIST: Final = frozenset({"default", "effect", "unit"})
"""Keys of an entry that the list alone says."""


class Option(StrictModel):
    """One setting, as the allocator describes it."""

    # A later list may hold more about a setting.
    model_config = ConfigDict(extra="ignore")

    name: str
    kind: str
    """number, flag or choice; entries of other kinds are searched only with levels of the file."""
    unit: str
    """What a number counts; "none" for the others."""
    scale: str
    """linear, log, power2, category, or never."""
    low: int | None = None
    high: int | None = None
    """Least and greatest number that is accepted."""
    choices: tuple[str, ...] = ()
    default: Scalar
    effect: Annotated[str, Field(min_length=1)]

    @property
    def is_tuned(self) -> bool:
        """False when a search must leave it alone."""
        return self.scale != _NOT_TUNED

    def accepts(self, value: Value) -> bool:
        """Return whether the allocator takes a value."""
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "choice":
            return value in self.choices
        if self.kind != "number":
            return isinstance(value, str)
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        is_within = (self.low or 0) <= value and (self.high is None or value <= self.high)
        return is_within and (self.scale != "power2" or value & (value - 1) == 0)


class OptionList(StrictModel):
    """All settings of an allocator."""

    model_config = ConfigDict(extra="ignore")

    format: Literal[1]
    options: tuple[Option, ...]


def read_option_list(name: str) -> tuple[Option, ...]:
    """Return the settings in a list that is installed with the native parts.

    Raises:
        MissingToolError: the list is missing, or of another format than this package reads.
        SpecError: it is damaged.
    """
    path = native_file(name)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MissingToolError(
            f"{path}: cannot be read: {error}; reinstall malloc-tuner"
        ) from error
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise MissingToolError(f"{path}: format {found}, expected {FORMAT}; reinstall malloc-tuner")
    return validate(OptionList, data, str(path)).options


def complete(data: Mapping[str, Any], options: Sequence[Option]) -> dict[str, Any]:
    """Return a search-space file with an entry for every setting of a list.

    Args:
        data: content of the file; its entries override levels, parents and requirements.
        options: the list.

    Returns:
        The same with all entries, parents before their children, and with the settings that
        are not to be tuned under ``never``, unless the file has levels for them.

    Raises:
        ValueError: the file names a setting or a level that the list does not have, or
            repeats what the list says.
    """
    said = {str(entry.get("name")): dict(entry) for entry in data.get("parameters", ())}
    reasons = dict(data.get("never", {}))
    by_name = {option.name: option for option in options}
    for name in (*said, *reasons):
        if name not in by_name:
            hint = closest(name, list(by_name))
            raise ValueError(f"{name}: {data.get('name')} has no such setting{hint}")
    entries: dict[str, dict[str, Any]] = {}
    for option in options:
        if option.name in reasons:
            continue
        if not option.is_tuned and option.name not in said:
            reasons[option.name] = option.effect
        elif (entry := _entry(option, said.get(option.name, {}))) is not None:
            entries[option.name] = entry
        else:
            reasons[option.name] = f"no scale to search through: {option.effect}"
    return {**data, "parameters": list(_parents_first(entries)), "never": reasons}


def _entry(option: Option, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the entry of a setting, or None if there are no levels to search."""
    repeated = sorted(_FROM_LIST & said.keys())
    if repeated:
        raise ValueError(f"{option.name}: {', '.join(repeated)} comes from the list of settings")
    levels = {key: said[key] for key in _LEVEL_KEYS if key in said}
    if "scale" not in levels:
        levels = _merged_levels(option, levels)
    if "scale" not in levels:
        return None
    _check_levels(option, levels)
    return {
        "name": option.name,
        "unit": "" if option.unit == "none" else option.unit,
        "default": option.default,
        "effect": option.effect,
        "source": "the allocator's own list of settings",
        **said,
        **levels,
    }


_LEVEL_KEYS: Final = ("scale", "low", "high", "step", "values", "specials")


def _merged_levels(option: Option, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the levels of a setting that the file may narrow or replace."""
    if "values" in said:
        is_number = option.kind == "number"
        return {**said, "scale": "ordinal" if is_number else "categorical"}
    return {**_natural_levels(option), **said}


def _natural_levels(option: Option) -> dict[str, Any]:
    """Return the levels that follow from kind, scale and range; nothing if none do."""
    low, high = option.low, option.high
    if option.kind == "flag":
        return {"scale": "categorical", "values": [not option.default]}
    if option.kind == "choice":
        values = [choice for choice in option.choices if choice != option.default]
        return {"scale": "categorical", "values": values}
    if not option.is_tuned or option.kind != "number" or low is None or high is None:
        return {}
    if option.scale == "linear":
        return {"scale": "linear", "low": low, "high": high, "step": _round_step(high - low)}
    is_binary = option.scale == "power2" or option.unit == "bytes"
    special = {"specials": [0]} if low == 0 else {}
    low = low or (_LEAST_SCALED_BYTES if is_binary else 1)
    if not is_binary:
        return {"scale": "log", "low": low, "high": high, **special}
    low, high = 1 << (low - 1).bit_length(), 1 << (high.bit_length() - 1)
    return {"scale": "log2", "low": low, "high": high, **special}


def _round_step(extent: int) -> int:
    """Return 1, 2 or 5 times a power of ten that leads through a range in about ten steps.

    Example:
        >>> _round_step(100), _round_step(16), _round_step(400)
        (10, 2, 50)
    """
    rough = max(1, extent / _N_LINEAR_STEPS)
    power = int(10 ** (len(str(int(rough))) - 1))
    return max(step * power for step in (1, 2, 5) if step * power <= 1.25 * rough)


def _check_levels(option: Option, levels: Mapping[str, Any]) -> None:
    """Refuse levels that the allocator does not accept."""
    numbers = {key: _number(levels.get(key)) for key in ("low", "high")}
    scale: Scale = levels["scale"]
    if scale not in get_args(Scale):
        raise ValueError(f"{option.name}: scale {show(scale)}: use {', '.join(get_args(Scale))}")
    values = tuple(levels["values"]) if "values" in levels else None
    check_scale(scale, numbers["low"], numbers["high"], levels.get("step"), values)
    found = scale_levels(scale, numbers["low"], numbers["high"], levels.get("step"), values)
    for level in (*levels.get("specials", ()), *found):
        if not option.accepts(level):
            raise ValueError(f"{option.name}: {show(level)} is not accepted by the allocator")


def _number(value: Any) -> Any:  # noqa: ANN401 - anything may stand in a file
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{show(value)} is not a number")
    return parse_size(value) if isinstance(value, str) else value


def _parents_first(entries: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield entries in the order of the list, but every parent before its children."""
    done: set[str] = set()
    for name in entries:
        chain = [name]
        while (parent := _parent(entries[chain[-1]])) in entries and parent not in chain:
            chain.append(parent)  # the model reports a circle: a parent stands before
        for each in reversed(chain):
            if each not in done:
                done.add(each)
                yield entries[each]


def _parent(entry: Mapping[str, Any]) -> str:
    return str((entry.get("when") or {}).get("parameter", ""))
