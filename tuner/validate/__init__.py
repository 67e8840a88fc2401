"""Validation: what the emulator claimed, measured on the real program.

    subjects.py   which configurations run: picks, defaults, front, dominated points
    setup.py      their environments, read back before anything is measured
    rounds.py     interleaved rounds, every run committed, resumable
    metrics.py    what is compared, and which claim stands against which number
    verdicts.py   claims decided together: one test each, Holm's rule over all
    summary.py    medians, intervals, claims and rank correlation, as plain values

The report shows the same summary: `summarize` is the only place that computes.
"""
