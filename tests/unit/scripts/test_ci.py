"""`.ci/run`: a step that fails fails it, also the one that runs beside others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.places import ROOT

MAKE = """#!/bin/sh
echo "make $1"
case $1 in
test) echo "=== 7 passed in 1.00s ===" ;;
wheel) mkdir dist && touch dist/malloc_tuner-0-py3-none-any.whl ;;
esac
[ "$1" != "$FAILING" ]
"""
PYTHON = """#!/bin/sh
case $2 in
venv)
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    printf '#!/bin/sh\\necho malloc-tuner\\n' > "$3/bin/malloc-tuner"
    chmod +x "$3/bin/malloc-tuner"
    ;;
*configs*) echo "$PWD/venv/configs" ;;
esac
"""
DEMO = """#!/bin/sh
mkdir -p runs/demo/exports
for name in store.sqlite report.html exports/balanced.env exports/balanced.json; do
    echo > runs/demo/$name
done
[ demo != "$FAILING" ]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the script, and stand-ins for all that it starts."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "scripts").mkdir()
    texts = {"bin/make": MAKE, "bin/python": PYTHON, "scripts/demo": DEMO}
    texts["scripts/packages"] = "#!/bin/sh\n"
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def ci(checkout: Path, failing: str = "") -> subprocess.CompletedProcess[str]:
    places = {
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "PYTHON": str(checkout / "bin" / "python"),
        "TMPDIR": str(checkout),
        "GEM5": "/none",
    }
    return subprocess.run(
        [checkout / ".ci" / "run"],
        env={**os.environ, **places, "FAILING": failing},
        check=False,
        capture_output=True,
        text=True,
    )


def test_it_runs_all_and_ends_with_the_summary_of_the_tests(checkout: Path):
    done = ci(checkout)

    assert done.returncode == 0, done.stderr
    for step in ("make test", "make test-sanitized", "make lint", "make wheel"):
        assert f"{step}\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "=== 7 passed in 1.00s ==="
    assert not list(checkout.glob("tmp.*"))


@pytest.mark.parametrize("step", ["test", "test-sanitized", "wheel", "lint", "demo"])
def test_a_step_that_fails_fails_it(checkout: Path, step: str):
    done = ci(checkout, step)

    assert done.returncode != 0
    assert not list(checkout.glob("tmp.*"))


@pytest.mark.parametrize(
    ("skip", "status"),
    [
        ("def test_it(): pytest.skip('no kubectl')", 0),
        ("def test_it(): pytest.skip('no reason')", 1),
        ("pytest.importorskip('nothing')", 2),
    ],
)
def test_a_test_that_is_skipped_for_no_known_reason_fails(tmp_path: Path, skip: str, status: int):
    (tmp_path / "test_it.py").write_text(f"import pytest\n{skip}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "test_it.py"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "SKIPS": "known"}

    done = subprocess.run(command, cwd=tmp_path, env=variables, check=False, capture_output=True)

    assert done.returncode == status, done.stdout.decode()
