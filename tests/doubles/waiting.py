"""Wait for what another thread or process does, however long a busy machine takes.

Nothing here knows a limit: a test that hangs is ended by pytest's faulthandler_timeout
(pyproject.toml), which shows where.
"""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object]) -> None:
    """Return as soon as the condition is true; look every few milliseconds."""
    while not holds():
        time.sleep(0.005)
