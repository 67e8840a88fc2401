"""`malloc-tuner presets`: list settings that suit many programs, ready to export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.epilog import epilog
from tuner.errors import SpecError

if TYPE_CHECKING:  # reading it imports what does the work; --help must not
    from collections.abc import Mapping

    from tuner.spec.preset import Preset, PresetGain

SCHEMA = "malloc-tuner.presets"
VERSION = 1
"""Schema and version of the JSON output."""

_NONE = (
    "No preset ships: none was better than exgen's default on real programs "
    "(docs/decisions/exgen.md).\n"
    "Tune for your program with `malloc-tuner tune`, or export a preset of your own with "
    "`malloc-tuner export --preset FILE.toml`."
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(
        "presets",
        help="List the shipped settings that suit many programs, and what they gain.",
        epilog=epilog(
            "malloc-tuner presets",
            "malloc-tuner export --preset mine.toml --format env -o malloc.env",
            errors=(SpecError,),
        ),
    )
    def presets(
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        from tuner.spec.preset import shipped_presets

        found = list(shipped_presets())
        if as_json:
            print(json.dumps(_document(found), indent=2))
        else:
            print("\n\n".join(map(_as_text, found)) or _NONE)


def _as_text(preset: Preset) -> str:
    text = (
        f"{preset.name}: {preset.purpose}\n"
        f"  {preset.configuration}\n"
        f"  {_gains(preset.gains)} against the default of {preset.baseline}, "
        f"geometric mean of {len(preset.gains)} emulated workloads"
    )
    if preset.default_gains:
        text += f"\n  {_gains(preset.default_gains)} with the default of {preset.allocator}"
    return text


def _gains(gains: Mapping[str, PresetGain]) -> str:
    from tuner.spec.preset import mean_gain

    return ", ".join(
        f"{label} {(mean_gain(gains, objective) - 1.0) * 100.0:+.1f} %"
        for objective, label in (
            ("mean_heap", "mean heap"),
            ("peak_heap", "peak"),
            ("cost", "cost"),
        )
    )


def _document(presets: list[Preset]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "presets": [
            {
                "name": preset.name,
                "purpose": preset.purpose,
                "allocator": preset.allocator,
                "settings": preset.settings,
                "baseline": preset.baseline,
                "gains": {name: gain.model_dump() for name, gain in preset.gains.items()},
                "default_gains": {
                    name: gain.model_dump() for name, gain in preset.default_gains.items()
                },
                "found_on": preset.found_on,
                "found_by": preset.found_by,
            }
            for preset in presets
        ],
    }
