"""Malloc labs."""

from tuner.importers.malloc_lab import FORMAT


def test_a_head_may_have_blank_lines_and_what_has_only_these_is_passed_over_at_once():
    """It would take years where they can be divided among the lines of the head in all ways."""
    assert FORMAT.recognise(b"\n9\n\n 2 \n1\n1\n\na 0 5\n")
    assert not FORMAT.recognise(b"1\n2\n3" + b"\n" * 60_000)
