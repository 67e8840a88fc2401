"""A service under load, once: started, loaded, left idle, stopped, and what it used.

    plan.py        what is asked for: command, readiness, load, phases, stop, state folder
    readiness.py   when a service is ready: a port, an HTTP status, a line of output, a command
    guard.py       a command and all its descendants under supervise, which ends with this process
    processes.py   the processes of a service: titles, allocators
    output.py      what load generators print: requests, latencies, errors
    figures.py     from samples and phases to the metrics of `tuner.metrics.SERVICE`
    constraints.py what may become worse, and by how much
    recording.py   a run under the recorder
    roles.py       which of its processes are tuned
    check.py       settings of an export in a running process
    lifecycle.py   one run, from a fresh state folder to nothing left

Nothing of a run outlives it, nor this process: see guard.py.
"""
