"""exgen, our own malloc: configured by EXGEN_CONF, read back from its own account of itself.

The library comes with malloc-tuner, in two builds: `Exgen` for every program, `ExgenSt` for
programs with one thread, which ends a program whose second thread calls in.  A search adds
abort_conf:true, so that a bad entry ends the test program; in an exported file it would
stop a service after an upgrade that drops a setting.  Values that do not fit together are
cut back in silence by design; the account says what they became.

Source: allocator/include/exgen.h, exgen_config_json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.allocators.base import Allocator
from tuner.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.allocators.facts import WorkloadFacts
    from tuner.allocators.probe import ProbeReport
    from tuner.config import ParameterSpec
    from tuner.records import Value

_TIMER = "timer"
"""Setting of a thread of the library, which libexgen-st.so has not."""


class Exgen(Allocator):
    """Adapter of libexgen.so."""

    def version_of(self, report: ProbeReport) -> str:
        """Return the version, if it is this of the two libraries."""
        account = report.of("exgen")
        return str(account["version"]) if account.get("library") == self.name else ""

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return every setting by name, with what the others left of it."""
        account = report.of("exgen")
        return {**account["options"], **_cut_back(account["options"], account["derived"])}


class ExgenSt(Exgen):
    """Adapter of libexgen-st.so."""

    def _known(self, version: str) -> list[ParameterSpec]:
        return [spec for spec in super()._known(version) if spec.name != _TIMER]

    def effective(self, report: ProbeReport) -> dict[str, Value]:
        """Return the settings but those about threads, which this library ignores."""
        about_threads = {p.name for p in self.file.parameters if "threads" in p.requires}
        about_threads.add(_TIMER)
        found = super().effective(report)
        return {name: value for name, value in found.items() if name not in about_threads}

    def check_workload(self, workload: WorkloadFacts) -> None:
        """Refuse a workload with threads: the library would end it.

        Raises:
            SpecError: more than one thread allocates.
        """
        if workload.n_threads > 1:
            raise SpecError(
                f"exgen-st serves programs with one thread, and in this trace "
                f"{workload.n_threads} threads allocate; use exgen"
            )


def _cut_back(options: Mapping[str, Any], derived: Mapping[str, Any]) -> dict[str, Value]:
    """Return the settings that others cut back, a small superblock above all.

    A step of trays that leaves no room for one is 0: there are no trays.

    Example:
        >>> _cut_back({"small_max": 32768, "tray_max": 65536, "tray_step": 1024,
        ...            "large_min": 524288, "slab_units_max": 32, "remote_batch": 1024},
        ...           {"largest_small_bytes": 4096, "largest_tray_bytes": 32768,
        ...            "largest_run_bytes": 524287, "most_slab_units": 16, "most_batch": 512}
        ... )  # doctest: +NORMALIZE_WHITESPACE
        {'small_max': 4096, 'tray_max': 32768, 'large_min': 524288, 'tray_step': 1024,
        'slab_units_max': 16, 'remote_batch': 512}
    """
    has_trays = options["tray_max"] == 0 or derived["largest_tray_bytes"] > 0
    return {
        "small_max": min(options["small_max"], derived["largest_small_bytes"]),
        "tray_max": min(options["tray_max"], derived["largest_tray_bytes"]),
        "large_min": min(options["large_min"], derived["largest_run_bytes"] + 1),
        "tray_step": options["tray_step"] if has_trays else 0,
        "slab_units_max": _at_most(options["slab_units_max"], derived.get("most_slab_units")),
        "remote_batch": _at_most(options["remote_batch"], derived.get("most_batch")),
    }


def _at_most(asked: int, bound: int | None) -> int:
    """Cut back at a bound; libraries before 0.2 do not report it."""
    return asked if bound is None else min(asked, bound)
