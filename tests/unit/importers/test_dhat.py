"""valgrind --tool=dhat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.heap_profiles import refuse_profile


def dhat(**changes: Any) -> str:
    """Return a DHAT file of one site, with members changed, of the site or the file."""
    site = {
        "tb": 100,
        "tbk": 4,
        "tl": 40,
        "mb": 50,
        "mbk": 2,
        "gb": 25,
        "gbk": 1,
        "eb": 0,
        "ebk": 0,
    }
    document = {"dhatFileVersion": 2, "mode": "heap", "bklt": True, "tu": "instrs", "te": 100,
                "tg": 50, "cmd": "app"}  # fmt: skip
    site |= {name: value for name, value in changes.items() if name in site}
    document |= {name: value for name, value in changes.items() if name not in site}
    return json.dumps({**document, "pps": changes.get("pps", [site])})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (dhat(tb=-1), "pps.0.tb: Input should be greater than or equal to 0, not -1"),
        (dhat(tl=1.5), "pps.0.tl: Input should be a valid integer, not 1.5"),
        (dhat(tbk=True), "pps.0.tbk: Input should be a valid integer, not True"),
        (dhat(gbk=5), "more blocks alive than it ever allocated"),
        (dhat(eb=101), "more bytes alive than it ever allocated"),
        (dhat(tg=101), "a peak that is not between start and end"),
        (dhat(te=0, tg=0), "a peak that is not between start and end"),
        (dhat(pps=[]), "no call site that allocated"),
        (dhat(pps=[3]), "pps.0: Input should be an object, not 3"),
        (dhat(pps=4), "pps: Input should be a valid array, not 4"),
        (dhat(dhatFileVersion=3), "dhatFileVersion: Input should be 2, not 3"),
        (dhat(mode="copy"), "mode: Input should be 'heap', not 'copy'"),
        (dhat(tu="weeks"), "tu: Input should be 'instrs' or 'ms', not 'weeks'"),
        (dhat(tbk=10**9), "more than 100,000,000 blocks"),
        (dhat()[:-9], "not JSON"),
    ],
)
def test_malformed_profiles_of_dhat_are_one_error(tmp_path: Path, text: str, message: str) -> None:
    refuse_profile(tmp_path, text, message)
