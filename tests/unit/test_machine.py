"""The facts of a machine, read from a made-up /proc and /sys."""

from pathlib import Path

from tuner.machine import read_machine


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_facts_come_from_the_given_root(tmp_path: Path):
    write(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(
        tmp_path,
        "sys/kernel/mm/transparent_hugepage/defrag",
        "always defer [defer+madvise] madvise never\n",
    )
    write(tmp_path, "proc/sys/kernel/randomize_va_space", "2\n")
    write(tmp_path, "proc/sys/kernel/perf_event_paranoid", "-1\n")
    write(tmp_path, "proc/sys/vm/max_map_count", "65530\n")
    write(tmp_path, "proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n")
    write(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU: X\n")
    write(tmp_path, "proc/self/status", "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1\n")

    machine = read_machine(tmp_path)

    assert machine.thp == "madvise"
    assert machine.thp_defrag == "defer+madvise"
    assert machine.aslr == 2
    assert machine.perf_event_paranoid == -1
    assert machine.max_map_count == 65530
    assert machine.memory_bytes == 2048 * 1024
    assert machine.cpu_model == "Some CPU: X"
    assert machine.seccomp == 2


def test_what_the_kernel_does_not_show_is_none(tmp_path: Path):
    machine = read_machine(tmp_path)

    missing = (machine.thp, machine.aslr, machine.ptrace_scope, machine.memory_bytes)
    assert missing == (None, None, None, None)
    assert machine.n_cpus >= len(machine.cpus_allowed) >= 1
