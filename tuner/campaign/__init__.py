"""The tune loop: defaults, search, re-measurement of the front, all of it resumable.

    setup.py      from a campaign file to what a campaign needs: spaces, evaluator, record
    workloads.py  the files that it replays
    warm.py       the earlier campaign that it starts from
    identity.py   whether a store belongs to the campaign that wants to continue it
    executors.py  what evaluates: this machine, a Dask cluster, jobs of Slurm
    studies.py    the strategies and whose turn it is
    runner.py     evaluate, commit, report to the strategy
    ahead.py      the same where proposals do not wait for results
    screening.py  which proposals are worth a trial, by a shrunk workload
    purchases.py  which evaluations are worth their count of instructions
    stopping.py   when it ends before its evaluations are spent
    recheck.py    which trials to measure again, and whether they agree
    held_out.py   what it picked, on workloads that it was not tuned for
    progress.py   what the user sees meanwhile, as lines; live.py the same on a terminal
    summary.py    what the user sees in the end
    replay.py     strategies compared on what campaigns recorded

A campaign is resumed by replay: the same command asks the same questions again,
and those that the store can answer cost nothing.
"""
