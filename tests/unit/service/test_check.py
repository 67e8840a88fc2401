"""Settings of an export, looked for in processes that have them, or not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.allocators import get_allocator
from tuner.cli.main import run
from tuner.errors import MissingToolError, ProgramError, SpecError
from tuner.records import Configuration, Value
from tuner.service import check as checking
from tuner.service.check import ExportedSetting, InEffect, check_process, load_expected
from tuner.service.processes import process_of

TUNABLES = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}
EXPORT = {"schema": "malloc-tuner.export", "version": 1, "allocator": "glibc", "library": None}
GLIBC = ExportedSetting(Configuration.of("glibc", {"arena_max": 2}), None, TUNABLES)


@contextmanager
def process(
    environment: Mapping[str, str], program: str = "", starter: Sequence[str] = ()
) -> Iterator[int]:
    """Run a program that says when it has begun, and waits; a starter becomes it."""
    text = f"{program}\nprint('ready', flush=True)\nimport time; time.sleep(600)"
    with subprocess.Popen(
        [*starter, sys.executable, "-S", "-c", text], env=environment, stdout=subprocess.PIPE
    ) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == b"ready\n"
        try:
            yield found.pid
        finally:
            found.kill()


def verdicts(pid: int, expected: ExportedSetting) -> dict[str, bool | None]:
    return {one.what: one.is_in_effect for one in check_process(pid, expected)}


def jemalloc() -> str:
    try:
        return str(get_allocator("jemalloc").locate().library)
    except MissingToolError:
        pytest.skip("jemalloc is not installed")


def of_jemalloc(library: str, **settings: Value) -> ExportedSetting:
    words = (f"{name}:{str(value).lower()}" for name, value in settings.items())
    variables = {"MALLOC_CONF": ",".join(words)}
    return ExportedSetting(Configuration.of("jemalloc", settings), library, variables)


def test_what_a_process_was_started_with_is_in_effect():
    with process(TUNABLES) as pid:
        assert verdicts(pid, GLIBC) == {"library": True, "GLIBC_TUNABLES": True, "arena_max": True}


def test_a_variable_that_was_lost_or_changed_is_not():
    with process({}) as lost, process({"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}) as changed:
        for pid in (lost, changed):
            assert verdicts(pid, GLIBC) == {
                "library": True, "GLIBC_TUNABLES": False, "arena_max": None
            }  # fmt: skip


OVERWRITE = """import ctypes
fields = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
begin, end = map(int, fields[47:49])
ctypes.memset(begin, 0, end - begin)"""


def test_variables_under_a_title_cannot_be_seen():
    """Nothing but ends of strings is what setproctitle leaves of them."""
    asked = replace(GLIBC, unset=("MALLOC_CHECK_",))
    with process(TUNABLES, OVERWRITE) as pid:
        names = ("GLIBC_TUNABLES", "MALLOC_CHECK_", "arena_max")
        assert verdicts(pid, asked) == {"library": True, **dict.fromkeys(names)}


def test_a_variable_that_the_export_does_not_set_is_in_the_way():
    asked = replace(GLIBC, unset=("MALLOC_TOP_PAD_", "MALLOC_CHECK_"))
    with process({**TUNABLES, "MALLOC_TOP_PAD_": "1", "MALLOC_ARENA_TEST": "1"}) as pid:
        found = verdicts(pid, asked)

    assert [found[name] for name in (*asked.unset, "MALLOC_ARENA_TEST")] == [False, True, False]


def test_variables_that_the_allocator_does_not_read_are_not_in_the_way():
    read = {"glibc": "MALLOC_ARENA_MAX", "jemalloc": "MALLOC_CONF", "tcmalloc": "HEAPPROFILE"}
    read["mimalloc"] = "MIMALLOC_PURGE_DELAY"
    with process(dict.fromkeys(read.values(), "")) as pid:
        for allocator, name in read.items():
            found = verdicts(pid, ExportedSetting(Configuration(allocator), None, {}))
            assert found == {"library": True, name: False}


def test_tunables_of_others_than_malloc_are_not_in_the_way():
    more = "glibc.pthread.rseq=0:glibc.malloc.arena_max=2"
    with process({"GLIBC_TUNABLES": more}) as pid:
        assert set(verdicts(pid, GLIBC).values()) == {True}
        asked = replace(GLIBC, variables={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        assert verdicts(pid, asked)["GLIBC_TUNABLES"] is False


def test_several_tunables_are_in_effect_although_glibc_cuts_them_in_place():
    settings = {"arena_max": 2, "tcache_count": 1}
    variables = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=1"}
    asked = ExportedSetting(Configuration.of("glibc", settings), None, variables)

    with process({**variables, "OTHER": "1"}) as pid:
        assert set(verdicts(pid, asked).values()) == {True}


def test_a_value_that_the_allocator_refuses_is_not_in_effect():
    variables = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=99999999"}
    asked = ExportedSetting(Configuration.of("glibc", {"tcache_count": 99999999}), None, variables)

    with process(variables) as pid:
        assert verdicts(pid, asked)["tcache_count"] is False


def test_a_library_is_looked_for_in_the_process_itself():
    library = jemalloc()
    asked = of_jemalloc(library, dirty_decay_ms=0)
    variables = asked.variables

    with process({**variables, "LD_PRELOAD": library}) as pid, process(variables) as without:
        assert set(verdicts(pid, asked).values()) == {True}
        assert verdicts(without, asked)["library"] is False
        assert verdicts(pid, GLIBC)["library"] is False


def test_libc_comes_before_an_allocator_that_the_program_brings_where_it_is_preloaded(
    tmp_path: Path,
):
    mapped = f"mmap.mmap(os.open({jemalloc()!r}, 0), 0, access=mmap.ACCESS_READ)"
    brings = f"import mmap, os\nlibrary = {mapped}"
    variables = {**TUNABLES, "LD_PRELOAD": "libc.so.6"}
    (tmp_path / "x").write_text(
        json.dumps({**EXPORT, "settings": {"arena_max": 2}, "environment": variables})
    )
    asked = load_expected(tmp_path / "x")

    with process(variables, brings) as pid, process(TUNABLES, brings) as without:
        assert set(verdicts(pid, asked).values()) == {True}
        assert verdicts(without, asked)["library"] is False
    with process(variables, f"{brings}\n{OVERWRITE}") as hidden:
        assert verdicts(hidden, asked)["library"] is None
        assert verdicts(hidden, GLIBC)["library"] is False


def test_a_library_may_be_a_link_to_the_file_that_is_mapped(tmp_path: Path):
    """As distributions ship them: libmimalloc.so.2 leads to libmimalloc.so.2.0."""
    file, link = tmp_path / "libjemalloc.so.2.5", tmp_path / "libjemalloc.so"
    shutil.copy(jemalloc(), file)
    (tmp_path / "libjemalloc.so.2").symlink_to(file.name)
    link.symlink_to(tmp_path / "libjemalloc.so.2")
    asked = of_jemalloc(str(link), dirty_decay_ms=0)

    with process({**asked.variables, "LD_PRELOAD": str(link)}) as pid:
        assert set(verdicts(pid, asked).values()) == {True}


def test_an_allocator_that_is_preloaded_first_serves_malloc(tmp_path: Path):
    library = jemalloc()
    other, not_there = tmp_path / "libfirst.so", tmp_path / "libtcmalloc.so.4"
    shutil.copy(library, other)
    asked = of_jemalloc(library, dirty_decay_ms=0)

    def first(*preloads: object) -> InEffect:
        with process({**asked.variables, "LD_PRELOAD": ":".join(map(str, preloads))}) as pid:
            return check_process(pid, asked)[0]

    found = first(other, library)
    assert (found.is_in_effect, found.why) == (False, f"{other} comes before it in LD_PRELOAD")
    for preloads in ((library, other), ("libutil.so.1", library), (not_there, library)):
        assert first(*preloads).is_in_effect is True


def test_a_library_of_this_name_that_the_program_brings_is_not_taken_for_it(tmp_path: Path):
    own = tmp_path / "libjemalloc.so.2"
    shutil.copy(jemalloc(), own)
    (tmp_path / "other").mkdir()
    asked = of_jemalloc(str(tmp_path / "other" / own.name), dirty_decay_ms=0)
    brings = f"import mmap, os\nlibrary = mmap.mmap(os.open({str(own)!r}, 0), 0, access=1)"

    for library, is_in_effect in ((str(own), True), (asked.library, None)):
        with process(asked.variables, brings) as pid:
            found = check_process(pid, replace(asked, library=library))[0]
        assert found.is_in_effect is is_in_effect
    assert found.why == f"LD_PRELOAD is lost; {own} may be the program's own"


def test_a_malloc_of_the_program_comes_before_that_of_a_library(tmp_path: Path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    source, program = tmp_path / "own.c", tmp_path / "own"
    source.write_text(
        "#include <unistd.h>\n"
        "void *malloc(size_t size) { static char room[99]; return size < 99 ? room : 0; }\n"
        'int main(void) { return (int)write(1, malloc(1) ? "ready\\n" : "", 6) + pause(); }\n'
    )
    subprocess.run([compiler, "-fno-builtin", "-o", program, source], check=True)
    library = jemalloc()
    asked = of_jemalloc(library, dirty_decay_ms=0)
    environment = {**asked.variables, "LD_PRELOAD": library}

    with subprocess.Popen([program], env=environment, stdout=subprocess.PIPE) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == b"ready\n"
        findings = check_process(found.pid, asked)
        found.kill()

    assert findings[0].is_in_effect is False
    assert "a malloc of its own" in findings[0].why


def test_a_background_thread_that_ended_at_a_fork_is_missed():
    library = jemalloc()
    asked = of_jemalloc(library, background_thread=True)
    name = "open('/proc/self/comm', 'wb').write(b'\\xff')"  # which need not be text
    fork = f"import os\n{name}\nif os.fork(): os.wait()"

    with process({**asked.variables, "LD_PRELOAD": library}, fork) as pid:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        child = int(children[0])
        try:
            assert verdicts(child, asked)["background_thread"] is False
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_thread_that_ends_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch):
    library = jemalloc()
    asked = of_jemalloc(library, background_thread=True)

    def with_one_that_ended(folder: Path) -> Iterator[Path]:
        if folder.name == "task":
            yield folder / "0"
        yield from real_iterdir(folder)

    real_iterdir = Path.iterdir
    with process({**asked.variables, "LD_PRELOAD": library}) as pid:
        monkeypatch.setattr(Path, "iterdir", with_one_that_ended)
        assert verdicts(pid, asked)["background_thread"] is True


def in_container(*mounts: tuple[Path, Path]) -> list[str]:
    """Return a starter in a mount namespace of its own, where files stand over others."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces are not allowed here")
    binds = "".join(f"mount --bind {source} {over} && " for source, over in mounts)
    return [*unshare, "sh", "-c", f'{binds}exec env "$@"', "sh"]


def test_the_library_of_a_process_in_a_container_is_its_own(tmp_path: Path):
    """Under the same name this machine has another file."""
    real = Path(jemalloc()).resolve()
    inside, here = tmp_path / "inside", tmp_path / "libjemalloc.so.2"
    shutil.copy(real, inside)
    here.write_text("another file")
    asked = of_jemalloc(str(here), dirty_decay_ms=0)
    refused = replace(asked, configuration=Configuration.of("jemalloc", {"dirty_decay_ms": 7}))
    starter = [*in_container((inside, here)), f"LD_PRELOAD={here}"]

    variables = {"PATH": os.environ["PATH"], **asked.variables}
    with process(variables, starter=starter) as pid:
        assert set(verdicts(pid, asked).values()) == {True}
        assert verdicts(pid, refused)["dirty_decay_ms"] is False


def test_the_libc_of_a_container_is_not_taken_for_this_machines(tmp_path: Path):
    own = process_of(os.getpid())
    assert own is not None
    libc = next(Path(file) for file in own.files if Path(file).name == "libc.so.6")
    other = tmp_path / "libc.so.6"
    other.write_bytes(libc.read_bytes() + b"another version")
    starter = in_container((other, libc))

    with process({"PATH": os.environ["PATH"], **TUNABLES}, starter=starter) as pid:
        findings = {one.what: one for one in check_process(pid, GLIBC)}

    assert findings["GLIBC_TUNABLES"].is_in_effect is True
    assert findings["arena_max"].is_in_effect is None
    assert "check it inside its container" in findings["arena_max"].why


def test_the_command_says_it_and_ends_with_the_code_of_settings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    export = tmp_path / "malloc.json"
    export.write_text(
        json.dumps(
            {**EXPORT, "settings": {"arena_max": 2}, "environment": TUNABLES}
        )
    )  # fmt: skip
    with process(TUNABLES) as good, process({}) as bad, process(TUNABLES, OVERWRITE) as hidden:
        assert run(["check", str(good), str(export)]) == 0
        said, noted = capfd.readouterr()
        assert run(["check", str(hidden), str(export)]) == 0
        unseen = "so not judged: GLIBC_TUNABLES, arena_max"
        assert unseen in " ".join(capfd.readouterr().err.split())
        assert run(["check", str(bad), str(export), "--json"]) == 6

    assert "arena_max 2" in said
    assert "NOT" not in said
    assert not noted
    shown = capfd.readouterr()
    assert "GLIBC_TUNABLES" in shown.err
    document = json.loads(shown.out)
    assert (document["schema"], document["version"]) == ("malloc-tuner.check", 1)
    assert (document["process"], len(document["findings"])) == (bad, 3)


def test_what_is_no_export_and_what_is_no_process_are_errors(tmp_path: Path):
    (tmp_path / "x").write_text("{}")
    with pytest.raises(SpecError, match="no export"):
        load_expected(tmp_path / "x")
    with pytest.raises(SpecError, match="nothere: cannot be read: No such file"):
        load_expected(tmp_path / "nothere")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with pytest.raises(SpecError, match="there is none"):
        check_process(ended.pid, GLIBC)


@pytest.mark.parametrize(
    "change",
    [
        {"library": 5},
        {"settings": []},
        {"environment": {"A": 1}},
        {"allocator": None},
        {"schema": "malloc-tuner.pick"},
        {"version": 2},
    ],
)
def test_an_export_of_other_kinds_is_none(tmp_path: Path, change: dict[str, object]):
    settings = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    export = {**EXPORT, "settings": settings, "environment": {}}
    (tmp_path / "x").write_text(json.dumps(export))
    assert repr(load_expected(tmp_path / "x").configuration.as_dict) == repr(settings)
    (tmp_path / "x").write_text(json.dumps(export | change))
    with pytest.raises(SpecError, match=rf"is no export in JSON \({next(iter(change))}"):
        load_expected(tmp_path / "x")


def test_a_process_without_memory_has_nothing_to_look_at(monkeypatch: pytest.MonkeyPatch):
    """One that has ended without its parent knowing, or one of the kernel."""
    monkeypatch.setattr(checking, "process_of", lambda _: None)
    with pytest.raises(SpecError, match="has ended, or is one of the kernel"):
        check_process(os.getpid(), GLIBC)


@pytest.mark.parametrize(
    ("user", "how"), [(1000, "run this as its user, or as root"), (0, "root lacks the capability")]
)
def test_who_may_look_is_said(monkeypatch: pytest.MonkeyPatch, user: int, how: str):
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(ProgramError, match=f"may not be looked at; {how}"):
        check_process(os.getpid(), GLIBC)
