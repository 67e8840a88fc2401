"""The command line, run in this process."""

import pytest

from tuner.cli import main


class CommandLine:
    """Runs commands, whose words may be paths and numbers, and returns what they print."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def run(self, *words: object, code: int = 0) -> tuple[str, str]:
        """Run a command that must end with this code."""
        assert main.run([str(word) for word in words]) == code
        return self._capture.readouterr()

    def prints(self, *words: object) -> str:
        """Run a command that must succeed, and has nothing to say beside its output."""
        out, err = self.run(*words)
        assert err == ""
        return out

    def fails(self, code: int, *words: object) -> str:
        """Run a command that must fail and have no output; return its message."""
        out, err = self.run(*words, code=code)
        assert out == ""
        return err
