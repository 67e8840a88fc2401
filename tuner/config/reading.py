"""Read TOML into strict models; say everything that is wrong at once, in the user's words.

An error names the file, the dotted key, the value found and what is allowed, with the
closest known key for a misspelt one.  All models derive from `StrictModel`: unknown keys are
errors, and nothing is converted silently (a number in quotes is not a number).
"""

from __future__ import annotations

import json
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from tuner.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_core import ErrorDetails

MAX_SHOWN_CHARS = 60
"""Longer values are cut in messages."""

_TOO_DEEP: Final = "tables or arrays are nested too deeply"

_PLAIN: Final = {
    "too_short": "must have at least one entry",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must begin with a letter or digit; allowed besides: . _ -",
}
"""Our words for some of pydantic's error types."""

_WORDS: Final = (
    ("Value error, ", ""),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
    ("Input should be", "must be"),
    ("a valid integer", "a whole number"),
    ("a valid array", "an array"),
    ("a valid tuple", "an array"),
    ("a valid", "a"),
    ("an object", "a table"),
    ("a dictionary", "a table"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
)
"""Pydantic's words and ours, replaced in order in all its other messages."""


class StrictModel(BaseModel):
    """Base of everything read from a file: strict, closed and immutable."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True
    )


ModelT = TypeVar("ModelT", bound=StrictModel)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        SpecError: the file cannot be read or is not TOML; names the line.
    """
    if path.exists() and not path.is_file():  # a device may never end
        raise SpecError(f"{path}: not a regular file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise SpecError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise SpecError(f"{path}: {_TOO_DEEP}") from error


def validate(model: type[ModelT], data: Mapping[str, Any], source: str) -> ModelT:
    """Turn a dictionary in the shape of TOML into a model.

    Args:
        model: what to build.
        data: content of the file.
        source: file name for the messages, or "options".

    Raises:
        SpecError: one line per problem.
    """
    try:
        _check_is_text(data, source)
        # In JSON mode pydantic's strictness knows that arrays become tuples.
        return model.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        details = error.errors()
        problems = [_explain(model, data, d) for d in details if not _is_echo(d, details)]
        raise problems_error(source, problems) from error
    except RecursionError as error:
        raise SpecError(f"{source}: {_TOO_DEEP}") from error


def check_is_utf8(text: str) -> None:
    """Refuse bytes that are no UTF-8: neither TOML nor a store can hold them.

    Raises:
        ValueError: names the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise ValueError(
            f"{shown}: holds bytes that are not UTF-8; rename it, or link to it"
        ) from error


def _check_is_text(value: object, source: str) -> None:
    """Check every text in a value.

    Raises:
        SpecError: names the text.
    """
    if isinstance(value, Mapping):
        for member in value.values():
            _check_is_text(member, source)
    elif isinstance(value, list | tuple):
        for member in value:
            _check_is_text(member, source)
    elif isinstance(value, str | Path):
        try:
            check_is_utf8(str(value))
        except ValueError as error:
            raise SpecError(f"{source}: {error}") from error


def problems_error(source: str, problems: Iterable[str]) -> SpecError:
    """Return one SpecError for one or several problems of a file."""
    lines = list(dict.fromkeys(problems))
    if len(lines) == 1:
        return SpecError(f"{source}: {lines[0]}")
    return SpecError("\n  ".join([f"{source}: {len(lines)} problems", *lines]))


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong with a document, in one line: the place and what.

    For documents that a program wrote; a file of the user gets all its problems by `validate`.
    """
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}; was it cut off?"
    is_part = first["type"] != "missing" and not isinstance(first["input"], dict | list)
    found = f", not {first['input']!r:.80}" if is_part else ""
    place = "".join(f"{part}." for part in first["loc"]).rstrip(".")
    return f"{place}: {first['msg']}{found}" if place else f"{first['msg']}{found}"


def closest(word: str, allowed: Sequence[str]) -> str:
    """Return "; did you mean 'x'?" for a misspelt or shortened word, or an empty text.

    Example:
        >>> closest("timout", ["timeout", "threads"])
        "; did you mean 'timeout'?"
    """
    import difflib  # noqa: PLC0415 - only for mistakes

    close = difflib.get_close_matches(word, allowed, n=1)
    close += [one for one in allowed if word and one.startswith(word)]
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown_key(path: str, allowed: Sequence[str]) -> str:
    """Return the message for a key that does not exist."""
    hint = closest(path.rsplit(".", 1)[-1], allowed)
    return f"{path}: unknown key{hint or '; '}{' ' if hint else ''}allowed: {', '.join(allowed)}"


def show(value: object) -> str:
    """Return a value as TOML writes it, cut to a readable length."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."


def plain_words(text: str) -> str:
    """Return a message of pydantic's in our words.

    Example:
        >>> plain_words("Input should be a valid integer, unable to parse string as an integer")
        'must be a whole number'
    """
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    return text


def _explain(model: type[StrictModel], data: Mapping[str, Any], detail: ErrorDetails) -> str:
    """Return one line for one pydantic error."""
    loc = detail["loc"]
    path = _dotted(data, loc)
    if detail["type"] == "extra_forbidden":
        others = _tables_with(model, str(loc[-1]))
        if others and len(loc) <= 2:  # noqa: PLR2004 - a table and its key
            return f"{path}: unknown key; it stands in [{others[0]}]"
        if len(loc) > 1 and loc[-1] in _keys_at(model, ()):
            is_table = bool(_keys_at(model, loc[-1:]))
            where = f"is a table, [{loc[-1]}]" if is_table else "stands above all tables"
            return f"{path}: unknown key; it {where}"
        return unknown_key(path, _keys_at(model, loc[:-1]))
    if detail["type"] == "missing":
        return f"{path}: this key is required"
    text = _PLAIN.get(detail["type"]) or detail["msg"]
    text = plain_words(text)
    if isinstance(detail["input"], dict) or not path:
        return f"{path}: {text}" if path else text
    return f"{path} = {show(detail['input'])}: {text}"


def _is_echo(detail: ErrorDetails, details: Sequence[ErrorDetails]) -> bool:
    """Return whether an array only seems too short because its entries are wrong."""
    n_parts = len(detail["loc"])
    return detail["type"] == "too_short" and any(
        len(other["loc"]) > n_parts and other["loc"][:n_parts] == detail["loc"] for other in details
    )


def _dotted(data: object, loc: Sequence[str | int]) -> str:
    """Return a location as a dotted path; array entries with a name are shown by it."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            data = data[part] if isinstance(data, list) and part < len(data) else None
            name = data.get("name") if isinstance(data, dict) else None
            path += f".{name}" if isinstance(name, str) else f"[{part}]"
        else:
            data = data.get(part) if isinstance(data, dict) else None
            path += f".{part}" if path else part
    return path


def _tables_with(model: type[StrictModel], key: str) -> list[str]:
    """Return the tables at the top that may have a key."""
    return [table for table in model.model_fields if key in _keys_at(model, (table,))]


def _keys_at(model: type[StrictModel], loc: Sequence[str | int]) -> list[str]:
    """Return the keys that the table at a location may have."""
    kind: Any = model
    for part in loc:
        kind = _inner(_plain(kind), part)
    kind = _plain(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [field.alias or name for name, field in kind.model_fields.items()]
    return []


def _plain(kind: Any) -> Any:  # noqa: ANN401 - annotations have no common type
    """Strip Annotated and None from an annotation."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        return next(arg for arg in get_args(kind) if arg is not type(None))
    return kind


def _inner(kind: Any, part: str | int) -> Any:  # noqa: ANN401 - see _plain
    """Return the annotation one step further along a location."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return next((f.annotation for n, f in fields if part in {n, f.alias}), None)
    arguments = get_args(kind)
    return arguments[0 if isinstance(part, int) else -1] if arguments else None
