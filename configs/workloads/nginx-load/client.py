"""Write pages, or ask a server for them over many connections and end it."""

import hashlib
import http.client
import os
import random
import signal
import sys
import time
from pathlib import Path

N_PAGES = 40
N_CONNECTIONS = 60


def write_pages(folder: Path) -> None:
    """Write pages of many sizes; some include others."""
    numbers = random.Random(3)
    for page in range(N_PAGES):
        text = "\n".join(str(numbers.random()) for _ in range(2 + page * page))
        if page % 7 == 0:
            text += f'\n<!--# include virtual="/{page // 2 + 1}.txt" -->\n'
        (folder / f"{page}.txt").write_text(text)


def connect(port: int) -> http.client.HTTPConnection:
    """Return a connection to the server, which may still be starting."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(500):
        try:
            connection.connect()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return connection
    sys.exit("the server does not answer")


def load(port: int, n_requests: int) -> str:
    """Send the requests; return a digest of the answers."""
    numbers = random.Random(5)
    digest = hashlib.sha256()
    connections: dict[int, http.client.HTTPConnection] = {}
    for number in range(n_requests):
        place = numbers.randrange(1 + N_CONNECTIONS * number // n_requests)
        if place not in connections or numbers.randrange(30) == 0:
            if place in connections:
                connections[place].close()
            connections[place] = connect(port)
        folder = numbers.choices(["", "old/", "none/"], [8, 2, 1])[0]
        headers = {"User-Agent": "load", "X-Number": "x" * numbers.randrange(300)}
        if numbers.randrange(2):
            headers["Accept-Encoding"] = "gzip"
        connection = connections[place]
        connection.request("GET", f"/{folder}{numbers.randrange(N_PAGES)}.txt", headers=headers)
        answer = connection.getresponse()
        digest.update(f"{answer.status} ".encode() + answer.read())
    return digest.hexdigest()


def main() -> None:
    """Do what the arguments ask for."""
    if sys.argv[1] == "--pages":
        write_pages(Path(sys.argv[2]))
        return
    port, pid_file, n_requests = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    print(load(port, n_requests), flush=True)
    os.kill(int(pid_file.read_text()), signal.SIGQUIT)
    time.sleep(1)


if __name__ == "__main__":
    main()
