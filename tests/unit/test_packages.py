"""packages.txt names packages that fit together on every release."""

import re
from pathlib import Path

LIST = Path(__file__).resolve().parents[2] / "packages.txt"


def rows() -> list[list[str]]:
    """Return groups, purpose and package of each line."""
    found = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return [row for row in found if row]


def test_what_benchmarks_compile_with_is_in_their_group():
    (groups,) = (groups for groups, word, _ in rows() if word == "clang")
    assert {"test", "bench"} <= set(groups.split(","))


def test_the_runtime_of_clang_is_that_of_the_default_clang():
    """Debian 12 also has libclang-rt-19-dev, which its clang 14 does not find."""
    packages = {word: package for _, word, package in rows()}
    assert not re.search(r"\d", packages["clang"] + packages["fuzzer"])
