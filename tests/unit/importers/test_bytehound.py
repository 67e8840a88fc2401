"""bytehound."""

import json
from pathlib import Path

from tests.doubles import calls as doubles
from tests.doubles.imported import A_FEW, import_bytes


def test_blocks_of_a_bytehound_list_that_is_not_whole_are_counted(tmp_path: Path):
    content = json.loads(doubles.as_bytehound(A_FEW)) | {"total_count": 1000}
    imported, _ = import_bytes(tmp_path, json.dumps(content).encode())

    assert "allocations that the file counts but does not list: 995" in imported.lost
