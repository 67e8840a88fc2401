"""Put an answer of `malloc-tuner optimize`, and its front as a picture, into the README.

RUN is the folder of `malloc-tuner optimize -o RUN -- configs/workloads/perl-index/run.sh`.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "front.svg"

BEGIN, END = "<!-- answer: begin, by scripts/readme.py -->\n", "<!-- answer: end -->\n"


def shown(answer: Mapping[str, Any], folder: Path) -> str:
    """Return the command and what it printed, as Markdown.

    Args:
        answer: content of ``answer.json``.
        folder: paths below it are shown relative to it.
    """
    words = [word.removeprefix(f"{folder}/") for word in answer["command"]]
    command = f"malloc-tuner optimize -- {shlex.join(words)}"
    return "```console\n" + "\n".join([f"$ {command}", *answer["text"]]) + "\n```\n"


def with_answer(page: str, text: str) -> str:
    """Return the page with a text between its markers.

    Raises:
        ValueError: the page lacks a marker.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN.strip()} and {END.strip()}")
    return head + begin + text + end + tail


def draw(run: Path, picture: Path) -> None:
    """Draw the front of a run, as its report does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tuner.cli.main", "report", str(run), "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(Path(folder) / "figures" / "front.svg", picture)


def main(words: Sequence[str] | None = None) -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder of optimize")
    run = parser.parse_args(words).run
    answer = json.loads((run / "answer.json").read_text())
    README.write_text(with_answer(README.read_text(), shown(answer, ROOT)))
    draw(run, PICTURE)


if __name__ == "__main__":
    main()
