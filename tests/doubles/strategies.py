"""The strategies whose libraries are installed."""

from importlib.util import find_spec

from tuner.registry import STRATEGIES

INSTALLED = [n for n, entry in STRATEGIES.items() if find_spec(entry.distribution or "numpy")]
"""Names; all of them where the extra ``test`` is installed."""

IN_EITHER_SEARCH = [
    *((name, "joint") for name in INSTALLED),
    ("auto", "separate"),
    ("nsga2", "separate"),
]
"""Each strategy in one study, and some in a study for each allocator."""

LEARNERS = [name for name in INSTALLED if name not in ("random", "exhaustive")]
"""Those that learn from results."""
