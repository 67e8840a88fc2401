"""Environments of the subjects: the campaign's own libraries, nothing of the user's settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.runs import LIBRARIES, campaign_record
from tuner.allocators import Installation
from tuner.errors import MissingToolError, SettingError
from tuner.records import Configuration
from tuner.resources import configs_dir
from tuner.runs import search_spaces
from tuner.store.subject import Subject
from tuner.validate import setup

_LIBRARY = Path("/opt/libjemalloc.so.2")


class Adapter:
    version = "5.3.0"

    def __init__(self, name: str, file: object = None) -> None:
        self.name, _, library = name.partition(":")
        self.library = Path(library) if library else None

    def locate(self, path: Path | None = None) -> Installation:
        path = path or self.library
        return Installation(self.name, path, self.version if self.name == "jemalloc" else "2.36")

    def environment(
        self, installation: Installation, configuration: Configuration
    ) -> dict[str, str]:
        preload = {"LD_PRELOAD": str(installation.library)} if installation.library else {}
        return {**preload, **{f"X_{name}": str(v) for name, v in configuration.settings}}

    def wants_huge_pages(self, configuration: Configuration) -> bool:
        return configuration.as_dict.get("thp") == "always"

    def read_back(self, installation: Installation, configuration: Configuration) -> None:
        if 7 in configuration.as_dict.values():
            raise SettingError("narenas = 7 was not taken")


@pytest.fixture(autouse=True)
def _adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "get_allocator", Adapter)
    monkeypatch.setattr(setup, "libc_malloc", lambda: "/lib/libc.so.6")


def prepare(*configurations: Configuration, **user: str) -> list[setup.Prepared]:
    subjects = [Subject(str(c), c, None, ("knee",)) for c in configurations]
    record = campaign_record(("glibc", "jemalloc"), ("mean_heap",), 4)
    return setup.prepare(subjects, record, user)


def test_library_and_settings_join_the_users_environment():
    settings: dict[str, Any] = {"narenas": 1}
    default, tuned = prepare(
        Configuration("glibc"), Configuration.of("jemalloc", settings), HOME="/root"
    )
    assert default.environment["HOME"] == tuned.environment["HOME"] == "/root"
    assert "LD_PRELOAD" not in default.environment
    assert tuned.environment["LD_PRELOAD"].endswith("libjemalloc.so.2")
    assert tuned.environment["X_narenas"] == "1"


def test_allocator_settings_of_the_user_are_left_out():
    found = prepare(Configuration("glibc"), MALLOC_X="1", LD_PRELOAD="libjemalloc.so.2 shim.so")
    assert found[0].environment.keys() - {"MALLOC_TUNER_PADDING_0"} == {"LD_PRELOAD"}
    assert found[0].environment["LD_PRELOAD"] == "shim.so"
    assert setup.with_libc_malloc(found)[0].environment["LD_PRELOAD"] == "/lib/libc.so.6:shim.so"


def test_settings_stand_first_because_mimalloc_reads_256_variables():
    (tuned,) = prepare(Configuration.of("jemalloc", {"narenas": 1}), HOME="/root", X_narenas="9")

    assert list(tuned.environment)[-1] != "X_narenas"
    assert list(tuned.environment).index("X_narenas") < list(tuned.environment).index("HOME")
    assert tuned.environment["X_narenas"] == "1"


def test_environments_are_padded_alike():
    found = prepare(Configuration("glibc"), Configuration.of("jemalloc", {"narenas": 123}))
    sizes = {sum(len(f"{k}={v}") for k, v in entry.environment.items()) for entry in found}
    assert len(sizes) == 1


def test_libc_goes_in_front_only_where_nothing_is_preloaded():
    found = setup.with_libc_malloc(prepare(Configuration("glibc"), Configuration("jemalloc")))
    libraries = [entry.environment["LD_PRELOAD"] for entry in found]
    assert libraries[0] == "/lib/libc.so.6"
    assert "jemalloc" in libraries[1]
    sizes = {sum(len(f"{k}={v}") for k, v in entry.environment.items()) for entry in found}
    assert len(sizes) == 1
    assert len({len(entry.environment) for entry in found}) == 1


def test_setting_that_does_not_take_effect_is_refused_with_its_reason():
    good, bad = prepare(Configuration("jemalloc"), Configuration.of("jemalloc", {"narenas": 7}))
    assert (good.refusal, bad.refusal) == (None, "narenas = 7 was not taken")


def test_another_version_than_the_campaigns_proves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Adapter, "version", "5.2.1")
    with pytest.raises(MissingToolError, match=r"version 5\.3\.0 was measured, here is 5\.2\.1"):
        prepare(Configuration("jemalloc"))


def test_search_space_of_the_campaign_replaces_the_shipped_one(tmp_path: Path):
    assert search_spaces(tmp_path) == {}
    shipped = (configs_dir() / "allocators" / "glibc.toml").read_text()
    (tmp_path / "glibc.toml").write_text(shipped.replace('name = "mxfast"', 'name = "mxslow"', 1))
    (tmp_path / "campaign.toml").write_text(
        'name = "x"\ntrace = "x.trace"\nallocators = ["glibc"]\nspace_files = ["glibc.toml"]\n'
    )
    assert "mxslow" in search_spaces(tmp_path)["glibc"].keys


def test_allocator_that_no_subject_uses_need_not_be_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Adapter, "version", "5.2.1")
    assert len(prepare(Configuration("glibc"))) == 1


@pytest.mark.parametrize("brought", ["/usr/lib/libjemalloc.so.2", "/opt/redis/libother.so"])
def test_a_program_with_an_allocator_of_its_own_is_a_subject(brought: str):
    campaign = campaign_record(("glibc", "jemalloc"), ("mean_heap", "cost"), 4)
    records = dict(campaign.allocators)
    records["jemalloc"] = replace(records["jemalloc"], library=str(_LIBRARY))
    plain = Subject("glibc-default", Configuration("glibc"), 0, ("default",))
    user = {"HOME": "/root", "MALLOC_CONF": "narenas:2"}
    entries = setup.with_program_as_it_is(
        Path(brought),
        [setup.Prepared(plain, {"LD_PRELOAD": "libc.so.6"}, None)],
        replace(campaign, allocators=records),
        user,
    )
    is_known = "jemalloc" in brought
    labels = ["as-it-is", "glibc-default"] if is_known else ["glibc-default", "as-it-is"]
    assert [entry.subject.label for entry in entries] == labels
    (own,) = [entry for entry in entries if entry.subject.is_as_it_is]
    assert own.subject.configuration == Configuration("jemalloc" if is_known else "libother.so")
    assert user.items() <= own.environment.items()
    assert "LD_PRELOAD" not in own.environment
    assert len({sum(map(len, (*e.environment, *e.environment.values()))) for e in entries}) == 1


def located(*texts: str) -> dict[str, Path | None]:
    record = campaign_record(("glibc", "jemalloc"), ("mean_heap",), 4)
    found = setup.locate_choices(texts, record.allocators, {})
    return {name: installation.library for name, (_, installation) in found.items()}


def test_an_allocator_of_the_campaign_is_the_library_it_measured():
    assert located("jemalloc", "glibc") == {
        "jemalloc": Path(str(LIBRARIES["jemalloc"])),
        "glibc": None,
    }


def test_a_library_that_is_named_is_taken():
    found = located(f"jemalloc:{_LIBRARY}", "mimalloc:/opt/libmimalloc.so")
    assert found == {"jemalloc": _LIBRARY, "mimalloc": Path("/opt/libmimalloc.so")}


def test_a_library_of_another_version_than_the_campaigns_is_refused_for_services_too(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Adapter, "version", "5.2.1")
    with pytest.raises(MissingToolError, match=r"version 5\.3\.0 was measured, here is 5\.2\.1"):
        located("jemalloc")


def test_what_wants_huge_pages_for_all_memory_is_known():
    huge = Configuration.of("jemalloc", {"thp": "always"})
    found = prepare(Configuration("jemalloc"), huge, Configuration.of("glibc", {"mxfast": 0}))
    assert [one.wants_huge_pages for one in found] == [False, True, False]
