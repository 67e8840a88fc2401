"""What a message to a user looks like."""


def assert_is_one_line(message: str) -> None:
    """One line that says what to do, and nothing of the library that found the problem."""
    assert "\n" not in message
    assert "pydantic" not in message
    assert "validation error" not in message
    assert message.endswith("reinstall malloc-tuner")
