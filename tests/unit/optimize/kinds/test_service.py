"""A service as something that is tuned: what is judged, what a run must give."""

import errno
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.doubles.programs import JEMALLOC, calls_jemalloc
from tests.doubles.recorded import recorded_process
from tests.doubles.runs import synthetic_run, trial
from tuner.allocators import get_allocator, locate_all
from tuner.compare.plan import Step
from tuner.errors import (
    OutputError,
    ProgramError,
    ProgramTimeoutError,
    SelectionError,
    SpecError,
    StoreError,
)
from tuner.front.whole import ns_per_instruction
from tuner.measure.program import Surroundings
from tuner.optimize.answering.answer import Decision
from tuner.optimize.choosing.expecting import Expecting
from tuner.optimize.choosing.proposals import Proposal, with_known
from tuner.optimize.comparison import COMPARISON_FILE, compare_settings, service_candidates
from tuner.optimize.kinds import service as kind
from tuner.optimize.kinds.known import COPIED, KNOWN
from tuner.optimize.kinds.service import Service, service_rules
from tuner.optimize.proof.judgement import Rules, State
from tuner.optimize.quantities import SERVICE_NAMES
from tuner.optimize.request import Request
from tuner.optimize.session import Session
from tuner.optimize.tuned import AS_IS
from tuner.optimize.view import View
from tuner.records import Configuration, Outcome, Status, Trial
from tuner.report.measured import measured_front
from tuner.runs import ANSWER_FILE, REQUEST_FILE
from tuner.service.lifecycle import ServiceRun
from tuner.service.plan import ServicePlan

PLAN = ServicePlan(("server",), "tcp:{port}", "load")
FILES = locate_all([get_allocator("glibc")])
VALUES = {
    "mean": 100e6, "peak": 120e6, "floor": 90e6, "growth": -5.0,
    "cpu": 20e3, "rate": 1000.0, "p50": 1e6, "p99": 5e6,
}  # fmt: skip


class Server:
    """Uses so much less memory under an environment with a variable."""

    def __init__(self, share: float = 0.8, **values: float) -> None:
        self.values = {**VALUES, **values}
        self.share = share
        self.n_runs = 0

    def __call__(
        self, plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Outcome[ServiceRun]:
        del plan, surroundings
        self.n_runs += 1
        is_tuned = any("arena_max" in value for value in environment.values())
        memory = self.share if is_tuned else 1.0
        # Noise that repeats itself: neither exact nor in favour of anybody.
        noise = 1.0 + 0.004 * ((self.n_runs * 7) % 5)
        values = {
            name: value * noise * (memory if name in ("mean", "peak", "floor") else 1.0)
            for name, value in self.values.items()
        }
        return Outcome.succeeded(ServiceRun(values, wall_s=1.0, requests=500.0))


def service(run: Any, limited: tuple[str, ...] = ()) -> Service:
    return Service(PLAN, {"PATH": "/bin"}, FILES, limited=limited, run=run)


@pytest.mark.parametrize(("limited", "judged"), [((), "p99"), (("p50",), "p50")])
def test_the_first_latency_that_is_printed_is_judged_or_one_with_a_constraint(
    limited: tuple[str, ...], judged: str
):
    names = list(service(Server(), limited).examine().values)

    assert names == [SERVICE_NAMES[n] for n in ("mean", "peak", "floor", "cpu", "rate", judged)]


def test_a_constraint_on_what_is_not_printed_is_an_error():
    with pytest.raises(ProgramError, match=r"p999: limited.*p99"):
        service(Server(), ("p999",)).examine()


@pytest.mark.parametrize(
    ("status", "error"), [(Status.FAILED, ProgramError), (Status.TIMED_OUT, ProgramTimeoutError)]
)
def test_a_service_that_fails_as_it_is_is_an_error(status: Status, error: type[Exception]):
    with pytest.raises(error, match="server: before anything was changed: no reason"):
        service(lambda *_: Outcome.did_not_succeed(status, "no reason")).examine()


def test_names_of_jemalloc_that_a_service_calls_are_said(tmp_path: Path):
    run = ServiceRun(VALUES, files=(calls_jemalloc(tmp_path), JEMALLOC))

    assert "(mallocx)" in service(lambda *_: Outcome.succeeded(run)).examine().notes[0]


@pytest.mark.parametrize(("n", "said"), [(0, []), (1, ["1 process:"]), (4, ["4 processes:"])])
def test_processes_whose_shared_pages_count_in_full_are_said(n: int, said: list[str]):
    run = ServiceRun(VALUES, n_unshared=n)
    notes = service(lambda *_: Outcome.succeeded(run)).examine().notes

    assert [re.findall(r"\d process\w*:", note)[0] for note in notes] == said


def test_values_of_a_request_are_those_of_the_whole_load_for_emulation():
    reference = service(Server()).examine()
    cpu = SERVICE_NAMES["cpu"]

    assert reference.whole_values[cpu] == pytest.approx(500.0 * reference.values[cpu])
    assert reference.whole_values[SERVICE_NAMES["mean"]] == reference.values[SERVICE_NAMES["mean"]]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(errno.ENOSPC, "full"), OutputError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_trace_that_is_not_whole_is_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    raised: type[BaseException],
):
    def copy_a_part(_: Path, target: Path) -> None:
        target.write_text("part")
        raise error

    monkeypatch.setattr(kind, "record_service", lambda *_: (recorded_process(),))
    monkeypatch.setattr(shutil, "copyfile", copy_a_part)

    with pytest.raises(raised):
        service(Server()).record(tmp_path / "app.trace", service(Server()).examine())

    assert list(tmp_path.iterdir()) == []


class Seen(View):
    """Keeps what is expected of the last setting."""

    expected: Mapping[str, float] | None = None

    def emulated(self, trial: Trial, expected: Mapping[str, float] | None) -> None:
        del trial
        self.expected = expected


def test_what_is_shown_while_it_emulates_is_a_share_of_the_whole_load():
    seen = Seen()
    showing = Expecting(
        seen, service(Server()).examine(), Rules(goals=(SERVICE_NAMES["cpu"],), guards=())
    )
    record = synthetic_run().campaign
    saved = 1e6 / ns_per_instruction(record)

    showing.trial_ended(record, trial(0, Configuration("glibc"), 1e6, 2.0 * saved))
    showing.trial_ended(record, trial(1, Configuration("exgen"), 1e6, saved))

    assert (seen.expected or {})[SERVICE_NAMES["cpu"]] == pytest.approx(-0.105, rel=0.1)


@pytest.mark.parametrize(("setting", "aslr"), [({"hugetlb": 1}, "on"), ({"mxfast": 0}, "off")])
def test_huge_pages_for_all_memory_are_proven_at_random_addresses(
    setting: Mapping[str, int], aslr: str
):
    seen: list[str] = []

    def run(
        plan: ServicePlan, environment: Mapping[str, str], surroundings: Surroundings
    ) -> Outcome[ServiceRun]:
        seen.append(surroundings.aslr)
        return Server()(plan, environment, surroundings)

    one = service(run)
    candidates = {"x": Configuration.of("glibc", setting)}
    reference = one.examine()
    one.as_deployed(candidates).runner(candidates, reference)(Step(0, 0, None, AS_IS))
    assert seen == ["off", "off", aslr]


def test_a_failed_run_is_a_failed_sample_and_so_is_one_that_lacks_a_number():
    server = Server()
    tuned = service(server)
    reference = tuned.examine()
    step = Step(0, 0, None, "as it is")
    del server.values["p99"]

    lacking = tuned.runner({}, reference)(step)
    slow = service(lambda *_: Outcome.did_not_succeed(Status.TIMED_OUT, "slow"))
    failing = slow.runner({}, reference)(step)

    assert (lacking.status, lacking.reason) == (Status.FAILED, "nothing measured p99 latency")
    assert (failing.status, failing.reason) == (Status.TIMED_OUT, "slow")


def test_what_gives_memory_back_takes_part_and_what_is_not_here_does_not():
    one = service(Server())
    known = one.known(one.examine())

    assert known == tuple(one for one in KNOWN if one.allocator == "glibc")
    assert COPIED[0] in known


def test_what_shares_arenas_does_not_run_where_each_process_has_one_thread():
    def run(*_: object) -> Outcome[ServiceRun]:
        return Outcome.succeeded(ServiceRun(VALUES, n_threads=1))

    one = service(run)
    reference = one.examine()

    assert reference.n_threads == 1
    assert [str(known) for known in one.known(reference)] == ["glibc mmap_threshold=262144"]


def test_a_comparison_has_what_people_copy_and_no_more():
    found = service_candidates(service(Server()), FILES, [], []).runnable

    assert list(found.values()) == [Configuration("glibc"), COPIED[0]]


def test_known_settings_stand_beside_what_emulation_tried():
    tried = [Proposal(Configuration("jemalloc"), 3, {"mean memory": -0.1})]

    one, other = COPIED[:2]
    found = with_known(tried, [one, other, Configuration("jemalloc")], ["mean memory"])

    assert [(p.configuration, p.trial) for p in found[1:]] == [(one, None), (other, None)]
    assert [p.expected["mean memory"] for p in found[1:]] == [0.0, -0.1]
    assert all(p.is_known for p in found), "one that was tried runs anyhow, too"
    assert with_known([], [one], ["mean memory"])[0].expected == {"mean memory": 0.0}


def compared(
    folder: Path,
    server: Server | None = None,
    limits: Mapping[str, float] = MappingProxyType({}),
    settings: Sequence[str] = (),
    *,
    tuned: Service | None = None,
    view: View | None = None,
    rounds: int = 40,
) -> Any:
    tuned = tuned or service(server or Server(), tuple(limits))
    candidates = service_candidates(tuned, FILES, [], settings).runnable
    rules = service_rules(0.01, limits)
    request = Request(PLAN.command, 0.0, ("glibc",), rules, service=PLAN, is_comparison=True)
    return compare_settings(folder, request, tuned, candidates, rounds=rounds, view=view)


def test_what_the_service_is_as_it_is_runs_once_in_a_round(tmp_path: Path):
    found = compared(tmp_path)

    assert {subject for _, _, subject in found.confirmed.course.samples} == {AS_IS, str(COPIED[0])}
    assert found.refused == ("glibc: the service as it is",)


def test_a_comparison_says_at_first_how_long_a_round_takes_and_what_is_too_few(tmp_path: Path):
    told: list[str] = []

    class Told(View):
        def tell(self, line: str) -> None:
            told.append(line)

    compared(tmp_path / "many", view=Told())
    assert told == [
        "waits for  --ready tcp:{port}, 60 s at most, in each run",
        "comparing  1 setting in at most 40 rounds of about 2 s",
    ]

    compared(tmp_path / "few", view=Told(), rounds=3)
    assert told[4].startswith("note       fewer than 9 --rounds prove no gain in what varies")


def test_a_comparison_says_how_many_runs_are_to_come_at_most(tmp_path: Path):
    begun: list[int | None] = []

    class Begun(View):
        def begin(self, stage: str, n_steps: int | None) -> None:
            begun.extend([n_steps] * (stage == "comparison"))

    for rounds in (3, 4):
        compared(tmp_path, view=Begun(), rounds=rounds)

    assert begun == [2 * 3, 2 * 1]


def test_what_its_environment_steers_is_compared_with_the_plain_allocator(tmp_path: Path):
    steered = Service(PLAN, {"MALLOC_ARENA_MAX": "8"}, FILES, run=Server())
    found = compared(tmp_path, tuned=steered)

    assert "glibc" in {subject for _, _, subject in found.confirmed.course.samples}


def test_a_damaged_request_is_one_error(tmp_path: Path):
    compared(tmp_path)
    (tmp_path / REQUEST_FILE).write_text("{")

    with pytest.raises(StoreError, match="damaged"):
        compared(tmp_path)


def test_a_comparison_with_the_service_as_it_is_alone_is_refused(tmp_path: Path):
    one = service(Server())
    request = Request(
        PLAN.command, 0.0, ("glibc",), service_rules(0.01, {}), service=PLAN, is_comparison=True
    )
    with pytest.raises(SpecError, match="nothing to compare with server as it is: glibc"):
        compare_settings(tmp_path, request, one, {"glibc": Configuration("glibc")})


def test_growth_of_any_sign_is_kept_and_shown_and_not_judged(tmp_path: Path):
    found = compared(tmp_path, Server(growth=-3.0 * 2**20))

    runs = [json.loads(line) for line in (tmp_path / COMPARISON_FILE).read_text().splitlines()[1:]]
    assert all(one["values"]["growth"] < 0.0 for one in runs)
    assert set(found.answer.growth) == {AS_IS, *found.confirmed.standings}
    assert found.answer.growth[AS_IS] == pytest.approx(-3.0 * 2**20, rel=0.02)
    assert found.answer.as_record()["growth_bytes_per_min"] == found.answer.growth
    at = next(n for n, line in enumerate(found.answer.lines()) if line.startswith("Growth"))
    first, *rest = list(found.answer.lines())[at + 1 :]
    assert first.split()[:2] == ["-3.0", "MiB/min"]
    assert first.endswith("as it is (glibc)")
    assert len(rest) == len(found.confirmed.standings)
    assert "growth" not in found.answer.baseline
    assert all("growth" not in one.gains for one in found.confirmed.standings.values())


def test_what_grows_has_a_sign_and_what_was_not_measured_is_not_shown(tmp_path: Path):
    grown = compared(tmp_path / "grown", Server(growth=2048.0)).answer
    server = Server()
    del server.values["growth"]
    unknown = compared(tmp_path / "unknown", server).answer

    assert any(line.split()[:2] == ["+2.0", "KiB/min"] for line in grown.lines())
    assert unknown.growth == {}
    assert not any(line.startswith("Growth") for line in unknown.lines())


def test_what_does_not_grow_has_no_sign(tmp_path: Path):
    answer = compared(tmp_path, Server(growth=-4e-7)).answer

    assert [line.split()[:2] for line in answer.lines() if "B/min" in line] == [
        ["0", "B/min"] for _ in answer.growth
    ]


def test_a_folder_that_cannot_be_written_is_found_before_anything_runs(tmp_path: Path):
    server = Server()
    (tmp_path / "file").touch()

    with pytest.raises(OutputError, match="cannot be made a folder"):
        compared(tmp_path / "file", server)
    assert server.n_runs == 0


def test_a_limit_that_is_broken_keeps_what_is_there(tmp_path: Path):
    found = compared(tmp_path, Server(share=1.1), {"p99": 0.05})

    assert found.answer.decision is Decision.KEEP


def test_a_comparison_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compared(tmp_path)
    again = Server()

    found = compared(tmp_path, again)

    assert again.n_runs == 0
    assert found.answer.decision is Decision.DEPLOY
    assert found.answer.configuration == COPIED[0]
    with pytest.raises(SpecError, match="another comparison, with other --constraint; choose"):
        compared(tmp_path, again, {"p99": 0.2})
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert compared(tmp_path, again).answer.sentence == found.answer.sentence
    journal = tmp_path / COMPARISON_FILE
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(StoreError, match=r"LD_PRELOAD, PYTHONMALLOC or .* same environment"):
        compared(tmp_path, again)
    assert again.n_runs == 0


def test_a_setting_that_is_added_has_rounds_of_its_own(tmp_path: Path):
    """All rounds were made anew, in another folder.

    Those of the others stay; more claims need a few more.
    """
    first = compared(tmp_path)
    before = (tmp_path / COMPARISON_FILE).read_bytes()
    again, added = Server(), "glibc arena_max=7"

    found = compared(tmp_path, again, settings=[added])

    standings = found.confirmed.standings
    assert (tmp_path / COMPARISON_FILE).read_bytes().startswith(before)
    assert standings.keys() == {*first.confirmed.standings, added}
    assert standings[added].state is State.CONFIRMED
    assert standings[added].n_rounds > 0
    assert again.n_runs < compared(tmp_path / "anew", settings=[added]).answer.n_runs
    assert found.answer.n_runs == first.answer.n_runs + again.n_runs

    last = Server()
    assert compared(tmp_path, last, settings=[added]).answer.rows == found.answer.rows
    assert last.n_runs == 0


def test_settings_that_are_left_out_later_share_the_error_all_the_same(tmp_path: Path):
    usual = compared(tmp_path, settings=["glibc arena_max=7"]).confirmed
    for settings in (["glibc arena_max=5"], []):
        found = compared(tmp_path, settings=settings).confirmed
        assert found.standings.keys() == {*usual.standings, *settings} - {"glibc arena_max=7"}
        assert found.n_claims == usual.n_claims + 1


def test_the_answer_of_a_comparison_can_be_shown_and_its_folder_is_no_optimisations(tmp_path: Path):
    found = compared(tmp_path)

    shown = measured_front(tmp_path)
    assert shown.answer.sentence == found.answer.sentence
    assert found.run == tmp_path
    with pytest.raises(SpecError, match=r"comparison of `malloc-tuner validate`.*another -o"):
        Session(tmp_path, Request.load(tmp_path))

    (tmp_path / ANSWER_FILE).unlink()
    with pytest.raises(SelectionError, match=r"the same `malloc-tuner validate` goes on"):
        measured_front(tmp_path)


def test_a_request_of_a_service_survives_its_file(tmp_path: Path):
    compared(tmp_path, Server(), {"p99": 0.1})

    found = Request.load(tmp_path)

    assert (tmp_path / REQUEST_FILE).is_file()
    assert found.service == PLAN
    assert found.rules.strict == (SERVICE_NAMES["p99"],)
    assert dict(found.rules.limits)[SERVICE_NAMES["p99"]] == 0.1


def test_a_setting_of_an_allocator_that_takes_no_part_says_what_to_add():
    with pytest.raises(SpecError, match="jemalloc takes no part; add it to --allocators"):
        service_candidates(service(Server()), FILES, [], ["jemalloc narenas=2"])


TWICE = "glibc arena_max=1 arena_max=2"


@pytest.mark.parametrize("text", ["glibc arena_max", "jemaloc narenas=2", "", TWICE])
def test_a_setting_that_is_none_is_refused(text: str):
    with pytest.raises(SpecError, match="--setting"):
        service_candidates(service(Server()), FILES, [], [text])
