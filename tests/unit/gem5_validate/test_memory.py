"""The kinds of memory that run.py reports, for a process of which every part is known."""

import json
import subprocess
import sys
from typing import Any

from tuner.resources import gem5_dir

MIB = 1 << 20
SUBJECT = """
import ctypes, json, mmap, os, sys
sys.path.insert(0, sys.argv[1])
from memory import kinds_of_memory, n_present

path = "/dev/shm/malloc-tuner-test-%d" % os.getpid()
descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
os.ftruncate(descriptor, 64 << 20)
shared = mmap.mmap(descriptor, 64 << 20)
os.unlink(path)
before = kinds_of_memory(os.path.basename(path))
objects = [bytes(400) for _ in range(20_000)]
shared[: 8 << 20] = bytes(8 << 20)
private = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
private[: 16 << 20] = bytes(16 << 20)
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
brk = libc.sbrk(ctypes.c_long(4 << 20))
ctypes.memset(brk, 1, 4 << 20)
after = kinds_of_memory(os.path.basename(path))
status = dict(line.split(":") for line in open("/proc/self/status"))
print(json.dumps({
    "before": before,
    "after": after,
    "anonymous": int(status["RssAnon"].split()[0]) * 1024,
    "shared": int(status["RssShmem"].split()[0]) * 1024,
    "brk_pages": n_present(-(-brk // 4096), brk // 4096 + 1024),
}))
"""


def kinds(*launcher: str) -> dict[str, Any]:
    command = [*launcher, sys.executable, "-S", "-c", SUBJECT, str(gem5_dir())]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    before, after = found["before"], found["after"]
    assert after["simulated"] - before["simulated"] == 8 * MIB
    grown = after["heap"] - before["heap"]
    # Python counts pools whose last pages it has not touched: of each size up to 12 KiB.
    assert 20 * MIB - MIB // 2 <= grown <= 21 * MIB
    assert 8_000_000 <= after["python"] - before["python"] <= 11_000_000
    assert abs(after["program"] - before["program"]) <= MIB // 8
    assert 0 < after["program"] < 16 * MIB
    assert after["preloaded"] == 0
    total = after["heap"] + after["program"] + after["python"]
    assert abs(total - found["anonymous"]) <= MIB
    assert found["brk_pages"] in (1023, 1024)
    assert before["simulated"] == 0
    assert found["shared"] >= after["simulated"]


def test_parts_are_separated():
    check(kinds())


def test_parts_are_separated_without_address_randomisation():
    """The heap of brk then follows the program's variables in one mapping."""
    check(kinds("setarch", "-R"))


def test_without_arenas_of_its_own_python_is_part_of_the_heap():
    found = kinds("env", "PYTHONMALLOC=malloc")
    assert found["after"]["python"] == 0
    assert found["after"]["heap"] - found["before"]["heap"] >= 28 * MIB
