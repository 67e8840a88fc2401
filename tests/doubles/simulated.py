"""What real gem5s left of simulations."""

from typing import Final

from tests.doubles.places import DATA
from tuner.measure.gem5 import Gem5Result
from tuner.zstd import decompress

_FOLDER: Final = DATA / "gem5"


def _text(name: str) -> str:
    return decompress((_FOLDER / f"{name}.txt.zst").read_bytes()).decode()


STATISTICS: Final = _text("stats")
"""Of gem5 24.0.0.1: blocks 200 on machines/atomic.json."""

RESULT: Final = Gem5Result.model_validate_json((_FOLDER / "result.json").read_bytes())
"""Of the same simulation."""

STATISTICS_OF_TWO_CORES: Final = _text("inside-two-cores")
"""Two threads on two out-of-order cores, each with L1 and L2, the L3 shared; gem5 24.0."""
