"""Proposals that do not wait for results: a strategy is asked while evaluations are under way.

In batches, the slowest evaluation of a batch holds all workers but its own.  Here a strategy is
told what has ended, and asked, whenever a worker is free and no proposal is left.

Which trials it was told before each time it was asked is committed first, so that a campaign that
goes on repeats the same calls and gets the same proposals.  What it was not told yet it is told
later; a trial that is lost is evaluated again and told then.

Guarantee: the same record of asks gives the same proposals.
Limits: the record, and with it the search, depends on which evaluation ended first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tuner.campaign.purchases import told_of
from tuner.campaign.studies import Study
from tuner.records import Configuration, Trial
from tuner.search import Told
from tuner.space import Genome
from tuner.store import Store


class Ahead:
    """The strategies of a campaign, and what each was told."""

    def __init__(
        self,
        studies: Sequence[Study],
        store: Store,
        ended: Sequence[Trial],
        on_asked: Callable[[Study, Sequence[Configuration]], None] = lambda *_: None,
    ) -> None:
        """Ask nothing yet.

        Args:
            studies: they take turns.
            store: keeps when they were asked; holds the record of a campaign that goes on.
            ended: trials that were made before the search.
            on_asked: called with what a study proposes, before the first of it is taken.
        """
        self._record = store.campaign()
        self._on_asked = on_asked
        self._studies = studies
        self._store = store
        self._recorded = store.asks()
        self._trials = {trial.number: trial for trial in ended}
        self._untold = dict.fromkeys(self._trials)
        self._places: dict[Configuration, tuple[Study, Genome]] = {}

    def add(self, trial: Trial) -> None:
        """Take note of a trial that ended, or was found in the store."""
        self._trials[trial.number] = trial
        self._untold[trial.number] = None

    def proposals(self) -> Iterator[Configuration]:
        """Yield what is to be evaluated next; a strategy is asked when the next one is taken.

        Ends when every space is exhausted.
        """
        waiting = list(self._studies)
        position = 0
        while waiting:
            for study in list(waiting):
                genomes = self._ask(study, position)
                position += 1
                if not genomes:
                    waiting.remove(study)
                    continue
                found = [study.space.decode(genome) for genome in genomes]
                self._places |= {c: (study, g) for c, g in zip(found, genomes, strict=True)}
                self._on_asked(study, found)
                yield from found

    def _ask(self, study: Study, position: int) -> list[Genome]:
        """Tell a study what it does not know, as recorded or all that has ended, and ask it."""
        if position < len(self._recorded):
            numbers: Sequence[int] = self._recorded[position]
        else:
            numbers = [number for number in self._untold if self._belongs(number, study)]
            self._store.add_ask(numbers)
        study.strategy.tell([self._told(number) for number in numbers])
        return study.strategy.ask()

    def _belongs(self, number: int, study: Study) -> bool:
        place = self._places.get(self._trials[number].configuration)
        return place is not None and place[0] is study

    def _told(self, number: int) -> Told:
        trial = self._trials[number]
        del self._untold[number]
        _, genome = self._places[trial.configuration]
        return told_of(self._record, genome, trial)
