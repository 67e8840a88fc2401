"""Which processes of a service are tuned."""

import pytest

from tests.doubles.recorded import recorded_process
from tuner.service.roles import role_name, roles_of, roles_that_matter


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("", "server"),
        ("nginx: worker process", "nginx: worker process"),
        ("postgres: checkpointer", "postgres: checkpointer"),
        ("postgres: postgres postgres 127.0.0.1(51234) SELECT", "postgres: postgres postgres"),
        ("puma: cluster worker 0: 4711 [app]", "puma: cluster worker"),
        ("4711", "4711"),
    ],
)
def test_numbers_and_states_do_not_make_a_role(title: str, name: str):
    assert role_name(recorded_process(title)) == name


def test_the_busiest_process_stands_for_its_role():
    workers = [
        recorded_process(f"puma: cluster worker {n}: 1", n_events=events)
        for n, events in enumerate((100, 700, 200))
    ]

    (role,) = roles_of(workers)

    assert role.busiest is workers[1]
    assert (role.work_share, role.memory_share) == (1.0, 1.0)


def test_what_a_process_inherits_is_no_work_of_its_own():
    busy = recorded_process("app: worker 1", n_events=2000, inherited_blocks=1000)
    idle = recorded_process("app: clock", n_events=1010, inherited_blocks=1000)

    found = roles_of([idle, busy])

    assert [role.name for role in found] == ["app: worker", "app: clock"]
    assert found[1].work_share < 0.01


def test_roles_with_a_tenth_of_work_or_memory_matter():
    master = recorded_process(n_events=50, peak_live_bytes=2)
    worker = recorded_process("app: worker 1", n_events=900, peak_live_bytes=80)
    cache = recorded_process("app: cache", n_events=50, peak_live_bytes=18)

    found = roles_that_matter([master, worker, cache])

    assert [role.name for role in found] == ["app: worker", "app: cache"]


def test_at_least_the_busiest_role_is_tuned_and_no_more_than_four():
    few = [recorded_process(f"app: {chr(97 + n) * 3}", n_events=1000 - n) for n in range(8)]
    many = [recorded_process(f"app: {chr(97 + n) * 3}", n_events=1000 - n) for n in range(20)]

    assert [role.name for role in roles_that_matter(few)] == [
        "app: aaa", "app: bbb", "app: ccc", "app: ddd",
    ]  # fmt: skip
    assert [role.name for role in roles_that_matter(many)] == ["app: aaa"]
