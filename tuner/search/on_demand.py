"""A stand-in for a library's module: imported in full when one of its functions is called.

For libraries that import, at the top of a module, what only a few of their functions need.
Functions taken from the module in the meantime work as the module's own; classes and
constants do not.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """Knows its name, and what to import for each of its functions."""

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """Return a function that imports the module and calls the real one."""
        if function.startswith("__"):
            raise AttributeError(function)
        module = self.__name__

        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever the real one takes
            return getattr(importlib.import_module(module), function)(*arguments, **options)

        return call


@contextlib.contextmanager
def imported_on_demand(module: str) -> Iterator[None]:
    """Let what is imported in the block have a stand-in for a module that is not imported yet.

    Args:
        module: full name, such as ``scipy.spatial.distance``.
    """
    if module in sys.modules:
        yield
        return
    sys.modules[module] = _StandIn(module)
    try:
        yield
    finally:
        del sys.modules[module]
