"""The single-threaded programs of allocators.py, and how their input is made.

Every input is made from this file or shipped in ``configs/workloads``, so that two runs
on two days see the same.  Further programs, already built, come from a TOML file:

    [[program]]
    name = "cfrac"
    command = ["/opt/bench/cfrac", "17545186520507317056371138836327483792789528"]
    folder = "/opt/bench"        # optional: where it runs
    rounds = 3                   # optional: at most so many rounds
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tuner.resources import configs_dir

ROOT: Final = Path(__file__).resolve().parent.parent
GEM5: Final = "GEM5"
"""Variable with the path of gem5.opt."""
PAIRS: Final = "pairs"
"""Begin of the name of a command that only allocates and frees."""


@dataclass(frozen=True)
class Command:
    """A program that is ready to run."""

    name: str
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    """Beside PATH and the allocator's."""
    folder: Path | None = None
    """Where it runs; None: anywhere."""
    rounds: int | None = None
    """Runs on each subject at most; None: as many as all others."""


Make = Callable[[Path, bool], Command]
"""Makes a program's input in a folder, for a smoke run or not."""


def _cc1(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    """Return the C compiler proper on many functions."""
    lines = ["typedef struct { long a[4]; int n; } record;"]
    lines += [_function(n) for n in range(20 if smoke else 250)]
    source = folder / "functions.i"
    source.write_text("\n".join(lines) + "\n")
    return Command(
        "cc1", (_compiler("gcc", "cc1"), "-quiet", "-O2", str(source), "-o", "/dev/null")
    )


def _function(n: int) -> str:
    return (
        f"long f{n}(record *r, long x) {{ long s = {n}; for (int i = 0; i < r->n; i++) "
        f"{{ if (r->a[i & 3] > x * {n % 7 + 1}) s += r->a[i & 3] ^ x; else s -= x << "
        f"(i & {n % 5 + 1}); switch (s & 7) {{ case 1: s ^= {n}; break; case 2: s *= 3; "
        f"break; default: s += i; }} }} return s; }}"
    )


def _cc1plus(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    source, preprocessed = folder / "containers.cpp", folder / "containers.ii"
    shipped = configs_dir() / "workloads" / "cxx-compile" / "containers.cpp"
    source.write_text("#include <vector>\nint n;\n" if smoke else shipped.read_text())
    subprocess.run(["g++", "-std=c++17", "-E", source, "-o", preprocessed], check=True)
    flags = ("-quiet", "-fpreprocessed", "-O1", "-std=c++17")
    words = (_compiler("g++", "cc1plus"), *flags, str(preprocessed), "-o", "/dev/null")
    return Command("cc1plus", words)


def _compiler(driver: str, name: str) -> str:
    asked = [driver, f"-print-prog-name={name}"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


PYTHON_SCRIPT: Final = """
import json, re, collections
words = [f"word{i * 7919 % 5003}" for i in range(N)]
count = collections.Counter(words)
records = [{"id": i, "name": w, "tags": [w, str(i)], "score": i / 3} for i, w in enumerate(words)]
text = json.dumps(records)
back = json.loads(text)
groups = collections.defaultdict(list)
for record in back:
    groups[record["name"]].append(record["score"])
found = re.findall(r'"name": "(word\\d+)"', text)
print(len(text), len(found), max(count.values()), sum(len(g) for g in groups.values()))
"""


def python_command(folder: Path, n_records: int) -> Command:
    """Return an interpreter whose every object goes through malloc."""
    script = folder / f"records-{n_records}.py"
    script.write_text(PYTHON_SCRIPT.replace("N)", f"{n_records})"))
    words = (os.path.realpath(sys.executable), "-S", "-s", str(script))
    variables = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return Command("python", words, variables)


def _python(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    return python_command(folder, 500 if smoke else 40000)


_SQL: Final = """create table t(id integer primary key, name text, amount real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < ROWS)
insert into t select i, 'name' || (i * 7919 % 5003) || hex(i), i / 3.0 from n;
create index by_name on t(name);
select count(*), sum(amount) from t where name between 'name1' and 'name4';
select a.name, count(*) c from t a join t b on a.id = b.id + 1
group by a.name order by c, 1 limit 9;
update t set name = name || 'x' where id % 3 = 0;
select name, group_concat(id) from t where id % 50 = 0 group by name order by 1 limit 20;
delete from t where id % 5 = 0; select count(*), max(name) from t;
"""


def _sqlite(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    script = folder / "table.sql"
    script.write_text(_SQL.replace("ROWS", "500" if smoke else "60000"))
    return Command("sqlite3", ("sqlite3", "-batch", ":memory:", f".read {script}"))


def _ghostscript(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    del folder
    pages = configs_dir() / "workloads" / "ghostscript-pages" / "pages.ps"
    batch = ("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw")
    return Command("ghostscript", (*batch, f"-r{20 if smoke else 100}", "-sOutputFile=%stdout",
                                   str(pages)))  # fmt: skip


def _git(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    """Make a history by fast-import and return the call that shows it with its changes."""
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True, env=_git_variables())
    subprocess.run(
        ["git", "-C", repository, "fast-import", "--quiet"],
        input="".join(_history(10 if smoke else 400)).encode(),
        check=True,
        env=_git_variables(),
    )
    words = ("git", "-C", str(repository), "log", "--stat", "-p", "main")
    return Command("git", words, {name: _git_variables()[name] for name in _GIT})


_GIT: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_PAGER": "cat",
}


def _git_variables() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **_GIT}


def _history(n_commits: int) -> Iterator[str]:
    for n in range(n_commits):
        yield f"commit refs/heads/main\ncommitter A <a@example.org> {1700000000 + n} +0000\n"
        yield "data 7\nchange\n\n"
        for file in range(n % 5 + 1):
            lines = [f"line {i} of {file} {i * (n + 1) % 97}\n" for i in range(150)]
            text = "".join(lines)
            yield f"M 100644 inline folder{n % 7}/file{file}.txt\ndata {len(text)}\n{text}\n"


def _perl(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    del folder, smoke
    return perl_command()


def perl_command() -> Command:
    """Return the shipped index of words, which is all hashes and strings."""
    script = configs_dir() / "workloads" / "perl-index" / "index.pl"
    return Command("perl", ("perl", str(script)), {"PERL_HASH_SEED": "0"}, script.parent)


def _ls(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    many = folder / "many"
    many.mkdir()
    for n in range(20 if smoke else 3000):
        (many / f"file-{n * 7919 % 10007:05}-{n}").touch()
    return Command("ls", ("ls", "-l", "--time-style=+", "-n", str(many)))


def _true(folder: Path, smoke: bool) -> Command:  # noqa: FBT001 - see Make
    del folder, smoke
    return Command("true", ("/bin/true",))


_PROGRAMS: Final[tuple[tuple[tuple[str, ...], Make], ...]] = (
    (("gcc",), _cc1),
    (("g++",), _cc1plus),
    ((), _python),
    (("sqlite3",), _sqlite),
    (("gs",), _ghostscript),
    (("git",), _git),
    (("perl",), _perl),
    (("ls",), _ls),
    ((), _true),
)
"""What must be installed, and what makes the command."""


def make_programs(folder: Path, *, smoke: bool) -> list[Command]:
    """Make the inputs of all programs that are installed and return their commands."""
    found = []
    for needed, make in _PROGRAMS:
        missing = [name for name in needed if shutil.which(name) is None]
        if missing:
            print(f"left out, not installed: {missing[0]}", file=sys.stderr)
            continue
        own = folder / f"{make.__name__.strip('_')}{'-smoke' if smoke else ''}"
        if own.exists():
            shutil.rmtree(own)
        own.mkdir(parents=True)
        found.append(make(own, smoke))
    return found


def read_programs(file: Path) -> list[Command]:
    """Read already built programs from a TOML file.

    Raises:
        SystemExit: the file is wrong; says how.
    """
    try:
        entries = tomllib.loads(file.read_text())["program"]
        return [_entry(entry) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        sys.exit(f"{file}: {error!r}; each [[program]] needs name and command")


def _entry(entry: dict[str, object]) -> Command:
    words, folder, rounds = entry["command"], entry.get("folder"), entry.get("rounds")
    unknown = set(entry) - {"name", "command", "folder", "rounds"}
    if not isinstance(words, list) or unknown or not isinstance(rounds, int | None):
        raise TypeError(entry)
    place = Path(str(folder)) if folder else None
    return Command(str(entry["name"]), tuple(map(str, words)), {}, place, rounds)


def memory_cases(folder: Path) -> list[Command]:
    """Compile programs that are hard on an allocator's memory; each prints a number of bytes."""
    program = folder / "memory_cases"
    source = Path(__file__).with_name("memory_cases.c")
    subprocess.run(["cc", "-O1", "-pthread", source, "-o", program], check=True)
    listed = subprocess.run([program, "list"], check=True, capture_output=True, text=True)
    return [Command(mode, (str(program), mode)) for mode in listed.stdout.split()]


def pairs_command(folder: Path, n_bytes: int, n: int) -> Command:
    """Compile a program that is nothing but pairs of malloc and free of one size."""
    program = folder / "pairs"
    source = Path(__file__).with_name("pairs.c")
    subprocess.run(["cc", "-O2", "-fno-builtin", source, "-o", program], check=True)
    return Command(f"{PAIRS} of {n_bytes} bytes", (str(program), str(n_bytes), str(n)))


def gem5_command(folder: Path, *, smoke: bool) -> Command | None:
    """Return a simulation of an out-of-order processor; None when GEM5 is not set."""
    gem5 = os.environ.get(GEM5)
    if not gem5:
        return None
    home = ROOT / "gem5-validate"
    guest = folder / "tree"
    flags = ["-O2", "-static", "-o", str(guest)]
    subprocess.run(["gcc", *flags, str(home / "guests" / "tree.c")], check=True)
    run = [gem5, "-d", str(folder / "m5out"), str(home / "run.py")]
    run += ["--machine", str(home / "machines" / "o3.json"), "--guest", str(guest)]
    return Command("gem5", (*run, "--", "10" if smoke else "1500"), {}, folder)
