"""Names that lead to a second thread, and the libraries that only pass them on.

A *creator* is a function whose caller may end up with another thread.  A
*runtime* is a library that refers to creators for the sake of its callers: as
long as none of the creators it offers is called, it starts no thread.  So
being linked with libstdc++, libgomp or libc alone says nothing.

Sources: the C11, POSIX and Linux manual pages of the functions; the interfaces
of libgomp (its manual, "The libgomp ABI") and of LLVM's OpenMP runtime
("LLVM/OpenMP Runtimes", list of exported functions); lzma/container.h, zstd.h and zdict.h;
selinux_restorecon(3), selinux_mkload_policy(3).
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Effect(StrEnum):
    """What a reference to a creator means."""

    STARTS = "starts a thread"
    MAY_START = "may start a thread"
    LOADS_CODE = "loads code that may start threads"


@dataclass(frozen=True)
class Creator:
    """Names with one effect."""

    pattern: str
    """A name, or a shell pattern of names."""
    effect: Effect
    what: str
    """What people know it as."""


CREATORS: Final = (
    Creator("pthread_create", Effect.STARTS, "POSIX threads"),
    Creator("__pthread_create*", Effect.STARTS, "POSIX threads"),
    Creator("thrd_create", Effect.STARTS, "C11 threads"),
    Creator("_ZNSt6thread15_M_start_thread*", Effect.STARTS, "std::thread"),
    Creator("GOMP_target*", Effect.STARTS, "OpenMP offloading"),
    Creator("GOMP_parallel*", Effect.STARTS, "OpenMP"),
    Creator("GOMP_teams*", Effect.STARTS, "OpenMP"),
    Creator("GOACC_*", Effect.STARTS, "OpenACC"),
    Creator("__kmpc_fork_*", Effect.STARTS, "OpenMP"),
    Creator("__kmpc_push_num_t*", Effect.STARTS, "OpenMP"),
    Creator("__kmpc_omp_target_task*", Effect.STARTS, "OpenMP offloading"),
    Creator("__tgt_*", Effect.STARTS, "OpenMP offloading"),
    Creator("omp_target_*", Effect.LOADS_CODE, "OpenMP offloading"),
    Creator("omp_get_num_devices", Effect.LOADS_CODE, "OpenMP offloading"),
    Creator("getaddrinfo_a", Effect.STARTS, "asynchronous name lookup"),
    Creator("aio_read*", Effect.STARTS, "asynchronous I/O"),
    Creator("aio_write*", Effect.STARTS, "asynchronous I/O"),
    Creator("aio_fsync*", Effect.STARTS, "asynchronous I/O"),
    Creator("lio_listio*", Effect.STARTS, "asynchronous I/O"),
    Creator("lzma_stream_encoder_mt", Effect.STARTS, "liblzma"),
    Creator("lzma_stream_decoder_mt", Effect.STARTS, "liblzma"),
    Creator("selinux_restorecon_parallel", Effect.STARTS, "libselinux"),
    Creator("selinux_init_load_policy", Effect.LOADS_CODE, "libselinux"),
    Creator("selinux_mkload_policy", Effect.LOADS_CODE, "libselinux"),
    Creator("ZSTD_createThreadPool", Effect.STARTS, "libzstd"),
    Creator("ZSTD_CCtx_setParameter", Effect.MAY_START, "libzstd, with ZSTD_c_nbWorkers"),
    Creator("ZSTD_CCtxParams_setParameter", Effect.MAY_START, "libzstd, with ZSTD_c_nbWorkers"),
    Creator("ZDICT_optimizeTrainFromBuffer_*", Effect.MAY_START, "libzstd, with nbThreads"),
    Creator("timer_create", Effect.MAY_START, "timers, with SIGEV_THREAD"),
    Creator("mq_notify", Effect.MAY_START, "message queues, with SIGEV_THREAD"),
    Creator("clone", Effect.MAY_START, "the system call"),
    Creator("__clone", Effect.MAY_START, "the system call"),
    Creator("__clone2", Effect.MAY_START, "the system call"),
    Creator("clone3", Effect.MAY_START, "the system call"),
    Creator("dlopen", Effect.LOADS_CODE, "loading at run time"),
    Creator("dlmopen", Effect.LOADS_CODE, "loading at run time"),
    Creator("__libc_dlopen_mode", Effect.LOADS_CODE, "loading at run time"),
    Creator("dlsym", Effect.LOADS_CODE, "finding functions by name"),
    Creator("dlvsym", Effect.LOADS_CODE, "finding functions by name"),
)
"""std::async and std::jthread start their threads through std::thread."""

IN_EVERY_STATIC_PROGRAM: Final = frozenset(
    {"dlopen", "dlmopen", "__libc_dlopen_mode", "dlsym", "dlvsym"}
)
"""Creators that a static libc holds for itself.  What a static program loads brings a libc, and so
a malloc, of its own."""

RUNTIMES: Final = (
    "libc.so.6",
    "ld-linux-*.so.*",
    "libpthread.so.0",
    "librt.so.1",
    "libanl.so.1",
    "libdl.so.2",
    "libc_malloc_debug.so.0",
    "libstdc++.so.6",
    "libgomp.so.1",
    "libomp.so*",
    "libiomp5.so",
    "liblzma.so.5",
    "libselinux.so.1",
    "libzstd.so.1",
    "libexgen.so",
    "libexgen-st.so",
)
"""Sonames of the runtimes, as shell patterns."""

MODULE_USERS: Final = (
    "getaddrinfo", "getnameinfo", "gethostby*", "getpw*", "getgrnam*", "getgrgid*", "getgrent*",
    "getgrouplist", "getserv*", "initgroups", "iconv_open",
)  # fmt: skip
"""Functions for which libc loads modules (nsswitch.conf, gconv)."""


def creator_of(name: str) -> Creator | None:
    """Return what a name leads to; None for the others.

    Example:
        >>> creator_of("GOMP_parallel_loop_dynamic").what
        'OpenMP'
        >>> creator_of("malloc") is None
        True
    """
    return next((c for c in CREATORS if fnmatch.fnmatchcase(name, c.pattern)), None)


def is_runtime(soname: str | None) -> bool:
    """Return whether a library starts threads only in calls of its creators."""
    return soname is not None and any(fnmatch.fnmatchcase(soname, p) for p in RUNTIMES)


def module_users(names: frozenset[str]) -> list[str]:
    """Return which of the names make libc load modules, sorted."""
    return sorted(n for n in names if any(fnmatch.fnmatchcase(n, p) for p in MODULE_USERS))
