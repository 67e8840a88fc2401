"""Where runs are short, the program goes on where emulation ended: further settings by runs alone.

Emulation proposes what it sees, and is through with that after a part of the time.  A program of
some hundredths of a second can run hundreds of settings in the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tuner.optimize.choosing.candidates import Choosing
from tuner.optimize.choosing.direct import DirectSearch
from tuner.optimize.choosing.direct_plan import SHARE_OF_LOOKS, SHARE_OF_TIME, Before
from tuner.optimize.choosing.proposals import Proposal
from tuner.optimize.choosing.selected import Selected
from tuner.optimize.tuned import Reference
from tuner.optimize.work import Work, search_seconds
from tuner.records import Configuration
from tuner.space import Parameter, Space, joint_space

_SHARE_IF_NEAR: Final = 0.45
"""Of the time, until which it goes on where a setting is worth confirming; else the answer is that
none is, and comes sooner."""

_MOST_IF_NEAR: Final = 0.6
_RUNS_TO_CONFIRM: Final = 400
"""The same where runs are so short that there is time for these after it: a hundred rounds of the
program and three candidates."""

_FEWEST_RUNS: Final = 24
"""That there must be time for: three generations."""


class Exploring:
    """Chooses candidates by emulation and runs, and then by more runs."""

    def __init__(
        self, work: Work, reference: Reference, choosing: Choosing, parameters: Sequence[Parameter]
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            work: the optimisation.
            reference: the program as it is.
            choosing: chooses by emulation.
            parameters: what emulation searched.
        """
        self._work = work
        self._reference = reference
        self._choosing = choosing
        self._parameters = parameters
        self._search: DirectSearch | None = None

    @property
    def proposals(self) -> Sequence[Proposal]:
        """What emulation expects of every setting."""
        return self._choosing.proposals

    def select(self, n_possible: int, without: Collection[Configuration] = ()) -> Selected:
        """Run what emulation proposes, and more where there is time.

        Args:
            n_possible: runs that there is time for, those of the confirmation too.
            without: candidates that are out.
        """
        found = self._choosing.select(n_possible, without)
        is_near = self._choosing.is_any_near(found)
        share_if_near = self._share_if_near()
        share = share_if_near if is_near else SHARE_OF_TIME
        n_runs = self._n_more(share)
        if found.changes and (self._work.is_explored or n_runs >= _FEWEST_RUNS):
            before = Before(found, share, share_if_near, self._choosing.proposals)
            search = DirectSearch(self._work, self._reference, self._space_of, before)
            explored = search.select(self._n_more(share + SHARE_OF_LOOKS))
            if explored.labels:  # else no allocator can be searched
                self._search, found = search, explored
        return found

    def finalists(
        self, selected: Selected, without: Collection[Configuration] = ()
    ) -> dict[str, Configuration]:
        """Return the candidates to confirm, by label."""
        return (self._search or self._choosing).finalists(selected, without)

    @property
    def n_waiting(self) -> int:
        """How many of the finalists, the last ones, run where one before them is out."""
        return self._search.n_waiting if self._search else 0

    def smaller(self, configuration: Configuration) -> Iterator[Configuration]:
        """Yield what may stand for a candidate, with fewer settings, by all runs so far."""
        if self._search:
            yield from self._search.smaller(configuration)

    def _share_if_near(self) -> float:
        confirming_s = _RUNS_TO_CONFIRM * self._work.run_seconds(self._reference)
        share = 1.0 - SHARE_OF_LOOKS - confirming_s / self._work.watch.seconds
        return min(max(share, _SHARE_IF_NEAR), _MOST_IF_NEAR)

    def _n_more(self, share: float) -> int:
        """Return for how many runs there is time until a share of it is used."""
        watch = self._work.watch
        if self._work.request.service is not None or self._work.is_chosen:
            return 0
        left_s = share * watch.seconds - watch.used_s
        return int(left_s / search_seconds(self._work, self._reference))

    def _space_of(self, names: Sequence[str]) -> Space:
        """Return what emulation searched of some allocators."""
        return joint_space(
            {
                name: [one for one in self._parameters if one.name.startswith(f"{name}.")]
                for name in names
            }
        )
