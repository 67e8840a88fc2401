"""Three settings of glibc, prepared for a validation."""

from tuner.records import Configuration
from tuner.store.subject import Subject
from tuner.validate.setup import Prepared

NAMES = ("base", "good", "other")


def of_glibc(name: str, refusal: str | None = None) -> Prepared:
    configuration = Configuration.of("glibc", {"mxfast": NAMES.index(name)})
    return Prepared(Subject(name, configuration, None, ("knee",)), {"NAME": name}, refusal)
