"""What this machine is: the facts that stand beside every figure.

Read from /proc, /sys and the C library; no process is started.  What is not there
is None.  What the machine *lets us do* is tried out, by `tuner.measure.offers`.

Source: proc(5), Documentation/admin-guide/sysctl/kernel.rst and
Documentation/admin-guide/mm/transhuge.rst of Linux.
"""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One computer with the kernel settings that move allocator figures."""

    system: str
    """Name and version of the distribution."""
    kernel: str
    """Release of the running kernel."""
    architecture: str
    """As uname prints it: x86_64."""
    cpu_model: str | None = None
    n_cpus: int
    """Cores online."""
    cpus_allowed: tuple[int, ...]
    """Cores this process may run on; measurements are pinned to these."""
    memory_bytes: int | None = None
    """Main memory."""
    page_bytes: int
    libc: str
    """Name and version of the C library, which is also an allocator."""
    thp: str | None = None
    """Transparent huge pages: always, madvise or never."""
    thp_defrag: str | None = None
    """What a fault does when no huge page is free: always, defer, defer+madvise, madvise, never."""
    aslr: int | None = None
    """Address space randomisation: 0 off, 1 partly, 2 fully."""
    max_map_count: int | None = None
    """Most mappings a process may have."""
    perf_event_paranoid: int | None = None
    """Right to count instructions: 2 or less lets users count their own; None: no perf events."""
    ptrace_scope: int | None = None
    """Yama's limit of ptrace; children may be traced up to 2. None: no Yama, no limit."""
    seccomp: int | None = None
    """System call filter of this process: 0 none, 2 a filter, as containers have."""
    fixes_addresses: bool | None = None
    """Whether programs may be started at fixed addresses; None: not tried."""


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _field(path: Path, name: str) -> str | None:
    """Return the value of the first line "name : value"."""
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", _text(path) or "", re.MULTILINE)
    return match.group(1).strip() if match else None


def _chosen(path: Path) -> str | None:
    """Return the word in brackets of a list of choices."""
    match = re.search(r"\[([\w+]+)\]", _text(path) or "")
    return match.group(1) if match else None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def read_machine(root: Path = Path("/")) -> Machine:
    """Read the facts of this machine.

    Args:
        root: where ``proc`` and ``sys`` are mounted; tests give a made-up one.
    """
    kernel, virtual, this = (
        root / "proc/sys/kernel",
        root / "proc/sys/vm",
        root / "proc/self/status",
    )
    memory = _field(root / "proc/meminfo", "MemTotal")
    seccomp = _field(this, "Seccomp")
    return Machine(
        system=_system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu_model=_field(root / "proc/cpuinfo", "model name"),
        n_cpus=os.cpu_count() or 1,
        cpus_allowed=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=int(memory.split()[0]) * 1024 if memory else None,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        libc=" ".join(platform.libc_ver()).strip() or "unknown",
        thp=_chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        thp_defrag=_chosen(root / "sys/kernel/mm/transparent_hugepage/defrag"),
        aslr=_number(kernel / "randomize_va_space"),
        max_map_count=_number(virtual / "max_map_count"),
        perf_event_paranoid=_number(kernel / "perf_event_paranoid"),
        ptrace_scope=_number(kernel / "yama/ptrace_scope"),
        seccomp=int(seccomp) if seccomp and seccomp.isdigit() else None,
    )
