"""Measuring: the only layer that starts processes to learn a number.

evaluation.py    what one evaluation yields, and the interface of whatever yields it
emulator.py      one configuration through rand_malloc
several.py       one configuration on several workloads
instruments.py   which instruction counters work on this machine
warm.py          memory that was touched before, for what is timed next
calibration.py   what a fault and a system call cost here, in instructions
clocks.py        what others did with the machine between two moments
program.py       one run of a real program under supervise
preloads.py      what a program's environment preloads beside an allocator
counting.py      instructions of a real program by cachegrind
gem5.py          one run of gem5, gem5_inside.py programs inside its machines
gem5_stats.py    the statistics that it leaves
driver.py        one run of malloc_bench
process.py       starting the native tools
answers.py       what to say of an answer that is not understood
offers.py        what this machine lets us do
executor.py      many evaluations over the cores
workers.py       the workers of a Dask cluster
cluster.py       many evaluations over them
remote.py        what runs on their machines
"""
