"""Kinds of things that are tuned, and what is asked of them before any candidate runs.

    making.py        which kind a request asks for
    program.py       a program that ends: environments, runs, samples
    service.py       a service under load: memory of all its processes
    suite.py         several commands tuned on together
    driver.py        which child of a program that starts others does the work
    known.py         settings that run whatever emulation says
    examination.py   the first runs, also of the held-out input
    counted.py       instructions of the whole program, beside its CPU time
    cluster.py       rounds on the workers of a Dask cluster

Each is a `Tuned`; nothing outside asks which one it is.
"""
