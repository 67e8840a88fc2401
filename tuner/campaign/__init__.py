"""The tune loop: defaults, search, re-measurement of the front, all of it resumable.

    setup.py      from a campaign file to what a campaign needs: spaces, evaluator, record
    identity.py   whether a store belongs to the campaign that wants to continue it
    studies.py    the strategies and whose turn it is
    runner.py     evaluate, commit, report to the strategy
    screening.py  which proposals are worth a trial, by a shrunk workload
    recheck.py    which trials to measure again, and whether they agree
    interrupts.py Ctrl-C
    progress.py   what the user sees meanwhile, as lines; live.py the same on a terminal
    summary.py    what the user sees in the end

A campaign is resumed by replay: the same command asks the same questions again,
and those that the store can answer cost nothing.
"""
