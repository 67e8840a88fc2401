"""packages.txt names packages that fit together on every release."""

import re
from pathlib import Path

LIST = Path(__file__).resolve().parents[2] / "packages.txt"


def test_the_runtime_of_clang_is_that_of_the_default_clang():
    """Debian 12 also has libclang-rt-19-dev, which its clang 14 does not find."""
    rows = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
    packages = {row[1]: row[2] for row in rows if row}
    assert not re.search(r"\d", packages["clang"] + packages["fuzzer"])
