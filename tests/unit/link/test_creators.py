"""Functions that start threads are known by their names."""

import pytest

from tuner.link.creators import creators_among, is_runtime


@pytest.mark.parametrize(
    ("name", "certain", "perhaps"),
    [
        ("pthread_create", "POSIX threads", None),
        ("__pthread_create_2_1", "POSIX threads", None),
        ("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateE", "std::thread", None),
        ("GOMP_parallel_loop_dynamic", "OpenMP", None),
        ("aio_read64", "asynchronous I/O", None),
        ("dlopen", None, "loading at run time"),
        ("timer_create", None, "timers, with SIGEV_THREAD"),
        ("pthread_join", None, None),
        ("malloc", None, None),
    ],
)
def test_what_a_function_means(name: str, certain: str | None, perhaps: str | None):
    assert creators_among([name], is_certain=True) == ([f"{name} ({certain})"] if certain else [])
    assert creators_among([name], is_certain=False) == ([f"{name} ({perhaps})"] if perhaps else [])


def test_names_come_in_order():
    names = {"thrd_create", "free", "pthread_create"}

    assert [text.split()[0] for text in creators_among(names, is_certain=True)] == [
        "pthread_create", "thrd_create",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [("libc.so.6", True), ("ld-linux-x86-64.so.2", True), ("libgit2.so.1.5", False)],
)
def test_runtimes_pass_creators_on(name: str, *, expected: bool):
    assert is_runtime(name) is expected
