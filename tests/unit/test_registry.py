"""To add a part is to write its file and one line of the registry: nothing else is touched."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import runners, synthetic
from tests.doubles.programs import library
from tests.unit.compare.test_runners import CHECKS
from tests.unit.export.test_formats import plain
from tuner.allocators import Allocator, all_allocators, get_allocator
from tuner.config import allocator_variables, campaign_from_options
from tuner.errors import MissingToolError, SettingError
from tuner.export.formats import render
from tuner.measure.program import clean_environment
from tuner.records import Configuration
from tuner.registry import ALLOCATORS, EXECUTORS, EXPORTERS, RUNNERS, STRATEGIES, Entry
from tuner.resources import configs_dir
from tuner.search import make_strategy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("table", [ALLOCATORS, EXECUTORS, STRATEGIES, EXPORTERS, RUNNERS])
def test_every_entry_leads_somewhere(table: dict[str, Entry]):
    there = [one for one in table.values() if find_spec(one.distribution or "numpy")]
    assert all(callable(entry.load()) for entry in there)


TOY = """
#include <stdio.h>
#include <stdlib.h>
void *__libc_malloc(size_t n);
void *malloc(size_t n) { return __libc_malloc(n); }
static int number(const char *name, int most) {
    int asked = getenv(name) ? atoi(getenv(name)) : 0;
    return asked < most ? asked : most;
}
__attribute__((constructor)) static void begin(void) {
    if (getenv("TOY_VERBOSE"))
        dprintf(2, "toy 1.2\\ntoy: decay is %d\\n", number("TOY_DECAY", 100));
}
"""
"""An allocator that prints its version and its one setting, which it clips."""

TOY_FILE = """
schema = 1
name = "toy"
title = "the toy allocator"
[library]
sonames = ["libtoy.so"]
[environment]
variable = "TOY_{NAME}"
[report]
environment = { TOY_VERBOSE = "1" }
version = '^toy (?P<version>[0-9.]+)$'
setting = '^toy: (?P<name>\\w+) is (?P<value>\\S+)$'
hidden = ["burst"]
"""
for _name in ("decay", "speed", "burst"):
    TOY_FILE += f"""
[[parameters]]
name = "{_name}"
scale = "log"
low = 1
high = 1000
effect = "none"
source = "here"
"""


@pytest.fixture
def toy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Allocator]:
    """An allocator that is known by its file and a line of the registry alone."""
    shutil.copytree(configs_dir() / "allocators", folder / "allocators")
    (folder / "allocators/toy.toml").write_text(TOY_FILE)
    monkeypatch.setattr("tuner.config.allocator_file.configs_dir", lambda: folder)
    monkeypatch.setitem(ALLOCATORS, "toy", Entry("tuner.allocators:Allocator"))
    allocator_variables.cache_clear()
    yield get_allocator("toy")
    allocator_variables.cache_clear()


def test_an_allocator_is_its_file_and_a_line(toy: Allocator):
    rendered = toy.render(Configuration.of("toy", {"decay": 5}))

    assert all_allocators()[-1].name == toy.name == "toy"
    assert rendered == {"TOY_DECAY": "5"}
    assert clean_environment({"TOY_DECAY": "5", "HOME": "/"}) == {"HOME": "/"}
    spec = campaign_from_options(trace="app.trace", allocators=["glibc", "toy"])
    assert list(spec.allocators) == ["glibc", "toy"]
    with pytest.raises(MissingToolError, match="not on this machine; name the file as toy:/path"):
        toy.locate()


def test_what_such_an_allocator_prints_proves_its_settings(toy: Allocator, tmp_path: Path):
    place = toy.locate(library(tmp_path, TOY, "toy"))

    assert place.version == "1.2"
    toy.read_back(place, Configuration.of("toy", {"decay": 50, "burst": 10}))
    for settings, why in (
        ({"decay": 500}, "toy 1.2: decay = 500 was not taken: 100 is in effect"),
        ({"speed": 5}, "speed = 5 was not taken: the allocator does not know it"),
        ({"burst": 5000}, "what becomes of it cannot be seen; allowed: "),
    ):
        with pytest.raises(SettingError, match=why):
            toy.read_back(place, Configuration.of("toy", settings))


def test_a_strategy_is_a_file_and_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "toy_strategy.py").write_text(
        "from tuner.search.random_search import RandomSearch\nclass Toy(RandomSearch):\n    pass\n"
    )
    monkeypatch.setitem(STRATEGIES, "toy", Entry("toy_strategy:Toy", "a toy"))
    space = synthetic.space()

    strategy = make_strategy("toy", space, 2, population=16, seed=1, initial=[])

    assert len(strategy.ask()) == 16
    spec = campaign_from_options(trace="app.trace", allocators=["glibc"], strategy="toy")
    assert spec.strategy == "toy"


def test_an_exporter_is_a_file_and_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "toy_exporter.py").write_text(
        "from tuner.export.formats import comments, document\n"
        "def lines(deployment):\n"
        "    return document(comments(deployment), [n for n, _ in deployment.variables])\n"
    )
    monkeypatch.setitem(EXPORTERS, "toy", Entry("toy_exporter:lines"))

    text = render(plain(dirty_decay_ms=0), "toy")

    assert text.startswith("# jemalloc 5.3.0, 1 setting; written by malloc-tuner")
    assert text.endswith("\nLD_PRELOAD\nMALLOC_CONF\n")


@pytest.mark.parametrize("check", CHECKS)
def test_a_runner_is_a_file_and_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch, check: Any):
    (folder / "toy_runner.py").write_text(
        "from tuner.records import Outcome, Status\n"
        "class Toy:\n"
        "    def __init__(self, is_good):\n"
        "        self._is_good = is_good\n"
        "    def __call__(self, step):\n"
        "        if self._is_good(step.subject):\n"
        "            return Outcome.succeeded({'cpu': 1.0})\n"
        "        return Outcome.did_not_succeed(Status.FAILED, 'no')\n"
    )
    monkeypatch.setitem(RUNNERS, "toy", Entry("toy_runner:Toy"))

    check(runners.of_rounds(lambda script: RUNNERS["toy"].load()(script.is_good)), folder / "run")
