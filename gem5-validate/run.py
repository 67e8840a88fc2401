"""Run one simulation inside gem5: a machine from a JSON file, and a guest program or traffic.

    gem5.opt -d OUT run.py --machine machines/o3.json --guest build/tree -- 2000

gem5's own Python executes this file.  It builds the machine with gem5's standard
library, runs the guest in system-call emulation until it exits, and leaves in OUT
beside gem5's own files:

    result.json   how the simulation ended, the memory gem5 holds, by kind, and the files
                  that the guest had mapped when it ended
    guest.out     what the guest printed

Simulated memory lies in a shared memory object of its own, whose name is removed
as soon as gem5 has mapped it.  The kernel then counts its pages as shared memory,
so resident anonymous memory is gem5's own.

Exit codes: 0 the guest ended with status 0 (or the traffic ended); 1 it did not; 2 a
wrong machine, guest or option.  Works with gem5 24 and 25.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import m5
from _m5 import core
from gem5.resources.resource import BinaryResource
from gem5.simulate.simulator import Simulator
from machine import Machine, MachineError, read_machine
from mappings import mapped_files
from memory import kinds_of_memory, zero_pages
from stores import SHARED_MEMORY, own_name, remove_left

SCHEMA = "gem5-validate.result"
VERSION = 1
"""Schema and version of result.json."""

GUEST_OUTPUT = "guest.out"
FIRST_TICKS = 1_000_000
"""Simulated before the set-up counts as over."""
LIMIT_REACHED = "simulate() limit reached"
"""What gem5 says when it stopped at a tick because it was asked to."""


def main() -> int:
    """Run what the command line asks for and return the exit code."""
    options = parse_options()
    try:
        machine = read_machine(options.machine, options.cores)
        check_guest(options, machine)
        store = None if options.private_memory else shared_store(machine.memory_bytes)
        board = machine.board()
    except MachineError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    if store:
        board.shared_backstore = store.name
        board.auto_unlink_shared_backstore = True
        unlink_when_mapped(board, store)
    if options.guest:
        board.set_se_binary_workload(
            BinaryResource(local_path=str(options.guest.resolve())),
            arguments=options.arguments,
            env_list=options.environment,
            stdout_file=Path(GUEST_OUTPUT),
        )
    simulator = Simulator(board=board)
    if options.max_instructions:
        simulator.schedule_max_insts(options.max_instructions)
    before = mapped_files()
    set_up_s = simulate(simulator)
    course = {
        "elapsed_s": {"set_up": set_up_s, "simulation": round(age_s() - set_up_s, 2)},
        "guest_files": sorted(mapped_files() - before),
    }
    return report(options, simulator, store, course)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="run.py", description="Run one simulation in gem5.")
    parser.add_argument("--machine", type=Path, required=True, help="the machine's JSON file")
    parser.add_argument("--guest", type=Path, help="program to run in system-call emulation")
    parser.add_argument("--cores", type=int, help="instead of the machine's: one per guest thread")
    parser.add_argument("--max-instructions", type=int, help="end after so many guest instructions")
    parser.add_argument(
        "--environment", action="append", default=[], metavar="NAME=VALUE", help="for the guest"
    )
    parser.add_argument(
        "--private-memory",
        action="store_true",
        help="leave simulated memory among gem5's own; for a /dev/shm that is too small",
    )
    parser.add_argument(
        "--zero-pages", action="store_true", help="count pages that hold only zeros at the end"
    )
    parser.add_argument("arguments", nargs="*", help="of the guest, after --")
    return parser.parse_args()


def check_guest(options: argparse.Namespace, machine: Machine) -> None:
    """Complain about a machine and a guest that do not go together.

    Raises:
        MachineError: a guest is missing, not a program, or not wanted.
    """
    if machine.needs_guest and options.guest is None:
        raise MachineError(f"{options.machine}: needs --guest")
    if not machine.needs_guest and options.guest is not None:
        raise MachineError(f"{options.machine}: has traffic, and takes no --guest")
    if options.guest is not None and not os.access(options.guest, os.X_OK):
        raise MachineError(f"{options.guest}: no such program; build the guests")


def shared_store(memory_bytes: int) -> Path:
    """Return the name of a new shared memory object, if there is room for the simulated memory.

    What killed simulations left there is removed first.

    Raises:
        MachineError: there is not; touching it would kill gem5 with SIGBUS.
    """
    remove_left()
    room = os.statvfs(SHARED_MEMORY)
    free_bytes = room.f_bavail * room.f_frsize
    if free_bytes < memory_bytes:
        message = (
            f"{SHARED_MEMORY}: {free_bytes >> 20} MiB are free, the machine has "
            f"{memory_bytes >> 20} MiB; enlarge it (docker run --shm-size), or use --private-memory"
        )
        raise MachineError(message)
    return own_name()


def unlink_when_mapped(board: object, store: Path) -> None:
    """Have the name of the shared memory removed right after gem5 has mapped it.

    gem5 removes it when it exits; a gem5 that is killed later leaves nothing behind.
    """
    proceed = board._post_instantiate  # noqa: SLF001 - the board's hook for what follows

    def unlink_and_proceed() -> None:
        store.unlink(missing_ok=True)
        proceed()

    board._post_instantiate = unlink_and_proceed  # noqa: SLF001 - as above


def simulate(simulator: Simulator) -> float:
    """Simulate to the end.

    Returns:
        Seconds from the start of gem5 until `FIRST_TICKS` were simulated, or to the end.
    """
    simulator.set_max_ticks(FIRST_TICKS)
    simulator.run()
    set_up_s = age_s()
    if simulator.get_last_exit_event_cause() == LIMIT_REACHED:
        simulator.set_max_ticks(m5.MaxTick - m5.curTick())  # counted from now
        simulator.run()
    return set_up_s


def age_s() -> float:
    """Return the seconds since gem5 was started, to a hundredth."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of the line, proc(5)
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - started_s, 2)


def report(
    options: argparse.Namespace, simulator: Simulator, store: Path | None, course: dict[str, object]
) -> int:
    """Write result.json, with what is known of the simulation's course; return the exit code."""
    cause = simulator.get_last_exit_event_cause().strip()
    status = simulator.get_last_exit_event_code()
    result = {
        "schema": SCHEMA,
        "version": VERSION,
        "gem5": core.gem5Version,
        "machine": options.machine.stem,
        "guest": options.guest.name if options.guest else None,
        "arguments": options.arguments,
        "cause": cause,
        "guest_status": status,
        "ticks": simulator.get_current_tick(),
        **course,
        "memory_bytes": kinds_of_memory(store.name if store else None),
    }
    if options.zero_pages:
        n_resident, n_zero = zero_pages()
        result["zero_pages"] = {"resident": n_resident, "zero": n_zero}
    Path(m5.options.outdir, "result.json").write_text(json.dumps(result, indent=2) + "\n")
    if status:
        print(f"run.py: the guest ended with status {status} ({cause})", file=sys.stderr)
    return 1 if status else 0


if __name__ == "__m5_main__":
    sys.exit(main())
