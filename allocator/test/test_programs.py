"""Real programs print the same under exgen as under the C library's malloc.

test_programs.py LIBEXGEN LIBEXGEN_ST.  Each program runs without and with the
library preloaded; output and exit code must be equal.  A program that is not
installed is named and skipped; programs with threads run with LIBEXGEN only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { for (int i = 0; i < 10; i++) printf("%d\\n", i * i); return 0; }
"""

CXX_SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
std::map<std::string, std::vector<int>> m;
int f() { for (int i = 0; i < 9; i++) m[std::to_string(i)].push_back(i);
          std::sort(m["1"].begin(), m["1"].end()); return (int)m.size(); }
"""

POSTSCRIPT = """%!PS
0 1 400 { dup 600 mod exch 7 mul 800 mod moveto 300 400 lineto stroke } for
/Helvetica findfont 12 scalefont setfont 72 72 moveto (hello) show showpage
"""

PYTHON = """
import json, re, collections
d = {str(i): [i] * (i % 30) for i in range(3000)}
s = json.dumps(d)
print(len(json.loads(s)), collections.Counter(re.findall(r"\\d+", s)).most_common(3))
"""

PYTHON_THREADS = """
import threading
results = []
def work(n):
    results.append(sum(len(str(i)) for i in range(n)))
threads = [threading.Thread(target=work, args=(5000 + i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(results))
"""

SQL = """
create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<20000)
insert into t select x, hex(x*7919%10007) from c;
create index i on t(b);
delete from t where a%5=0;
select count(*), sum(a), max(b) from t;
select b, count(*) from t group by b order by 2 desc, 1 limit 3;
"""


@dataclass(frozen=True)
class Case:
    """One command, run in a directory that holds the sources above."""

    name: str
    command: list[str]
    has_threads: bool = False


CASES = [
    Case("bash", ["bash", "-c", "for i in $(seq 300); do echo $((i*i)); done | sort -n | tail -3"]),
    Case("gcc", ["gcc", "-O2", "-S", "-o", "-", "a.c"]),
    Case("g++", ["g++", "-O1", "-S", "-o", "-", "b.cpp"]),
    Case("python3", [sys.executable, "a.py"]),
    Case("python3 with threads", [sys.executable, "t.py"], has_threads=True),
    Case("sqlite3", ["sqlite3", ":memory:", ".read a.sql"]),
    Case(
        "gs",
        ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=ppmraw", "-r40", "-sOutputFile=-", "a.ps"],
    ),
    Case(
        "git",
        [
            "bash",
            "-c",
            (
                "git init -q r && cd r && git config user.email a@b && git config user.name n"
                " && seq 5000 > f && git add f && GIT_AUTHOR_DATE=2001-01-01T00:00:00Z"
                " GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit -qm one"
                " && git log --stat && cd .. && rm -rf r"
            ),
        ],
    ),
    Case(
        "perl", ["perl", "-e", 'my %h; $h{$_ % 97} .= $_ for 1..50000; print length($h{5}), "\\n"']
    ),
    Case(
        "redis-server",
        [
            "bash",
            "-c",
            (
                "redis-server --port 0 --unixsocket ./s --save '' >/dev/null & p=$!;"
                " until redis-cli -s ./s ping >/dev/null 2>&1; do sleep 0.05; done;"
                " seq 2000 | sed 's/.*/SET k& &/' | redis-cli -s ./s | sort | uniq -c;"
                " redis-cli -s ./s dbsize; redis-cli -s ./s shutdown nosave; wait $p"
            ),
        ],
        has_threads=True,
    ),
]


def run(case: Case, directory: Path, library: str | None) -> tuple[int, bytes]:
    environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONMALLOC="malloc")
    environment.pop("LD_PRELOAD", None)
    if library is not None:
        environment["LD_PRELOAD"] = library
        environment["EXGEN_CONF"] = "abort_conf:true"
    done = subprocess.run(
        case.command,
        cwd=directory,
        env=environment,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if b"exgen:" in done.stderr or b"ld.so" in done.stderr:
        return -1, done.stderr
    return done.returncode, done.stdout


def main() -> int:
    both, single = sys.argv[1:3]
    n_failed = 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        sources = {
            "a.c": C_SOURCE,
            "b.cpp": CXX_SOURCE,
            "a.ps": POSTSCRIPT,
            "a.py": PYTHON,
            "t.py": PYTHON_THREADS,
            "a.sql": SQL,
        }
        for file, text in sources.items():
            (directory / file).write_text(text)
        for case in CASES:
            program = "redis-cli" if case.name == "redis-server" else case.command[0]
            if shutil.which(program) is None or shutil.which(case.name.split()[0]) is None:
                print(f"{case.name}: not installed, skipped")
                continue
            expected = run(case, directory, None)
            for library in [both] if case.has_threads else [both, single]:
                actual = run(case, directory, library)
                verdict = (
                    "same"
                    if actual == expected
                    else f"DIFFERS: {actual!r:.300} for {expected!r:.300}"
                )
                print(f"{case.name}, {Path(library).name}: exit {expected[0]}, {verdict}")
                n_failed += actual != expected
    print(f"{n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
