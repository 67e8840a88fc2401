"""A service to be run by tests: listens, forks a worker, leaves a daemon, holds memory.

    service.py PORT [WORD]...

    crash       ends with status 3 before it listens
    crash-late  ends by SIGSEGV at the first connection
    deaf        ignores SIGTERM
    daemon      the first process exits once a daemon listens
    grow=MIB    allocates so much for each connection and keeps it
    threads=N   starts so many threads, which wait

Prints "ready" once it listens.  The daemon beside it has a session of its own.
"""

import os
import signal
import socket
import sys
import threading
import time


def _sleep_for_ever() -> None:
    while True:
        time.sleep(60)


def _leave_a_daemon() -> None:
    between = os.fork()
    if between == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.fork() == 0:
            _sleep_for_ever()
        os._exit(0)
    os.waitpid(between, 0)


def main() -> None:
    port, words = int(sys.argv[1]), sys.argv[2:]
    grown = [word.partition("=")[2] for word in words if word.startswith("grow=")]
    if "crash" in words:
        sys.stdout.write("no reason\n")
        sys.exit(3)
    listens, ready = os.pipe()
    if "daemon" in words and os.fork() != 0:
        os.close(ready)
        os.read(listens, 1)
        os._exit(0)
    listening = socket.create_server(("127.0.0.1", port))
    os.write(ready, b"!")
    stop = signal.SIG_IGN if "deaf" in words else lambda *_: os.killpg(0, signal.SIGKILL)
    signal.signal(signal.SIGTERM, stop)
    os.setpgid(0, 0)
    if "tree" in words:
        _leave_a_daemon()
        if os.fork() == 0:
            _sleep_for_ever()
    for word in words:
        for _ in range(int(word.partition("=")[2]) if word.startswith("threads=") else 0):
            threading.Thread(target=_sleep_for_ever, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    kept = []
    while True:
        connection, _ = listening.accept()
        if connection.recv(1):
            if "crash-late" in words:
                connection.close()  # as the system does before it has dumped a large process
                time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGSEGV)
            kept += [b"x" * (int(mib) << 20) for mib in grown]
            connection.sendall(b"!")
        connection.close()


if __name__ == "__main__":
    main()
