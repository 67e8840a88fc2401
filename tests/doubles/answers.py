"""The file of an answer, as an optimisation leaves it."""

import json
from pathlib import Path
from typing import Any

from tuner.front.kept import ANSWER_SCHEMA, ANSWER_VERSION
from tuner.runs import ANSWER_FILE


def write_record(folder: Path, **fields: Any) -> None:
    """Write the answer to keep glibc, but for these fields."""
    record = {
        "schema": ANSWER_SCHEMA,
        "version": ANSWER_VERSION,
        "decision": "keep",
        "sentence": "Keep it.",
        "configuration": None,
        "trial": None,
        "changes": None,
        "command": ["./app"],
        "date": "2026-01-31",
        "runs": 43,
        "least_effect": 0.01,
        "text": [],
        "as_is": {"allocator": "glibc"},
        "subjects": [],
    }
    (folder / ANSWER_FILE).write_text(json.dumps({**record, **fields}))
