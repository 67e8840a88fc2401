"""Campaign and search-space files: what is read, and the message of every mistake."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.config import (
    AllocatorChoice,
    campaign_from_options,
    dump_campaign,
    load_allocator_file,
    load_campaign,
    shipped_allocator_file,
)
from tuner.config.allocator_file import Narrowing
from tuner.config.versions import is_version_in, parse_version, version_range
from tuner.errors import SpecError
from tuner.records import Configuration, Value
from tuner.registry import ALLOCATORS

MINIMAL = """
name = "demo"
trace = "app.trace"
allocators = ["glibc", "jemalloc"]
"""

FULL = """
name = "demo"
trace = "../traces/app.trace"
allocators = ["glibc", "jemalloc:/opt/lib/libjemalloc.so"]
objectives = ["peak_heap", "cost"]
constraints = ["peak_heap <= 2 GiB", "cost <= default * 1.02"]
evaluations = 40
strategy = "random"
seed = 7
search = "separate"
[emulation]
instrument = "qemu"
timeout = "90 s"
[recheck]
share = 0.2
[space.glibc]
tcache_count = [0, 64, "unset"]
mmap_threshold = { low = "64 KiB", high = "64 MiB" }
mxfast = "unset"
[space.jemalloc]
tcache_gc_delay_bytes = "all"
[[seed_configurations]]
allocator = "glibc"
settings = { mmap_threshold = "1 MiB", tcache_count = 0 }
"""

PARAMETER = """
schema = 1
name = "glibc"
title = "glibc malloc"
[library]
package = "libc6"
[[parameters]]
name = "tcache_count"
effect = "e"
source = "s"
"""


def campaign_file(folder: Path, text: str) -> Path:
    path = folder / "demo.toml"
    path.write_text(text)
    return path


def message_of(folder: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_campaign(campaign_file(folder, text))
    return str(caught.value)


# Campaigns that are right


def test_a_short_campaign_gets_the_documented_defaults(tmp_path: Path):
    spec = load_campaign(campaign_file(tmp_path, MINIMAL))
    assert spec.trace == tmp_path / "app.trace"
    assert spec.objectives == ("mean_heap", "cost")
    assert (spec.evaluations, spec.strategy, spec.seed, spec.search) == (300, "auto", 1, "joint")
    assert spec.emulation.timeout_ns == 60 * 10**9
    assert spec.recheck.share == 0.15


def test_a_full_campaign_is_read_as_written(tmp_path: Path):
    spec = load_campaign(campaign_file(tmp_path, FULL))
    assert spec.choices[1] == AllocatorChoice("jemalloc", Path("/opt/lib/libjemalloc.so"))
    assert spec.emulation.timeout_ns == 90 * 10**9
    expected = Configuration.of("glibc", {"mmap_threshold": 1 << 20, "tcache_count": 0})
    assert spec.seeds == (expected,)


def test_a_written_campaign_is_the_same_campaign(tmp_path: Path):
    spec = load_campaign(campaign_file(tmp_path, FULL))
    again = tmp_path / "again.toml"
    again.write_text(dump_campaign(spec))
    assert spec == load_campaign(again)


def test_options_build_the_same_campaign_as_a_file(tmp_path: Path):
    trace = tmp_path / "app.trace"
    from_file = load_campaign(campaign_file(tmp_path, MINIMAL.replace("demo", "app")))
    built = campaign_from_options(trace=trace, allocators=["glibc", "jemalloc"], seed=None)
    assert from_file == built


def test_overrides_replace_what_the_file_says(tmp_path: Path):
    path = campaign_file(tmp_path, FULL)
    assert load_campaign(path, {"evaluations": 500}).evaluations == 500


def test_a_wrong_override_is_none_of_the_file(tmp_path: Path):
    path = campaign_file(tmp_path, FULL)

    with pytest.raises(SpecError, match=r"^options: evaluations = 0"):
        load_campaign(path, {"evaluations": 0})


def test_a_wrong_file_is_named_whatever_is_overridden(tmp_path: Path):
    path = campaign_file(tmp_path, FULL.replace("seed = 7", "seed = -7"))

    with pytest.raises(SpecError, match=rf"^{path}: seed = -7"):
        load_campaign(path, {"evaluations": 500})


def test_paths_in_overrides_are_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = campaign_file(tmp_path, FULL)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert load_campaign(path, {"trace": "x.trace"}).trace == tmp_path / "here" / "x.trace"


def test_a_space_file_replaces_the_shipped_one(tmp_path: Path):
    own = PARAMETER + 'scale = "ordinal"\nvalues = [3, 5]\n'
    (tmp_path / "own.toml").write_text(own)
    text = MINIMAL + 'space_files = ["own.toml"]\n[space.glibc]\ntcache_count = [3]\n'
    load_campaign(campaign_file(tmp_path, text))
    assert "7 is outside" in message_of(tmp_path, text.replace("[3]", "[7]"))


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("glib", '["own.toml"]', "name = \"glib\": not in this campaign; did you mean 'glibc'?"),
        ("mimalloc", '["own.toml"]', "not in this campaign"),
        ("glibc", '["own.toml", "own.toml"]', "given twice"),
    ],
)
def test_a_space_file_that_replaces_nothing_is_refused(
    tmp_path: Path, name: str, files: str, expected: str
):
    own = PARAMETER.replace('"glibc"', f'"{name}"') + 'scale = "ordinal"\nvalues = [3, 5]\n'
    (tmp_path / "own.toml").write_text(own + '[environment]\nvariable = "X_{NAME}"\n')
    assert expected in message_of(tmp_path, MINIMAL + f"space_files = {files}\n")


# Campaigns that are wrong


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("sed = 1\n", "sed: unknown key; did you mean 'seed'? allowed: name, trace,"),
        ("evaluations = 0\n", "evaluations = 0: must be at least 1"),
        ('evaluations = "300"\n', 'evaluations = "300": must be a whole number'),
        ("evaluations = 2.5\n", "evaluations = 2.5: must be a whole number"),
        ('strategy = "nsga4"\n', "unknown; did you mean 'nsga3'? allowed: auto, nsga2, nsga3"),
        ('objectives = ["peak"]\n', 'objectives[0] = "peak": unknown'),
        ("objectives = []\n", "objectives = []: "),
        ('objectives = ["cost", "cost"]\n', "cost given twice"),
        ('constraints = ["cost < 3"]\n', 'constraints[0] = "cost < 3": not understood'),
        ('constraints = ["costs <= 3"]\n', "did you mean 'cost'?"),
        ('search = "both"\n', "search = \"both\": must be 'joint' or 'separate'"),
        ("[emulation]\ntimout = '1 s'\n", "emulation.timout: unknown key; did you mean 'timeout'?"),
        ("[emulation]\ntimeout = '60'\n", "allowed units: ns"),
        ("[emulation]\ntimeout = 60\n", "emulation.timeout = 60: must be a duration"),
        ("[recheck]\nshare = 0.9\n", "recheck.share = 0.9: must be at most 0.5"),
        ("seed = nan\n", "seed = "),
        ("[space.glibs]\nmxfast = 0\n", "space.glibs: unknown key; did you mean 'glibc'?"),
        ("[space.tcmalloc]\nskip_sbrk = true\n", "space.tcmalloc: unknown key"),
        ("[space.glibc]\nmx_fast = 0\n", "did you mean 'mxfast'? known: mode, trim_threshold"),
        ("[space.glibc]\nperturb = 1\n", "glibc.perturb is never set: debugging"),
        (
            "[space.glibc]\ntcache_count = [99999]\n",
            'outside the search space; allowed: "unset", 0',
        ),
        ("[space.glibc]\nmxfast = [7]\n", '7 is outside the search space; allowed: "unset", 0, 24'),
        ("[space.glibc]\ntcache_count = { low = 9000 }\n", "the scale runs from 1 to 4096"),
        ("[space.glibc]\ntcache_count = { high = 9000 }\n", "9000 is outside the search space"),
        ("[space.glibc]\ntcache_count = { lo = 9 }\n", "space.glibc.tcache_count.lo: unknown key"),
        ("[space.glibc]\nmode = { low = 9 }\n", "low and high are for numbers"),
        ("[space.jemalloc]\nretain = [0]\n", "0 is not true or false"),
        (
            "[[seed_configurations]]\nallocator = 'mimalloc'\nsettings = {}\n",
            "not in this campaign",
        ),
        (
            "[[seed_configurations]]\nallocator = 'glibc'\nsettings = { mxfast = '64K' }\n",
            'seed_configurations[0].settings.mxfast = "64K": ',
        ),
        (
            "[[seed_configurations]]\nallocator = 'glibc'\nsettings = { mode = 'static' }\n",
            "glibc.mode decides which settings are searched and is none itself; leave it out",
        ),
        ("[emulation]\nthreads = 'free'\n", "cost cannot be measured"),
        (
            "objectives = ['peak_heap', 'syscalls']\n[emulation]\nthreads = 'free'\n",
            "syscalls cannot be measured",
        ),
        (
            "objectives = ['mean_heap', 'peak_heap']\n[stop]\ntarget = ['cost <= 9']\n",
            "stop.target: cost is not measured; name it among objectives too",
        ),
        ("[stop]\ntarget = ['p99_latency <= 5 us']\n", "stop.target: p99_latency is not measured"),
        ('held_out_traces = ["./app.trace"]\n', "app.trace given twice"),
        ("warm_start = [1]\n", "warm_start[0] = 1: must be a string"),
        ("further_traces = [1]\n", "further_traces[0] = 1: must be a string"),
        (f"x = {'[' * 900}{']' * 900}\n", "nested too deeply"),
        (f"{'a.' * 2000}b = 1\n", "nested too deeply"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(tmp_path: Path, change: str, expected: str):
    message = message_of(tmp_path, MINIMAL + change)
    assert message.startswith(f"{tmp_path / 'demo.toml'}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("allocator", "expected"),
    [
        ("glibc:/x/libc.so", 'allocators[0] = "glibc:/x/libc.so": glibc is the C library'),
        ("gilbc", "did you mean 'glibc'?"),
        ("jemalloc:/opt/libjemalloc.so", "jemalloc given twice"),
    ],
)
def test_a_wrong_allocator_is_named(tmp_path: Path, allocator: str, expected: str):
    assert expected in message_of(tmp_path, MINIMAL.replace("glibc", allocator))


def test_latency_may_be_an_objective_beside_cost(tmp_path: Path):
    spec = load_campaign(
        campaign_file(tmp_path, MINIMAL + 'objectives = ["cost", "p99_latency"]\n')
    )
    assert spec.measures_time
    assert {"cost", "p99_latency"} == spec.metrics


def test_a_target_may_bound_what_is_measured_besides(tmp_path: Path):
    limits = ["faults <= default", "syscalls <= default", "instructions <= default - 1 %"]

    spec = load_campaign(campaign_file(tmp_path, f"{MINIMAL}[stop]\ntarget = {limits}\n"))

    assert spec.stop.target == tuple(limits)


def test_all_mistakes_are_in_one_message(tmp_path: Path):
    message = message_of(tmp_path, MINIMAL + 'sed = 1\nevaluations = 0\nsearch = "x"\n')
    assert "3 problems" in message
    assert message.count("\n") == 3


def test_an_array_of_wrong_words_is_not_called_empty_too(tmp_path: Path):
    assert "problems" not in message_of(tmp_path, MINIMAL + 'objectives = ["peak"]\n')


def test_a_missing_key_is_named(tmp_path: Path):
    assert "trace: this key is required" in message_of(tmp_path, 'name = "x"\nallocators=["glibc"]')


def test_a_library_is_relative_to_the_campaign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    text = MINIMAL.replace("jemalloc", "jemalloc:lib/x.so")

    spec = load_campaign(campaign_file(tmp_path, text))
    options = campaign_from_options(trace="x", allocators=["glibc", "jemalloc:lib/x.so"])

    assert spec.choices[1].library == tmp_path / "lib/x.so"
    assert options.choices[1].library == tmp_path / "here/lib/x.so"


def test_broken_toml_names_the_line(tmp_path: Path):
    message = message_of(tmp_path, MINIMAL + "evaluations == 3\n")
    assert "not valid TOML" in message
    assert "line 5" in message


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(SpecError, match=r"nowhere.toml: cannot be read: No such file"):
        load_campaign(tmp_path / "nowhere.toml")


def test_wrong_options_are_blamed_on_the_options():
    with pytest.raises(SpecError, match=r"options: evaluations = 0: must be at least 1"):
        campaign_from_options(trace="app.trace", allocators=["glibc"], evaluations=0)


@settings(max_examples=25)
@given(st.text(max_size=200))
def test_any_text_is_a_campaign_or_refused_with_one_message(text: str):
    folder = Path("/nonexistent")
    with pytest.raises(SpecError):
        campaign_from_options(trace=folder / "t", allocators=[text + "?"])


# Search-space files


@pytest.mark.parametrize("name", tuple(ALLOCATORS))
def test_every_shipped_file_is_right_and_in_place(name: str):
    file = shipped_allocator_file(name)
    assert file.name == name
    assert set(file.keys).isdisjoint(file.never)
    assert all(map(file.find, (*file.purges_after, *file.never_purges)))


@pytest.mark.parametrize(
    ("name", "settings", "waits"),
    [
        ("glibc", {}, False),
        ("exgen", {}, True),
        ("exgen", {"purge_delay": 0}, False),
        ("jemalloc", {"dirty_decay_ms": -1}, False),
        ("mimalloc", {"decommit_delay": 5}, True),
        ("mimalloc", {"allow_decommit": False}, False),
        ("exgen", {"purge_how": "never"}, False),
        ("exgen-st", {"purge_how": "never", "purge_delay": 5}, False),
        ("exgen", {"purge_how": "free"}, True),
    ],
)
def test_what_gives_memory_back_after_a_time(name: str, settings: dict[str, Value], *, waits: bool):
    assert shipped_allocator_file(name).purges_by_clock(settings) is waits


@pytest.mark.parametrize(
    ("scale", "levels"),
    [
        ('scale = "log2"\nlow = 4\nhigh = "64 B"', (None, 4, 8, 16, 32, 64)),
        ('scale = "log"\nlow = 5\nhigh = 60', (None, 5, 10, 20, 50, 60)),
        ('scale = "log"\nlow = 0.1\nhigh = 1.0\nspecials = [0]', (None, 0.0, 0.1, 0.2, 0.5, 1.0)),
        ('scale = "linear"\nlow = -1\nhigh = 6\nstep = 3', (None, -1, 2, 5)),
        ('scale = "ordinal"\nvalues = [1, 3]\nspecials = [-1]', (None, -1, 1, 3)),
        ('scale = "log2"\nlow = 1\nhigh = 2\nspecials = ["off"]\ndefault = "off"', (None, 1, 2)),
        ('scale = "log2"\nlow = 1\nhigh = 2\nspecials = ["off"]\ndefault = 1', (None, "off", 2)),
        ('scale = "categorical"\nvalues = ["a"]\nunset = false', ("a",)),
        ('scale = "boolean"', (None, False, True)),
    ],
)
def test_a_scale_lays_out_its_levels(tmp_path: Path, scale: str, levels: tuple[object]):
    path = campaign_file(tmp_path, PARAMETER + scale + "\n")
    (parameter,) = load_allocator_file(path).parameters
    assert levels == parameter.levels
    assert list(map(type, levels)) == list(map(type, parameter.levels))


@pytest.mark.parametrize(
    ("own", "variable", "pattern"),
    [
        ("", "EXGEN_CONF", ""),
        ('[environment]\nvariable = "MY_{NAME}"\n', "MY_{NAME}", ""),
        ("[report]\nversion = 'v(?P<version>.*)'\n", "EXGEN_CONF", "v(?P<version>.*)"),
    ],
)
def test_what_a_replaced_file_does_not_say_is_as_in_the_shipped_one(
    tmp_path: Path, own: str, variable: str, pattern: str
):
    text = PARAMETER.replace("glibc", "exgen") + 'scale = "boolean"\n' + own
    file = load_allocator_file(campaign_file(tmp_path, text))
    assert file.environment.variable == variable
    assert file.report.version == pattern


def test_how_an_allocator_is_configured_does_not_change_what_it_reports(tmp_path: Path):
    text = PARAMETER.replace("glibc", "mimalloc") + 'scale = "boolean"\n'
    own = '[environment]\nvariable = "MY_{NAME}"\n'
    file = load_allocator_file(campaign_file(tmp_path, text + own))
    assert file.report == shipped_allocator_file("mimalloc").report


def test_a_linear_scale_may_have_many_levels(tmp_path: Path):
    path = campaign_file(
        tmp_path, PARAMETER + 'scale = "linear"\nlow = 1\nhigh = 10000\nstep = 1\n'
    )
    (parameter,) = load_allocator_file(path).parameters
    assert len(parameter.groups.scale) == 10000


def test_a_text_among_numbers_may_be_set_and_kept(tmp_path: Path):
    scale = 'scale = "log2"\nlow = 1\nhigh = 4\nspecials = ["off"]\n'
    (parameter,) = load_allocator_file(campaign_file(tmp_path, PARAMETER + scale)).parameters
    assert parameter.coerce("off") == "off"
    assert parameter.narrowed(Narrowing(values=("off", 2))).all == (None, "off", 2)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ('scale = "log2"\nlow = 4\n', "scale 'log2' needs high and low; got low"),
        ('scale = "log2"\nlow = 5\nhigh = 8\n', "must be powers of two"),
        ('scale = "log"\nlow = 0\nhigh = 8\n', "put 0 under specials"),
        ('scale = "log2"\nlow = 8\nhigh = 4\n', "low 8 is above high 4"),
        ('scale = "linear"\nlow = 0.5\nhigh = 4\nstep = 1\n', "must be whole numbers"),
        ('scale = "log2"\nlow = "4K"\nhigh = 8\n', '.tcache_count.low = "4K": '),
        ('scale = "ordinal"\nvalues = [1, "a"]\n', "one or more of one type"),
        ('scale = "ordinal"\nvalues = [1.0, nan]\n', "values[1] = NaN: must be a number"),
        (
            'scale = "ordinal"\nvalues = [7]\ndefault = 7\nspecials = [0]\n',
            "default: 7 is the only value of the scale",
        ),
        ('scale = "log2"\nlow = 1\nhigh = 8\nspecials = [0.5]\n', "0.5 is not a whole number"),
        ('scale = "log2"\nlow = 1\nhigh = 8\ndefault = "64 KiB"\n', "is not a whole number"),
        ('scale = "linear"\nlow = 0\nhigh = 10000\nstep = 1\n', "more than 10000 levels"),
        (f'scale = "log"\nlow = 0.5\nhigh = 1{"0" * 320}\n', "is too large"),
        (f'scale = "linear"\nlow = 4.0\nhigh = 2\nstep = 1{"0" * 320}\n', "low 4.0 is above"),
        ('scale = "boolean"\nvales = [1]\n', "parameters.tcache_count.vales: unknown key"),
        ('scale = "boolean"\nversions = "2.42+"\n', "is not a range of versions"),
        ('scale = "boolean"\nrequires = ["luck"]\n', "requires[0] = "),
        ('scale = "boolean"\nresting = 3\n', "resting: 3 is not a level"),
        ('scale = "boolean"\nresting = 1\n', "resting: 1 is not a level"),
        (
            'scale = "boolean"\nwhen = { parameter = "mode", values = [1] }\n',
            "'mode' is not a parameter that stands before it",
        ),
        ('scale = "boolean"\nwhen = { parameter = "mode" }\n', "give either values or unless"),
        ('scale = "boolean"\n[never]\ntcache_count = "r"\n', "also listed under never"),
        ('scale = "boolean"\n[never]\nx = ""\n', "never.x"),
    ],
)
def test_a_wrong_search_space_is_refused_with_its_place(tmp_path: Path, rest: str, expected: str):
    with pytest.raises(SpecError) as caught:
        load_allocator_file(campaign_file(tmp_path, PARAMETER + rest))
    assert expected in str(caught.value)


def test_a_parent_value_that_does_not_exist_is_named(tmp_path: Path):
    child = (
        'scale = "boolean"\n[[parameters]]\nname = "child"\nscale = "boolean"\neffect = "e"\n'
        'source = "s"\nwhen = { parameter = "tcache_count", unless = ["of"] }\n'
    )
    with pytest.raises(SpecError, match=r'parameters.child.when: "of" is not a level'):
        load_allocator_file(campaign_file(tmp_path, PARAMETER + child))


def test_unset_and_the_specials_survive_a_narrower_scale(tmp_path: Path):
    text = MINIMAL + "[space.glibc]\ntcache_count = { low = 8, high = 32 }\n"
    spec = load_campaign(campaign_file(tmp_path, text))
    parameter = shipped_allocator_file("glibc").find("tcache_count")
    kept = parameter.narrowed(spec.space["glibc"]["tcache_count"])
    assert kept.all == (None, 0, 8, 16, 32)


@pytest.mark.parametrize(
    ("wish", "levels"),
    [
        ({"low": 16, "high": 64}, (None, 32, 64)),
        ({"low": 64, "high": 128}, (None, 64, 128)),
        ({"low": 16, "high": 16}, (None,)),
        ([16], (None,)),
    ],
)
def test_a_range_may_end_at_the_default(wish: object, levels: tuple[object, ...]):
    parameter = shipped_allocator_file("exgen").find("quantum")
    assert parameter.default == 16
    assert parameter.narrowed(Narrowing.model_validate(wish)).all == levels
    with pytest.raises(ValueError, match="8 is outside the search space; the scale runs from 16"):
        parameter.narrowed(Narrowing(low=8))


HUGE = 10**320
"""Above every number with a point."""


@pytest.mark.parametrize(
    ("allocator", "name", "expected"),
    [
        ("glibc", "tcache_count", "is outside the search space"),
        ("tcmalloc", "release_rate", "is not a number"),
    ],
)
def test_a_number_of_any_length_is_refused_in_words(allocator: str, name: str, expected: str):
    parameter = shipped_allocator_file(allocator).find(name)
    with pytest.raises(ValueError, match=expected):
        parameter.narrowed(Narrowing(values=(HUGE,)))
    with pytest.raises(ValueError, match="is outside the search space"):
        parameter.narrowed(Narrowing(high=HUGE))


def test_values_in_any_order_are_each_a_level_once(tmp_path: Path):
    text = MINIMAL.replace("glibc", "exgen") + "[space.exgen]\ndirty_percent = [1000, 0, 50]\n"
    spec = load_campaign(campaign_file(tmp_path, text))
    parameter = shipped_allocator_file("exgen").find("dirty_percent")
    kept = parameter.narrowed(spec.space["exgen"]["dirty_percent"])
    assert sorted(kept.all, key=str) == [0, 1000, 50, None]


@pytest.mark.parametrize(
    ("allocator", "name", "values", "expected"),
    [
        ("glibc", "arena_max", [64, 1, 2], (None, 1, 2, 64)),
        ("jemalloc", "dirty_decay_ms", [1000, 0, 50, -1], (None, -1, 0, 50, 1000)),
        ("jemalloc", "slab_sizes", ["1-14336:8", "1-14336:2"], (None, "1-14336:2", "1-14336:8")),
    ],
)
def test_neighbours_on_a_scale_are_alike_in_whatever_order_they_are_given(
    allocator: str, name: str, values: list[Value], expected: tuple[Value | None, ...]
):
    parameter = shipped_allocator_file(allocator).find(name)
    assert parameter.narrowed(Narrowing(values=tuple(values))).all == expected


# Versions


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        (">=2.42", "2.42", True),
        (">=2.42", "2.36-9+deb12u14", False),
        (">=2.1,<3", "2.10", True),
        ("<2.1", "2.0.9", True),
        (">2.1", "2.1.0", False),
        ("==5.3", "5.3.0-0-g54eaed1d8b", True),
        ("", "1", True),
    ],
)
def test_a_version_lies_in_a_range(text: str, version: str, expected: bool):
    assert expected == is_version_in(version, text)


@pytest.mark.parametrize("text", [">=", "2.4", ">=2.x", "~=2", "newer"])
def test_a_wrong_range_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a range of versions"):
        version_range(text)


def test_a_text_without_a_number_is_no_version():
    with pytest.raises(ValueError, match="not a version"):
        parse_version("unknown")


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        ("a b.trace", "a-b"),
        ("(copy) of x.trace", "copy-of-x"),
        ("größe.trace", "gr-e"),
        ("-.trace", "campaign"),
        ("a.b.trace", "a"),
    ],
)
def test_a_campaign_takes_its_name_from_whatever_name_the_trace_has(trace: str, name: str):
    assert campaign_from_options(trace=trace, allocators=["glibc"]).name == name
