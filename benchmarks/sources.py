"""Folders and files of this repository that the figures of several benchmarks depend on."""

from typing import Final

EXGEN: Final = ("allocator/include", "allocator/src")
EMULATOR: Final = (
    *("rand_malloc/emulator", "rand_malloc/plugin", "rand_malloc/trace", "rand_malloc/profile"),
    *("tuner/measure", "tuner/objectives.py"),
)
SEARCH: Final = ("tuner/search", "tuner/campaign", "tuner/front", "tuner/space.py")
VALIDATE: Final = ("rand_malloc/supervise", "tuner/validate")
GEM5: Final = ("gem5-validate/machines", "gem5-validate/guests", "gem5-validate/run.py")
