"""Validation: what the emulator claimed, measured on the real program.

    subjects.py   which configurations run: picks, defaults, front, dominated points
    setup.py      their environments, read back before anything is measured
    rounds.py     interleaved rounds, every run committed, resumable
    metrics.py    what is compared, and which claim stands against which number
    summary.py    medians, intervals, verdicts and rank correlation, as plain values
    tables.py     the summary as text

The report shows the same summary: `summarize` is the only place that computes.
"""
