"""A clock that a test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands still unless moved, or moves on by a step with each look at it."""

    now_s: float = 0.0
    step_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s
