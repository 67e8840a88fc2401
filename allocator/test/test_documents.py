"""The documents are true: settings, length of the fast paths, JSON list.

test_documents.py FOLDER EXGEN_OPTIONS LIBEXGEN.  What README.md, SETTINGS.md and exgen.h say of
settings must be what exgen-options prints; the instruction counts stated there
must be those of the library's code (x86-64, gcc, release build).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def instructions_of_common_path(disassembly: str, function: str) -> int:
    """Count instructions from the entry of `function` to its first ret.

    Some distributions' gcc marks every entry by endbr64, which does nothing.
    """
    body = disassembly.split(f"<{function}>:\n")[1].split("\n\n", maxsplit=1)[0]
    lines = [line for line in body.splitlines() if "\tendbr64" not in line]
    for count, line in enumerate(lines, start=1):
        if re.search(r"\tret", line):
            return count
    raise ValueError(f"{function} has no ret")


def between_marks(document: str) -> str:
    after_begin = document.split("<!-- options: begin -->\n")[1]
    return after_begin.split("<!-- options: end -->", maxsplit=1)[0].strip()


def check_settings(folder: Path, tool: str) -> None:
    for name, form in (("README.md", "markdown"), ("SETTINGS.md", "others")):
        table = between_marks((folder / name).read_text())
        assert table == output_of(tool, form).strip(), f"{name}: run exgen-options {form}"
    header = (folder / "include/exgen.h").read_text()
    assert output_of(tool, "header") in header, "exgen.h: run exgen-options header"


def check_json(tool: str) -> None:
    listed = json.loads(output_of(tool, "json"))
    assert listed["format"] == 1
    names = [o["name"] for o in listed["options"]]
    assert len(names) == len(set(names)) > 20
    assert [o["use"] for o in listed["options"]].count("production") == 11
    for option in listed["options"]:
        assert option["effect"] and option["kind"] in {"number", "flag", "choice", "list"}
        assert option["group"] in {"shape", "reuse", "return", "safety"}
        if option["kind"] == "number":
            assert option["low"] <= option["default"] <= option["high"]
        if option["kind"] == "choice":
            assert option["default"] in option["choices"]


def check_fast_paths(readme: str, library: str) -> None:
    if shutil.which("objdump") is None or "x86-64" not in output_of("objdump", "-f", library):
        print("no objdump for x86-64: instruction counts not checked")
        return
    if b"clang" in Path(library).read_bytes():
        print("not built by gcc: instruction counts not checked")
        return
    code = output_of("objdump", "-d", "--no-show-raw-insn", library)
    for function, symbol in (("malloc", "__libc_malloc"), ("free", "__libc_free")):
        stated = int(re.search(rf"`{function}`: (\d+) instructions", readme).group(1))
        counted = instructions_of_common_path(code, symbol)
        assert counted <= stated, f"{function}: {counted} instructions, README says {stated}"


def main() -> int:
    folder = Path(sys.argv[1])
    check_settings(folder, sys.argv[2])
    check_json(sys.argv[2])
    check_fast_paths((folder / "README.md").read_text(), sys.argv[3])
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
