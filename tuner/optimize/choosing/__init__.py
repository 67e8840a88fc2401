"""From all that can be set to a few candidates: emulation proposes, single runs choose.

    emulation.py     the search in emulation, bounded by time
    expecting.py     what emulation expects of the program, and when that stays as it is
    proposals.py     which emulated settings go to the program
    correction.py    what emulation gets wrong, learned from the runs made so far
    outlook.py       what the time that is given can show
    selection.py     the plan of these runs
    selected.py      what these runs showed
    candidates.py    runs that choose the candidates, which are no evidence for them
    exploration.py   more such runs, where they are short
    priors.py        what emulation expects of settings that it did not try
    direct.py        the search with the program alone
    direct_plan.py   the plan of its runs
    smoothed.py      what all of these say of a setting

Runs that choose candidates are no evidence for them.
"""
