"""An invented machine."""

from tuner.machine import Machine

MACHINE = Machine(
    system="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0-38-amd64",
    architecture="x86_64",
    cpu_model="AMD EPYC 7B13",
    n_cpus=2,
    cpus_allowed=(0, 1),
    memory_bytes=8 << 30,
    page_bytes=4096,
    libc="glibc 2.36",
    thp="madvise",
    aslr=2,
    max_map_count=65530,
)
