"""When a service is ready: a port is open, a URL answers, a line is printed, a command succeeds.

A port that accepts says little of workers that still start: a URL or a command says more.
"""

import http.client
import re
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tuner.errors import SpecError

_FORMS = "tcp:PORT, tcp:HOST:PORT, http://HOST:PORT/PATH, line:TEXT or command:COMMAND"
_TCP = re.compile(r"(?:(?P<host>[\w.\-]+):)?(?P<port>\d+)")
_MOST_PORT = 65_535
_TIMEOUT_S = 2.0
_BAD_STATUS = 400


def check_ready(ready: str) -> None:
    """Check the form of a condition; ports may still be named ``{port}``.

    Raises:
        SpecError: it is not one that is known.
    """
    kind, _, rest = ready.partition(":")
    plain = re.sub(r"\{port\d*\}", "1", rest)
    address = _TCP.fullmatch(plain)
    is_known = (
        (kind == "tcp" and address is not None and 0 < int(address["port"]) <= _MOST_PORT)
        or (kind in ("http", "https") and _is_url(f"{kind}:{plain}"))
        or (kind in ("line", "command") and rest.strip())
    )
    if not is_known:
        raise SpecError(f"--ready {ready}: not understood; give {_FORMS}")


def _is_url(text: str) -> bool:
    """Return whether a URL has a host, and a port that is a number where it has one."""
    try:
        url = urllib.parse.urlsplit(text)
        has_port = url.port != 0
    except ValueError:
        return False
    return has_port and url.hostname is not None


def probe_of(ready: str, output: Path, succeeds: Callable[[str], bool]) -> Callable[[], bool]:
    """Return a function that says whether a service is ready.

    Args:
        ready: the condition, ports filled in.
        output: file that the service prints to.
        succeeds: runs a shell command, and returns whether its exit status is 0.
    """
    kind, _, rest = ready.partition(":")
    if kind == "tcp":
        return lambda: is_open(*_address(rest))
    if kind == "line":
        return lambda: rest in output.read_text(errors="replace")
    if kind == "command":
        return lambda: succeeds(rest)
    opener = _opener()
    return lambda: _answers(ready, opener)


def port_of(ready: str) -> tuple[str, int] | None:
    """Return host and port that a condition names; None where it names none.

    Example:
        >>> port_of("tcp:80"), port_of("http://[::1]:81/x"), port_of("line:ready")
        (('localhost', 80), ('::1', 81), None)
    """
    kind, _, rest = ready.partition(":")
    if kind == "tcp":
        return _address(rest)
    if kind in ("http", "https"):
        url = urllib.parse.urlsplit(ready)
        return url.hostname or "localhost", url.port or (443 if kind == "https" else 80)
    return None


def is_open(host: str, port: int) -> bool:
    """Return whether somebody accepts connections."""
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _address(text: str) -> tuple[str, int]:
    match = _TCP.fullmatch(text)
    if match is None:
        raise SpecError(f"--ready tcp:{text}: not understood; give {_FORMS}")
    return match["host"] or "localhost", int(match["port"])


def _opener() -> urllib.request.OpenerDirector:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a service's certificate is its own affair
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    opener = urllib.request.OpenerDirector()  # follows no redirect, uses no proxy
    for one in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(context=trusting)):
        opener.add_handler(one)
    return opener


def _answers(url: str, opener: urllib.request.OpenerDirector) -> bool:
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return int(answer.status) < _BAD_STATUS
    except (OSError, http.client.HTTPException, ValueError):
        return False
