"""Run clang-tidy on C sources, each once, on all cores.

    scripts/tidy.py BUILD FILE...      exit 0 when clang-tidy has nothing to say

A compilation database names a file once for each target that compiles it, and clang-tidy would
check it as often; here the first counts.  Files that no target compiles are an error.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> None:
    """Check the files named on the command line."""
    build, names = Path(sys.argv[1]), sys.argv[2:]
    first: dict[str, dict[str, str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        first.setdefault(entry["file"], entry)
    files = {name: str(Path(name).resolve()) for name in names}
    if unknown := [name for name, file in files.items() if file not in first]:
        sys.exit(f"tidy: no target compiles {', '.join(unknown)}")
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(first.values())))

    def check(name: str) -> bool:
        command = ["clang-tidy", "--quiet", "-p", str(folder), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout, done.stderr, sep="", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sys.exit(not all(list(pool.map(check, names))))


if __name__ == "__main__":
    main()
