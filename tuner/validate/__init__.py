"""Validation: what the emulator claimed, measured on the real program.

    subjects.py        which configurations run: picks, defaults, front, dominated points
    setup.py           their environments, read back before anything is measured
    session.py         options, samples, and the store that keeps them
    program.py         a real program in interleaved rounds, every run committed, resumable
    gem5.py            gem5 as the program; inside.py programs inside its machines
    with_gem5.py       points of a run with both
    trust.py           whether the program is the recorded one, and which validation is believed
    huge_pages.py      whether huge pages were those of the campaign
    metrics.py         what is compared, and which claim stands against which number
    verdicts.py        claims decided together: one test each, Holm's rule over all
    ranking.py         how well the emulator ranks what was measured
    summary.py         medians, intervals, claims and rank correlation, as plain values
    gem5_summary.py    the same of gem5, inside_summary.py of programs inside its machines
    decision.py        what to deploy: one sentence, and the subject it names

The report shows the same summary: `summarize` is the only place that computes.
"""
