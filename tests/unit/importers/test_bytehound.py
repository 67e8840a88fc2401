"""bytehound."""

import json
from pathlib import Path

import pytest

from tests.doubles import calls as doubles
from tests.doubles.imported import A_FEW, import_bytes, refuse


def test_blocks_of_a_bytehound_list_that_is_not_whole_are_counted(tmp_path: Path) -> None:
    content = json.loads(doubles.as_bytehound(A_FEW)) | {"total_count": 1000}
    imported, _ = import_bytes(tmp_path, json.dumps(content).encode())

    assert "allocations that the file counts but does not list: 995" in imported.lost


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", r": allocations: Field required"),
        ('{"allocations": [{"size": 1}]}', r": allocations.0.timestamp: Field required"),
        ('{"allocations": [{"si', r": not JSON: EOF .*; was it cut off"),
        ('{"allocations": [5]}', r": allocations.0: Input should be an object, not 5"),
        ('{"allocations": []}', r": no allocation in it"),
    ],
)
def test_a_malformed_file_is_one_error_that_says_where(
    tmp_path: Path, content: str, message: str
) -> None:
    refuse(tmp_path, "bytehound", content, message)
