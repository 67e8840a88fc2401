"""A store is continued only by the campaign it belongs to, and the message says why not."""

from dataclasses import replace
from typing import Literal

import pytest

from tests.doubles import synthetic
from tests.doubles.machine import MACHINE
from tuner.campaign.identity import check_same, differences
from tuner.emulation import Calibration, EmulationOptions
from tuner.errors import StoreError
from tuner.records import Configuration
from tuner.space import ALLOCATOR, Parameter
from tuner.store import AllocatorRecord, CampaignRecord, TraceRecord, WorkloadRecord

RECORD = synthetic.record(budget=100)
GENES = RECORD.space


def test_the_same_campaign_has_no_differences():
    other = replace(
        RECORD,
        name="renamed",
        trace_path="/elsewhere",
        status="finished",
        created_at="later",
        calibration=Calibration(1.0, 1.0),
        reference=(1.0, 2.0),
    )

    assert differences(RECORD, other) == []
    check_same(RECORD, replace(other, budget=200), "runs/a")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"trace_sha256": "ab"}, f"content of the trace: was {'5f' * 6}..., is ab"),
        (
            {"objectives": ("peak_heap", "cost")},
            "objectives: was [mean_heap, cost], is [peak_heap, cost]",
        ),
        ({"constraints": ("cost <= 1",)}, "constraints: was [], is [cost <= 1]"),
        ({"strategy": "random"}, "strategy: was nsga2, is random"),
        ({"seed": 2}, "seed: was 1, is 2"),
        ({"search": "separate"}, "search: was joint, is separate"),
        ({"recheck_share": 0.2}, "recheck.share: was 0.15, is 0.2"),
        (
            {"seed_configurations": (Configuration.of("glibc", {"pad": 0}),)},
            "seed_configurations: was [], is [glibc pad=0]",
        ),
        ({"emulation": EmulationOptions(threads="free")}, "emulation.threads: was baton, is free"),
        ({"emulation": EmulationOptions(touch="ends")}, "emulation.touch: was recorded, is ends"),
        (
            {"workload": WorkloadRecord(further=(TraceRecord("/b.trace", "cd"),))},
            "workload.further: was absent, is [cd]",
        ),
        ({"emulation": EmulationOptions(thp="never")}, "emulation.thp: was keep, is never"),
        ({"machine": replace(MACHINE, kernel="7")}, "machine.kernel: was 6.1.0-38-amd64, is 7"),
        (
            {"versions": {"python": "3.14", "rand_malloc": "0.2.0"}},
            "versions.rand_malloc: was 0.1.0, is 0.2.0",
        ),
        ({"space": GENES[:-1]}, "space: jemalloc.slack is gone"),
        (
            {"space": (*GENES, Parameter("jemalloc.new", (None, 0), ordered=True))},
            "space: jemalloc.new is new",
        ),
        (
            {"space": (*GENES[:-1], replace(GENES[-1], levels=(None, 0)))},
            "space: jemalloc.slack: levels: was [absent, 0, 1, 2, 4, 8], is [absent, 0]",
        ),
        (
            {"space": (*GENES[:-2], GENES[-1], GENES[-2])},
            "space: the parameters stand in another order",
        ),
    ],
)
def test_every_difference_is_named_with_both_values(change: dict[str, object], line: str):
    other = replace(RECORD, **change)  # type: ignore[arg-type]

    assert [line] == differences(RECORD, other)


def test_another_library_is_another_campaign():
    upgraded = dict(RECORD.allocators) | {"jemalloc": AllocatorRecord("/opt/j.so", "5.3.1")}

    (line,) = differences(RECORD, replace(RECORD, allocators=upgraded))

    assert line.startswith("allocators.jemalloc: was ")
    assert line.endswith(", is 5.3.1 (/opt/j.so)")


def test_an_allocator_more_or_less_is_one_difference_with_all_its_settings():
    more = dict(RECORD.allocators) | {"exgen": AllocatorRecord("/opt/libexgen.so", "0.1.0")}
    space = (*GENES, Parameter("exgen.trays", (None, 0), ordered=True))
    other = replace(RECORD, allocators=more, space=space)

    both = "[glibc, jemalloc]", "[glibc, jemalloc, exgen]"
    assert differences(RECORD, other) == ["allocators: was {}, is {}".format(*both)]
    assert differences(other, RECORD) == ["allocators: was {1}, is {0}".format(*both)]


def test_the_order_of_allocators_matters():
    turned = dict(reversed(list(RECORD.allocators.items())))

    expected = ["order of allocators: was [glibc, jemalloc], is [jemalloc, glibc]"]
    assert expected == differences(RECORD, replace(RECORD, allocators=turned))


def test_of_a_separate_search_the_gene_of_the_last_allocator_is_no_difference():
    stored = replace(RECORD, search="separate", space=(*GENES, _allocator("jemalloc")))

    assert not differences(stored, replace(stored, space=(*GENES, _allocator("glibc"))))


def _allocator(name: str) -> Parameter:
    return Parameter(ALLOCATOR, (name,), ordered=False)


def test_the_message_lists_all_and_says_what_to_do():
    other = replace(RECORD, seed=2, strategy="random")

    with pytest.raises(StoreError) as caught:
        check_same(RECORD, other, "runs/a")

    assert str(caught.value).splitlines() == [
        "runs/a: holds another campaign; restore these, or choose a new run folder with -o:",
        "  strategy: was nsga2, is random",
        "  seed: was 1, is 2",
    ]


def test_hashes_are_shown_by_their_first_digits():
    other = replace(RECORD, trace_sha256="0123456789abcdef" * 4)

    (line,) = differences(RECORD, other)

    assert line.endswith(", is 0123456789ab...")


def test_a_budget_cannot_shrink():
    with pytest.raises(StoreError, match=r"evaluations: was 100, is 50 \(it can only grow\)"):
        check_same(RECORD, replace(RECORD, budget=50), "runs/a")


def test_versions_of_libraries_may_change():
    other = replace(RECORD, versions={"python": "3.14", "rand_malloc": "0.1.0"})

    assert differences(RECORD, other) == []


def test_setting_of_the_machine_counts_where_it_acts():
    def on(thp: Literal["keep", "never"], mode: str) -> CampaignRecord:
        emulation = replace(RECORD.emulation, thp=thp)
        return replace(RECORD, emulation=emulation, machine=replace(MACHINE, thp=mode))

    assert differences(on("never", "always"), on("never", "madvise")) == []
    assert differences(on("keep", "always"), on("keep", "madvise")) == [
        "machine.thp: was always, is madvise"
    ]
