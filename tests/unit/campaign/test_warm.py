"""Which earlier campaign a new one starts from, and with what."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.runs import LEVELS, synthetic_run, write_run
from tests.doubles.traces import TraceMaker
from tuner.campaign.setup import open_campaign, with_workload
from tuner.campaign.warm import MOST_SEEDS, distance, shape_of, warm_start
from tuner.cli import main
from tuner.config import CampaignSpec, campaign_from_options
from tuner.errors import SpecError
from tuner.front.dominance import front
from tuner.profile.file import workload_sha256
from tuner.runs import Run
from tuner.space import Parameter, Space, joint_space
from tuner.store import Store


def trace(path: Path, *sizes: int) -> Path:
    maker = TraceMaker()
    for size in sizes:
        maker.free(maker.allocate(size))
    return maker.write(path)


def earlier(folder: Path, workload: Path, seed: int = 1, **options: object) -> Run:
    """Write a finished campaign on a workload."""
    run = synthetic_run(folder, n_trials=60, seed=seed, **options)  # type: ignore[arg-type]
    sha = workload_sha256(workload)
    record = replace(run.campaign, trace_path=str(workload), trace_sha256=sha)
    run = replace(run, campaign=record)
    write_run(run)
    return run


def space(*names: str) -> Space:
    parts = {
        name: [Parameter(f"{name}.{key}", levels, ordered=True) for key, levels in own.items()]
        for name, own in LEVELS.items()
        if name in names
    }
    return joint_space(parts)


SPACES = (space(*LEVELS),)
WANTED = ("mean_heap", "cost")


def test_workloads_are_apart_as_their_sizes_are(tmp_path: Path):
    small, larger, large = (shape_of(trace(tmp_path / f"{n}", n, n, n)) for n in (64, 256, 1 << 16))

    assert distance(small, small) == 0.0
    assert distance(small, larger) == 2.0
    assert distance(small, large) == 10.0


def test_the_front_of_the_nearest_campaign_is_taken(tmp_path: Path):
    runs = tmp_path / "runs"
    earlier(runs / "far", trace(tmp_path / "a", 1 << 16, 1 << 17), seed=1)
    near = earlier(runs / "near", trace(tmp_path / "b", 100, 1000), seed=2)
    own = trace(tmp_path / "c", 100, 1100, 90)

    found = warm_start([runs], own, SPACES, WANTED)

    assert found is not None
    assert (found.folder, found.n_considered) == (runs / "near", 2)
    assert 0 < len(found.seeds) <= MOST_SEEDS
    assert set(found.seeds) <= {trial.configuration for trial in front(near.trials)}
    assert "the nearest of 2 earlier campaigns" in str(found)


def test_what_lies_outside_the_space_is_passed_over(tmp_path: Path):
    workload = trace(tmp_path / "a", 64)
    earlier(tmp_path / "run", workload)

    found = warm_start([tmp_path / "run"], workload, [space("jemalloc")], WANTED)
    none = warm_start([tmp_path / "run"], workload, [joint_space({"exgen": []})], WANTED)

    assert found is not None
    assert {seed.allocator for seed in found.seeds} == {"jemalloc"}
    assert none is None


def test_a_setting_that_the_space_lacks_is_left_out(tmp_path: Path):
    workload = trace(tmp_path / "a", 64)
    earlier(tmp_path / "run", workload)
    full = space("jemalloc")
    without = Space(tuple(gene for gene in full.parameters if not gene.name.endswith("decay_ms")))

    found = warm_start([tmp_path / "run"], workload, [without], WANTED)
    whole = warm_start([tmp_path / "run"], workload, [full], WANTED)

    assert found is not None
    assert whole is not None
    assert any("dirty_decay_ms" in seed.as_dict for seed in whole.seeds)
    assert not any("dirty_decay_ms" in seed.as_dict for seed in found.seeds)


def test_campaigns_that_cannot_be_compared_are_passed_over(tmp_path: Path):
    workload, gone = trace(tmp_path / "a", 64), trace(tmp_path / "b", 64)
    earlier(tmp_path / "other", workload, names=("peak_heap", "faults"))
    earlier(tmp_path / "changed", gone)
    gone.unlink()

    folders = [tmp_path / name for name in ("other", "changed")]

    assert warm_start(folders, workload, SPACES, WANTED) is None


def spec(workload: Path, **options: object) -> CampaignSpec:
    return campaign_from_options(
        trace=workload, allocators=["glibc"], objectives=["mean_heap", "peak_heap"],
        evaluations=12, **options,
    )  # fmt: skip


def test_a_campaign_keeps_the_seeds_it_was_begun_with(tmp_path: Path):
    """Another campaign that comes up later, or one that goes, changes nothing."""
    workload = trace(tmp_path / "a", 64, 128)
    runs = tmp_path / "runs"
    names = ("mean_heap", "peak_heap")
    before = earlier(runs / "before", workload, allocators=("glibc",), names=names)
    wanted = spec(workload, warm_start=[str(runs)])

    used, known = with_workload(wanted)
    with open_campaign(used, tmp_path / "new", known).store as store:
        begun = store.campaign()
    (before.folder / "store.sqlite").unlink()
    again = open_campaign(used, tmp_path / "new", known)
    with again.store as store:
        went_on = store.campaign()

    assert 0 < len(begun.seed_configurations) <= 5
    assert begun.seed_configurations == went_on.seed_configurations
    assert any("before, the nearest of 1" in note for note in begun.workload.notes)
    assert again.warmth is None


def test_a_campaign_that_began_without_others_says_that_it_is_too_late(tmp_path: Path):
    workload = trace(tmp_path / "a", 64)
    open_campaign(spec(workload), tmp_path / "new").store.close()

    again = open_campaign(spec(workload, warm_start=[str(tmp_path)]), tmp_path / "new")
    again.store.close()

    assert again.warmth == "--warm-start does not apply: the campaign has begun"


def test_of_a_long_front_as_many_are_taken_as_there_is_room_for(tmp_path: Path):
    workload = trace(tmp_path / "a", 64)
    run = earlier(tmp_path / "run", workload)
    found = sorted(front(run.trials), key=lambda one: one.objectives or ())
    points = [one.configuration for one in found if not one.configuration.is_default]

    start = warm_start([tmp_path / "run"], workload, SPACES, WANTED, most=2)

    assert len(points) > 2
    assert start is not None
    assert start.seeds == (points[0], points[-1])
    assert str(start).startswith("starts from 2 settings of run")


def test_what_is_said_of_a_warm_start_is_what_is_done(tmp_path: Path):
    """Half of the evaluations that are left may be of earlier settings."""
    workload = trace(tmp_path / "a", 64)
    names = ("mean_heap", "faults")
    earlier(tmp_path / "before", workload, allocators=("glibc",), names=names)
    wanted = campaign_from_options(
        trace=workload, allocators=["glibc"], objectives=list(names),
        warm_start=[str(tmp_path / "before")],
        seed_configurations=2 * [{"allocator": "glibc", "settings": {}}],  # measured once
    )  # fmt: skip
    said = []
    for n in (6, 2):
        used, known = with_workload(wanted.model_copy(update={"evaluations": n}))
        campaign = open_campaign(used, tmp_path / f"of-{n}", known)
        with campaign.store as store:
            said.append((len(store.campaign().seed_configurations), campaign.warmth or ""))

    (n_few, few), (n_none, none) = said
    assert (n_few, n_none) == (1 + 2, 2)
    assert few.startswith("starts from 2 settings of before")
    assert none == "no warm start: 2 evaluations leave no room for other settings"


def test_it_is_said_that_there_is_nothing_to_start_from(tmp_path: Path):
    workload = trace(tmp_path / "a", 64)
    used, known = with_workload(spec(workload, warm_start=[str(tmp_path)]))

    campaign = open_campaign(used, tmp_path / "new", known)
    campaign.store.close()

    assert campaign.warmth is not None
    assert campaign.warmth.startswith("no warm start")


@pytest.mark.parametrize("wrong", ["runs", 3])
def test_warm_start_is_a_list(tmp_path: Path, wrong: object):
    with pytest.raises(SpecError, match="warm_start"):
        spec(tmp_path / "a", warm_start=wrong)


@pytest.mark.parametrize("name", ["ap", "locked"])
def test_a_folder_to_start_from_that_cannot_be_read_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A search that starts cold after a slip of the pen is not what was asked for."""
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        if folder.name == "locked":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    (tmp_path / "locked").mkdir()
    folder, run = tmp_path / name, tmp_path / "new"

    code = main.run(
        ["tune", str(trace(tmp_path / "a", 64)), "--allocators", "glibc", "--objectives",
         "mean_heap,peak_heap", "--evaluations", "3", "--warm-start", str(folder), "-o", str(run)]
    )  # fmt: skip

    assert code == SpecError.exit_code
    assert f"warm_start: {folder}: " in capsys.readouterr().err
    assert not Store.exists(run)
