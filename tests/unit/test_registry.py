"""To add a part is to write its file and one line of the registry: nothing else is touched."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import runners, synthetic
from tests.unit.compare.test_runners import CHECKS
from tests.unit.export.test_formats import plain
from tuner.allocators import all_allocators, get_allocator
from tuner.config import campaign_from_options
from tuner.export.formats import render
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
def test_every_entry_leads_somewhere(table: dict[str, Entry]) -> None:
    there = [one for one in table.values() if find_spec(one.distribution or "numpy")]
    assert all(callable(entry.load()) for entry in there)


def test_an_allocator_is_its_file_its_settings_and_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "toy_allocator.py").write_text(
        "from tuner.allocators.tcmalloc import Tcmalloc\nclass Toy(Tcmalloc):\n    name = 'toy'\n"
    )
    shutil.copytree(configs_dir() / "allocators", folder / "allocators")
    settings = (folder / "allocators/tcmalloc.toml").read_text().replace("tcmalloc", "toy")
    (folder / "allocators/toy.toml").write_text(settings)
    monkeypatch.setattr("tuner.config.allocator_file.configs_dir", lambda: folder)
    monkeypatch.setitem(ALLOCATORS, "toy", Entry("toy_allocator:Toy"))

    toy = get_allocator("toy")
    rendered = toy.render(Configuration.of("toy", {"aggressive_decommit": True}))

    assert all_allocators()[-1].name == toy.name == "toy"
    assert rendered == {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"}
    spec = campaign_from_options(trace="app.trace", allocators=["glibc", "toy"])
    assert list(spec.allocators) == ["glibc", "toy"]


def test_a_strategy_is_a_file_and_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "toy_strategy.py").write_text(
        "from tuner.search.random_search import RandomSearch\nclass Toy(RandomSearch):\n    pass\n"
    )
    monkeypatch.setitem(STRATEGIES, "toy", Entry("toy_strategy:Toy", "a toy"))
    space = synthetic.space()

    strategy = make_strategy("toy", space, 2, population=16, seed=1, initial=[])

    assert len(strategy.ask()) == 16
    spec = campaign_from_options(trace="app.trace", allocators=["glibc"], strategy="toy")
    assert spec.strategy == "toy"


def test_an_exporter_is_a_file_and_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_runner_is_a_file_and_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, check: Any
) -> None:
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
