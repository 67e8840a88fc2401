"""When a service counts as ready."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.service.readiness import probe_of


@contextmanager
def server(answer: bytes) -> Iterator[int]:
    """Answer one request on a port, whatever it is."""

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        pool.submit(serve, listening)
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "is_ready"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False),
        (b"\x15\x03\x01\x00\x02\x02\x46", False),
        (b"", False),
    ],
    ids=["HTTP", "not yet", "another protocol", "TLS", "nothing"],
)
def test_a_url_is_ready_when_it_answers_in_http(answer: bytes, *, is_ready: bool):
    with server(answer) as port:
        probe = probe_of(f"http://127.0.0.1:{port}/", Path("unused"), lambda _: False)

        assert probe() is is_ready
