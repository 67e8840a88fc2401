"""Profiles as files: packed or not, whole or damaged."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.doubles.places import ROOT
from tuner import zstd
from tuner.errors import TraceError
from tuner.profile.file import is_profile, read_profile, workload_sha256, write_profile
from tuner.trace.file import Trace

PROFILE = ROOT / "configs/workloads/pigz-threads/pigz-threads.profile.json.zst"


@pytest.mark.parametrize("name", ["app.profile.json.zst", "app.profile.toml.zst"])
def test_a_packed_profile_is_the_same_workload(tmp_path: Path, name: str):
    plain, packed = tmp_path / "app.profile.json", tmp_path / name
    write_profile(plain, read_profile(PROFILE))
    write_profile(packed, read_profile(plain))

    assert packed.stat().st_size < plain.stat().st_size / 4
    assert is_profile(packed)
    assert workload_sha256(packed) == workload_sha256(plain)
    with Trace(packed) as unpacked, Trace(plain) as expected:
        assert unpacked.level == expected.level
        assert np.array_equal(unpacked.read_all(), expected.read_all())


def test_the_digest_is_of_the_members_without_the_verdict_and_without_what_is_none(tmp_path: Path):
    """Stores keep it: it must stay what it was, whatever makes it faster."""
    path = tmp_path / "app.profile.json"
    path.write_text(
        '{"version": 4, "schema": "malloc-tuner.profile", "fidelity": {"seeds": 1}, "end_ns": null,'
        ' "kinds": [{"size": 8, "site": null}, {"size": [1, null, 2.5]}], "level": "null"}',
        encoding="utf-8",
    )
    plain = (
        '{"kinds": [{"size": 8}, {"size": [1, 2.5]}], "level": "null", '
        '"schema": "malloc-tuner.profile", "version": 4}'
    )

    assert workload_sha256(path) == hashlib.sha256(plain.encode()).hexdigest()


def test_a_streamed_profile_has_the_same_events_and_in_the_end_the_same_totals():
    with Trace(PROFILE, 7) as kept, Trace(PROFILE, 7, is_streamed=True) as streamed:
        assert streamed.totals.n_events == kept.totals.n_events
        assert streamed.metadata == kept.metadata
        assert np.array_equal(streamed.read_all(), kept.read_all())
        assert streamed.read_totals() == kept.totals


def damaged(packed: bytes) -> bytes:
    return packed[:-10]


def scrambled(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes(64) + packed[middle + 64 :]


def of_another_kind(packed: bytes) -> bytes:
    del packed
    return zstd.compress(b"not a profile")


def too_large(packed: bytes) -> bytes:
    del packed
    return zstd.compress(bytes((1 << 28) + 1))


@pytest.mark.parametrize("damage", [damaged, scrambled, of_another_kind, too_large])
def test_a_packed_file_that_holds_no_profile_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
):
    packed = tmp_path / "app.profile.json.zst"
    write_profile(packed, read_profile(PROFILE))
    packed.write_bytes(damage(packed.read_bytes()))

    with pytest.raises(TraceError, match=r"app\.profile\.json\.zst: "):
        read_profile(packed)
    with pytest.raises(TraceError, match=r"app\.profile\.json\.zst: "):
        Trace(packed)
