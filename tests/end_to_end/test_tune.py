"""`malloc-tuner tune` with the real emulator and allocators: first run, again, extended."""

import json
import shutil
from pathlib import Path

import pytest

from tests.doubles.command_line import CommandLine
from tests.doubles.traces import write_mixed_trace
from tuner.allocators import HostFacts
from tuner.cli.main import run
from tuner.config import load_campaign
from tuner.errors import OutputError, SelectionError, StoreError, TraceError
from tuner.machine import read_machine
from tuner.records import Origin, Status
from tuner.store import FINISHED, STORE_NAME, Store

pytestmark = pytest.mark.end_to_end

N_FIRST = 12


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mixed_trace(tmp_path_factory.mktemp("tune") / "mixed.trace", 2, 1500)


def words_of(trace: Path, folder: Path, *words: str) -> list[str]:
    options = ["--allocators", "glibc,jemalloc", "--evaluations", str(N_FIRST), "-o", str(folder)]
    return ["tune", "--trace", str(trace), *options, *words]


def tune(trace: Path, folder: Path, *words: str) -> int:
    return run(words_of(trace, folder, *words))


@pytest.fixture(scope="module")
def finished(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert tune(trace, folder, "--quiet") == 0
    return folder


def test_a_campaign_that_nothing_fits_says_what_excludes_the_nearest(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "tight"
    words = ("--constraint", "mean_heap <= 1 KiB", "--quiet")

    assert tune(trace, folder, *words) == SelectionError.exit_code

    out, err = capsys.readouterr()
    assert "12 configurations measured, 12 break a constraint; 0 points on the front" in out
    assert "malloc-tuner pick" not in out
    assert "the nearest is trial" in err
    assert "'mean_heap <= 1 KiB' allows (1.0 KiB)" in err
    assert run(["front", str(folder), "--all"]) == 0


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


def test_the_store_has_defaults_first_and_real_numbers(finished: Path):
    with Store.open(finished) as store:
        trials, rechecks, record = store.trials(), store.rechecks(), store.campaign()

    assert len(trials) == N_FIRST
    assert [trial.origin for trial in trials[:2]] == [Origin.DEFAULT] * 2
    assert [trial.status for trial in trials[:2]] == [Status.OK] * 2
    for trial in trials:
        if trial.measurement is not None:
            assert trial.measurement["instructions"]
            assert len(trial.measurement.curve) > 1
    assert record.status == FINISHED
    assert rechecks
    assert record.emulation.instrument in ("perf", "qemu", "cachegrind")
    assert {"malloc-tuner", "rand_malloc", "python", "numpy", "pymoo"} <= set(record.versions)
    assert record.prices.c_fault > 0


def test_the_campaign_file_of_the_run_says_what_was_done(finished: Path, trace: Path):
    spec = load_campaign(finished / "campaign.toml")

    assert (N_FIRST, trace) == (spec.evaluations, spec.trace)


def test_the_same_command_again_changes_nothing(
    copy: Path, trace: Path, capsys: pytest.CaptureFixture[str]
):
    with Store.open(copy) as store:
        before = store.trials(), store.rechecks()

    assert tune(trace, copy) == 0

    with Store.open(copy) as store:
        assert before == (store.trials(), store.rechecks())
    out, err = capsys.readouterr()
    assert "continuing after 12" in err
    for words in ("12 configurations measured", "on the front", f"report {copy}"):
        assert words in out


def test_more_evaluations_extend_the_run(copy: Path):
    with Store.open(copy) as store:
        before = store.trials()

    assert run(["tune", str(copy), "--evaluations", str(N_FIRST + 3), "-q"]) == 0

    with Store.open(copy) as store:
        after = store.trials()
        assert store.campaign().budget == N_FIRST + 3
    assert before == after[:N_FIRST]
    assert len(after) == N_FIRST + 3


def test_a_profile_is_replayed_as_emulate_does(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    profile, folder = tmp_path / "mixed.profile.json", tmp_path / "run"
    assert run(["fit", str(trace), "-o", str(profile)]) == 0

    assert tune(profile, folder, "--quiet") == 0

    with Store.open(folder) as store:
        (default, *_) = store.trials()
    capsys.readouterr()
    assert run(["emulate", str(profile), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"][0]["measurement"]
    assert default.measurement is not None
    assert default.measurement["peak_heap"] == found["peak_heap_bytes"]
    assert default.measurement["instructions"] == found["instructions"]


def test_another_campaign_is_refused_with_the_differences(
    copy: Path, trace: Path, cli: CommandLine
):
    words = words_of(trace, copy, "--seed", "5", "--objectives", "peak_heap,cost")
    message = cli.fails(StoreError.exit_code, *words)

    assert "objectives: was [mean_heap, cost], is [peak_heap, cost]" in message
    assert "seed: was 1, is 5" in message


def test_another_trace_is_refused(copy: Path, tmp_path: Path, cli: CommandLine):
    words = words_of(write_mixed_trace(tmp_path / "mixed.trace", 2, 1600), copy)
    assert "content of the trace: was" in cli.fails(StoreError.exit_code, *words)


def test_a_locked_store_is_refused(copy: Path, trace: Path, cli: CommandLine):
    with Store.open(copy, writable=True):
        assert "locked by pid" in cli.fails(StoreError.exit_code, *words_of(trace, copy))


def test_a_corrupt_store_is_refused(copy: Path, trace: Path, cli: CommandLine):
    (copy / STORE_NAME).write_bytes(b"not a database, but long enough to be read as one" * 200)

    assert "damaged" in cli.fails(StoreError.exit_code, *words_of(trace, copy))


def test_a_trace_without_events_leaves_no_store(trace: Path, tmp_path: Path, cli: CommandLine):
    content = trace.read_bytes()
    (tmp_path / "cut.trace").write_bytes(content[: len(content) // 2])

    words = words_of(tmp_path / "cut.trace", tmp_path / "run")
    assert "the file was cut off after" in cli.fails(TraceError.exit_code, *words)
    assert not (tmp_path / "run" / STORE_NAME).exists()


def test_a_run_folder_that_cannot_be_made_is_named(trace: Path, tmp_path: Path, cli: CommandLine):
    (tmp_path / "file").write_text("in the way")

    words = words_of(trace, tmp_path / "file" / "run")
    assert "cannot be created" in cli.fails(OutputError.exit_code, *words)


def test_huge_pages_are_as_the_machine_is_set_and_searched_where_they_are(finished: Path):
    with Store.open(finished) as store:
        record = store.campaign()

    names = {gene.name for gene in record.space}
    assert record.emulation.thp == "keep"
    assert record.machine == read_machine()
    assert "jemalloc.dirty_decay_ms" in names
    assert ("jemalloc.metadata_thp" in names) == (HostFacts.detect().thp_mode != "never")


def test_campaign_goes_on_with_the_huge_pages_it_began_with(trace: Path, tmp_path: Path):
    run = tmp_path / "never"
    assert tune(trace, run, "--quiet", "--thp", "never") == 0
    assert tune(trace, run, "--quiet") == 0
    with Store.open(run) as store:
        record = store.campaign()

    names = {gene.name for gene in record.space}
    assert record.emulation.thp == "never"
    assert not {"jemalloc.thp", "jemalloc.metadata_thp", "glibc.hugetlb"} & names


def test_campaign_keeps_the_prices_it_began_with(
    copy: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def measured_again() -> None:
        raise AssertionError("prices were measured for a campaign that has its own")

    monkeypatch.setattr("tuner.campaign.setup.load_calibration", measured_again)

    assert tune(trace, copy) == 0
    assert "malloc-tuner: a page fault costs" in capsys.readouterr().err
    with Store.open(copy) as store:
        record = store.campaign()
    assert record.prices.c_fault_interval is not None
    low, high = record.prices.c_fault_interval
    assert low <= record.prices.c_fault <= high


def test_several_traces_are_tuned_for_at_once(
    finished: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = write_mixed_trace(tmp_path / "other.trace", 2, 6000)

    assert tune(trace, tmp_path / "both", "--quiet", "--further-trace", str(other)) == 0
    with Store.open(finished) as one, Store.open(tmp_path / "both") as both:
        alone, joined = one.trials()[0].measurement, both.trials()[0].measurement
        further = both.campaign().workload.further
    assert alone is not None
    assert joined is not None
    assert joined.value("peak_live") > alone.value("peak_live")
    assert [entry.path for entry in further] == [str(other)]

    assert StoreError.exit_code == tune(trace, tmp_path / "both")
    assert "workload.further: was [" in capsys.readouterr().err
