"""moocore is had without what fetches its example data, and is the same to all."""

import sys

import pytest

from tests.doubles.processes import printed_by
from tuner import moocore as ours
from tuner.moocore import load_moocore


def test_moocore_comes_without_clients_of_the_network():
    code = (
        "import sys\n"
        "from tuner.moocore import load_moocore\n"
        "found = load_moocore()\n"
        "print(found.hypervolume([[1, 1]], ref=[2, 3]), found is load_moocore())\n"
        "print({'urllib.request', 'ssl', 'email', 'importlib.metadata'} & set(sys.modules))\n"
    )

    assert printed_by(code) == "2.0 True\nset()"


def test_pymoo_gets_the_same():
    code = (
        "from tuner.moocore import load_moocore\n"
        "found = load_moocore()\n"
        "from pymoo.util.nds import non_dominated_sorting\n"
        "print(non_dominated_sorting.pareto_rank is found.pareto_rank)\n"
    )

    assert printed_by(code) == "True"


def test_another_layout_of_moocore_is_imported_as_usual(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "moocore", raising=False)
    monkeypatch.setattr(ours, "_FUNCTIONS", "moocore._elsewhere")

    assert load_moocore().__version__
