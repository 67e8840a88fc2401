"""When a service counts as ready."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.errors import SpecError
from tuner.service.readiness import check_ready, probe_of


@contextmanager
def server(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Answer one request on a port, whatever it is."""

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with tls.wrap_socket(connection, server_side=True) if tls else connection as connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        pool.submit(serve, listening)
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "is_ready"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False),
        (b"\x15\x03\x01\x00\x02\x02\x46", False),
        (b"", False),
    ],
    ids=[
        "HTTP",
        "leads where nobody is",
        "not there",
        "not yet",
        "another protocol",
        "TLS",
        "nothing",
    ],
)
def test_a_url_is_ready_when_it_answers_in_http(answer: bytes, *, is_ready: bool):
    with server(answer) as port:
        probe = probe_of(f"http://127.0.0.1:{port}/", Path("unused"), lambda _: False)

        assert probe() is is_ready


def test_a_url_may_have_a_certificate_that_nobody_knows(tmp_path: Path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-batch"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    subprocess.run([openssl, *words, *files], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "certificate", tmp_path / "key")

    with server(b"HTTP/1.1 204 No Content\r\n\r\n", tls) as port:
        assert probe_of(f"https://127.0.0.1:{port}/", Path("unused"), lambda _: False)()


def test_polling_reads_no_certificates(monkeypatch: pytest.MonkeyPatch):
    """A service is polled many times a second; reading what the machine trusts takes longer."""
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", None)
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", None)
    for kind in ("http", "https"):  # nobody answers on this port
        assert not probe_of(f"{kind}://127.0.0.1:1/", Path("unused"), lambda _: False)()


@pytest.mark.parametrize("port", [0, 65_536])
def test_a_port_is_in_the_range_of_ports(port: int):
    check_ready("tcp:65535")
    with pytest.raises(SpecError, match="not understood"):
        check_ready(f"tcp:{port}")
