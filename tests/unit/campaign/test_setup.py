"""From a campaign file to how every evaluation is run, and on what."""

import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.runs import failed_trial, trial
from tests.doubles.traces import TraceMaker, write_mixed_trace
from tuner import library
from tuner.campaign import setup
from tuner.campaign.identity import differences
from tuner.campaign.setup import (
    CAMPAIGN_FILE,
    SHRUNK_FILE,
    emulation_options,
    open_campaign,
    with_workload,
)
from tuner.config import CampaignSpec, campaign_from_options, load_campaign
from tuner.emulation import Calibration
from tuner.errors import SpecError, StoreError, TraceError
from tuner.profile import file, trust
from tuner.profile.file import read_profile, workload_sha256
from tuner.records import Configuration, Status
from tuner.resources import native_file
from tuner.store import Store
from tuner.trace.file import Trace

ROOT = Path(__file__).resolve().parents[3]
PROFILE = ROOT / "configs/workloads/ghostscript-pages/ghostscript-pages.profile.json.zst"


def spec(objectives: list[str], **emulation: Any) -> CampaignSpec:
    return campaign_from_options(
        trace="app.trace", allocators=["glibc"], objectives=objectives, emulation=emulation
    )


@pytest.mark.parametrize(
    ("objectives", "threads", "asked", "instrument"),
    [
        (["mean_heap", "cost"], "baton", "auto", "qemu"),
        (["mean_heap", "cost"], "baton", "cachegrind", "cachegrind"),
        (["mean_heap", "faults"], "baton", "auto", "none"),
        (["mean_heap", "faults"], "baton", "cachegrind", "none"),
        (["mean_heap", "faults"], "free", "auto", "none"),
    ],
)
def test_an_instrument_runs_where_instructions_are_counted_only(
    monkeypatch: pytest.MonkeyPatch,
    objectives: list[str],
    threads: str,
    asked: str,
    instrument: str,
):
    monkeypatch.setattr(setup, "best_instrument", lambda: "qemu")

    options = emulation_options(spec(objectives, threads=threads, instrument=asked))

    assert options.instrument == instrument


@pytest.mark.parametrize(
    ("objectives", "threads", "with_latency"),
    [
        (["mean_heap", "p99_latency"], "baton", True),
        (["mean_heap", "p99_latency"], "free", False),
        (["mean_heap", "faults"], "baton", False),
    ],
)
def test_latency_takes_a_replay_of_its_own_where_threads_run_in_turn(
    objectives: list[str], threads: str, *, with_latency: bool
):
    found = emulation_options(spec(objectives, threads=threads))

    assert found.with_latency is with_latency


def test_the_limit_of_a_replay_is_in_seconds():
    assert emulation_options(spec(["mean_heap"], timeout="250 ms")).timeout_s == 0.25


def test_a_setting_that_is_named_and_cannot_act_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setup, "load_calibration", lambda: Calibration(1.0, 1.0))
    space = {"glibc": {"arena_max": [1, 2], "mxfast": [0], "hugetlb": "unset"}}
    wanted = campaign_from_options(
        trace=PROFILE, allocators=["glibc"], objectives=["peak_heap"], evaluations=1, space=space
    )

    campaign = open_campaign(wanted, tmp_path / "run")
    campaign.store.close()

    assert campaign.idle == ("space.glibc.arena_max is not searched: the workload has one thread",)


def test_versions_are_those_of_the_installed_libraries():
    found = setup.versions()

    assert found["numpy"] == metadata.version("numpy")
    assert found["pymoo"] == metadata.version("pymoo")


def test_another_build_of_an_allocator_is_another_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setup, "load_calibration", lambda: Calibration(1.0, 1.0))
    library = tmp_path / "libexgen.so"
    library.write_bytes(native_file("libexgen.so").read_bytes())
    wanted = campaign_from_options(
        trace=PROFILE, allocators=[f"exgen:{library}"], objectives=["peak_heap"], evaluations=1
    )
    records = []
    for name in ("a", "b"):
        with open_campaign(wanted, tmp_path / name).store as store:
            records.append(store.campaign())
        library.write_bytes(library.read_bytes() + b"another build")

    (line,) = differences(*records)
    assert line.startswith("versions.exgen library: was ")


def test_a_profile_is_parsed_once_and_its_events_are_never_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second parse, or a generation before the one to be read, is a share of a campaign."""
    parsed: list[Path] = []
    streamed: list[bool] = []

    def parse(path: Path) -> dict[str, Any]:
        parsed.append(path)
        return read_profile(path)

    class Watched(Trace):
        def __init__(self, path: Path, seed: int = 1, *, is_streamed: bool = False) -> None:
            if path == PROFILE:
                streamed.append(is_streamed)
            super().__init__(path, seed, is_streamed=is_streamed)

    for module in (file, trust):
        monkeypatch.setattr(module, "read_profile", parse)
    for name in ("tuner.profile.trust", "tuner.campaign.workloads", "tuner.profile.generated"):
        monkeypatch.setattr(f"{name}.Trace", Watched)
    monkeypatch.setattr(setup, "load_calibration", lambda: Calibration(1.0, 1.0))
    wanted = campaign_from_options(
        trace=PROFILE, allocators=["glibc"], objectives=["peak_heap", "mean_heap"], evaluations=1
    )

    used, workload = with_workload(wanted)
    campaign = open_campaign(used, tmp_path / "run", workload)
    with campaign.store as store:
        record = store.campaign()

    assert parsed == [PROFILE]
    assert streamed == [True]  # what it says, and what can act on it
    assert record.trace_sha256 == workload_sha256(PROFILE)
    with Trace(PROFILE) as trace:
        assert record.workload.n_events == trace.totals.n_events


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Begin or continue a campaign of so many evaluations; gives its run folder."""
    monkeypatch.setattr(setup, "load_calibration", lambda: Calibration(1.0, 1.0))
    maker = TraceMaker()
    maker.free(maker.allocate(64))
    workload = maker.write(tmp_path / "app.trace")

    def begin(evaluations: int, **options: Any) -> Path:
        wanted = campaign_from_options(
            trace=workload, allocators=["glibc"], objectives=["peak_heap", "mean_heap"],
            evaluations=evaluations, **options,
        )  # fmt: skip
        used, known = with_workload(wanted)
        open_campaign(used, tmp_path / "run", known).store.close()
        return tmp_path / "run"

    return begin


def test_a_campaign_that_was_extended_is_continued_by_its_folder(begun: Callable[[int], Path]):
    begun(5)
    extended, folder = library.read_campaign(begun(9), None, {})

    with open_campaign(extended, folder).store as store:
        assert (extended.evaluations, store.campaign().budget) == (9, 9)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"held_out_traces": ["gone.trace"]}, TraceError, "gone.trace"),
        ({"held_out_traces": ["copy.trace"]}, SpecError, "copy.trace has the content of"),
        ({"stop": {"target": ["peak_heap <= nan"]}}, SpecError, "nan"),
    ],
)
def test_what_counts_in_the_end_only_is_checked_first(
    begun: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    options: dict[str, Any],
    error: type[Exception],
    words: str,
):
    monkeypatch.chdir(tmp_path)
    shutil.copy("app.trace", "copy.trace")

    with pytest.raises(error, match=words):
        begun(5, **options)
    assert not (tmp_path / "run").exists()

    begun(5)
    with pytest.raises(error, match=words):
        begun(5, **options)


def test_another_campaign_that_measured_nothing_makes_room(begun: Callable[[int], Path]):
    """Such as one whose first trace was damaged, or whose first evaluation took too long."""
    folder = begun(9)
    (folder / SHRUNK_FILE).write_text("of the other campaign")
    with Store.open(folder, writable=True) as store:
        store.add_trial(failed_trial(0, Configuration("glibc"), Status.TIMED_OUT, "after 60 s"))

    begun(5)

    assert not (folder / SHRUNK_FILE).exists()
    assert load_campaign(folder / CAMPAIGN_FILE).evaluations == 5
    with Store.open(folder, writable=True) as store:
        assert store.campaign().budget == 5
        store.add_trial(trial(0, Configuration("glibc"), names=("peak_heap", "mean_heap")))
    with pytest.raises(StoreError, match=r"evaluations: was 5, is 3 \(it can only grow\)"):
        begun(3)


def test_a_damaged_trace_is_found_before_the_machine_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Prices take ten seconds; one whose file is damaged later than its beginning opens well."""
    trace = write_mixed_trace(tmp_path / "damaged.trace", 2, 20_000)
    content = bytearray(trace.read_bytes())
    content[len(content) // 2] ^= 1
    trace.write_bytes(content)
    monkeypatch.setattr(setup, "load_calibration", lambda: pytest.fail("measured"))
    spec = campaign_from_options(trace=trace, allocators=["glibc"], evaluations=1)

    with pytest.raises(TraceError, match="the checksum does not match; the file is damaged"):
        open_campaign(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_may_change_of_a_campaign_is_kept(begun: Callable[..., Path], tmp_path: Path):
    file = begun(5) / CAMPAIGN_FILE
    maker = TraceMaker()
    maker.free(maker.allocate(128))
    other = maker.write(tmp_path / "other.trace")

    begun(5, held_out_traces=[str(other)], stop={"time": "5 min"})

    kept = load_campaign(file)
    assert kept.held_out_traces == (other,)
    assert kept.stop.time_ns == 300 * 10**9


def test_a_campaign_file_that_a_kill_prevented_is_there_when_it_goes_on(
    begun: Callable[[int], Path],
):
    file = begun(5) / CAMPAIGN_FILE
    file.unlink()

    begun(5)

    assert load_campaign(file).evaluations == 5
