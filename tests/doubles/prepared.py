"""Three settings of glibc, prepared for a validation, and what counts their instructions."""

from collections.abc import Mapping, Sequence

from tuner.records import Configuration
from tuner.store.subject import Subject
from tuner.validate.setup import Prepared

NAMES = ("base", "good", "other")


def of_glibc(name: str, refusal: str | None = None) -> Prepared:
    configuration = Configuration.of("glibc", {"mxfast": NAMES.index(name)})
    return Prepared(Subject(name, configuration, None, ("knee",)), {"NAME": name}, refusal)


class Counter:
    def __init__(self, exit_status: int = 0) -> None:
        self.names: list[str] = []
        self.exit_status = exit_status

    def count(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float | None,
        exit_status: int | None = None,
    ) -> int | None:
        self.names.append(environment["NAME"])
        return 42 if exit_status in (None, self.exit_status) else None
