"""A program is known by its name, and what differs from what was recorded is said."""

import pytest

from tuner.trace.program import Recorded, behind_shell

RECORDED = Recorded(("/opt/bin/app", "data"), 0)


@pytest.mark.parametrize(
    ("command", "is_same"),
    [
        (("app", "data"), True),
        (("./app", "other"), True),
        (("sh", "-c", "app data"), False),
        (("sh", "-c", "rm -f x; exec ./app <in"), True),
        (("sh", "-c", "exec other"), False),
        (("sh", "-c", "exec 'app"), False),
        (("sh", "-c", "exec <app"), False),
        (("sh", "-c", "exec 2>app; ./app"), False),
    ],
)
def test_a_program_is_known_by_its_name(command: tuple[str, ...], *, is_same: bool):
    assert RECORDED.is_run_by(command) is is_same


def test_a_shell_that_only_redirects_by_exec_stays_the_program():
    command = ("sh", "-c", "exec 2>err.log; ./server")
    assert behind_shell(command) == command


def test_what_differs_is_said():
    assert RECORDED.differs_from(("app", "data")) == ""
    assert RECORDED.differs_from(["bash", "-c", "exec app data <in"]) == ""
    assert RECORDED.differs_from(["sh", "-c", "exec app data 2>log"]) == ""
    assert "other arguments than recorded" in RECORDED.differs_from(("app", "more"))
    assert "other arguments" in RECORDED.differs_from(("sh", "-c", "rm 2>log; exec app data 2"))
    assert "other arguments" in RECORDED.differs_from(("sh", "-c", "exec app data 2 >log"))
    assert "other arguments" in RECORDED.differs_from(("sh", "-c", "exec app more < in"))
    assert "another program than the recorded one" in RECORDED.differs_from(("true",))
    assert Recorded((), 0).is_run_by(("true",)) is None
