"""Names that lead to a second thread, and the libraries that only pass them on.

A *creator* is a function whose caller may end up with another thread.  A *runtime* is a library
that refers to creators for the sake of its callers: it starts no thread unless one of the creators
it offers is called.  So being linked with libstdc++, libgomp or libc alone means nothing.

Sources: the C11, POSIX and Linux manual pages of the functions; libgomp's manual, "The libgomp
ABI"; "LLVM/OpenMP Runtimes"; lzma/container.h, zstd.h and zdict.h; selinux_restorecon(3),
selinux_mkload_policy(3).  std::async and std::jthread start their threads through std::thread.
"""

import fnmatch
from collections.abc import Iterable
from typing import Final

STARTERS: Final = {
    "pthread_create": "POSIX threads",
    "__pthread_create*": "POSIX threads",
    "thrd_create": "C11 threads",
    "_ZNSt6thread15_M_start_thread*": "std::thread",
    "GOMP_target*": "OpenMP offloading",
    "GOMP_parallel*": "OpenMP",
    "GOMP_teams*": "OpenMP",
    "GOACC_*": "OpenACC",
    "__kmpc_fork_*": "OpenMP",
    "__kmpc_push_num_t*": "OpenMP",
    "__kmpc_omp_target_task*": "OpenMP offloading",
    "__tgt_*": "OpenMP offloading",
    "getaddrinfo_a": "asynchronous name lookup",
    "aio_read*": "asynchronous I/O",
    "aio_write*": "asynchronous I/O",
    "aio_fsync*": "asynchronous I/O",
    "lio_listio*": "asynchronous I/O",
    "lzma_stream_encoder_mt": "liblzma",
    "lzma_stream_decoder_mt": "liblzma",
    "selinux_restorecon_parallel": "libselinux",
    "ZSTD_createThreadPool": "libzstd",
}
"""Shell patterns of functions that start a thread -> what people know them as."""

MAYBE: Final = {
    "omp_target_*": "OpenMP offloading",
    "omp_get_num_devices": "OpenMP offloading",
    "selinux_init_load_policy": "libselinux",
    "selinux_mkload_policy": "libselinux",
    "ZSTD_CCtx_setParameter": "libzstd, with ZSTD_c_nbWorkers",
    "ZSTD_CCtxParams_setParameter": "libzstd, with ZSTD_c_nbWorkers",
    "ZDICT_optimizeTrainFromBuffer_*": "libzstd, with nbThreads",
    "timer_create": "timers, with SIGEV_THREAD",
    "mq_notify": "message queues, with SIGEV_THREAD",
    "clone": "the system call",
    "__clone": "the system call",
    "__clone2": "the system call",
    "clone3": "the system call",
    "dlopen": "loading at run time",
    "dlmopen": "loading at run time",
    "__libc_dlopen_mode": "loading at run time",
    "dlsym": "finding functions by name",
    "dlvsym": "finding functions by name",
}
"""The same of functions whose arguments decide, or that load other code."""

IN_EVERY_STATIC_PROGRAM: Final = frozenset(
    {"dlopen", "dlmopen", "__libc_dlopen_mode", "dlsym", "dlvsym"}
)
"""Creators that a static libc holds for itself.  What a static program loads brings a libc, and so
a malloc, of its own."""

RUNTIMES: Final = (
    "libc.so.6", "ld-linux-*.so.*", "libpthread.so.0", "librt.so.1", "libanl.so.1", "libdl.so.2",
    "libc_malloc_debug.so.0", "libstdc++.so.6", "libgomp.so.1", "libomp.so*", "libiomp5.so",
    "liblzma.so.5", "libselinux.so.1", "libzstd.so.1", "libexgen.so", "libexgen-st.so",
)  # fmt: skip
"""Names of the runtimes, as shell patterns."""


def creators_among(names: Iterable[str], *, is_certain: bool) -> list[str]:
    """Return the functions that start threads for certain, or perhaps, with what they are.

    Example:
        >>> creators_among(["malloc", "dlopen", "GOMP_parallel_loop_dynamic"], is_certain=True)
        ['GOMP_parallel_loop_dynamic (OpenMP)']
    """
    table = STARTERS if is_certain else MAYBE
    return [
        f"{name} ({what})"
        for name in sorted(names)
        for pattern, what in table.items()
        if fnmatch.fnmatchcase(name, pattern)
    ]


def is_runtime(name: str) -> bool:
    """Check for a library that starts threads only for callers of its creators."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in RUNTIMES)
