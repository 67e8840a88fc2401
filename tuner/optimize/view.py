"""What is called as an optimisation goes on; the default shows nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.optimize.proof.judgement import Standing
    from tuner.records import Trial


class View:
    """Shows nothing; what shows something derives from it."""

    def tell(self, line: str) -> None:
        """Show a line that stays: a stage ended."""

    def begin(self, stage: str, n_steps: int | None) -> None:
        """Begin a stage of so many steps, None where that is open."""

    def emulated(self, trial: Trial, expected: Mapping[str, float] | None) -> None:
        """Show that a setting was emulated, and what is expected of the program under it.

        Args:
            trial: of the campaign.
            expected: quantity -> log(setting / program as it is); None when that is not known.
        """

    def ran(self, subject: str, reason: str | None, n_left: int | None) -> None:
        """Show that a subject ran, why it failed if it did, and how many runs are left."""

    def standing(self, standings: Mapping[str, Standing], left: Sequence[str]) -> None:
        """Show what the rounds so far prove, and which candidates are left."""
