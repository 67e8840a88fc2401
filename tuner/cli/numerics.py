"""numpy with one thread for linear algebra.

The OpenBLAS in numpy's wheels starts a thread for each core when it is loaded, and they spin
while they wait for work.  The matrices of a campaign are too small for them, and what they spin
away is measured beside.

Source: OPENBLAS_NUM_THREADS, in the README of OpenBLAS.
"""

import os
from typing import Final

_THREADS: Final = "OPENBLAS_NUM_THREADS"


def import_numpy() -> None:
    """Import numpy before others do, unless the user has said how many threads it may start.

    What is started later does not see the variable.
    """
    is_ours = _THREADS not in os.environ
    if is_ours:
        os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401, ICN001 - for what it loads
    finally:
        if is_ours:
            del os.environ[_THREADS]
