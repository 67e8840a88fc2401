"""What a campaign found: the front of any objectives, and the trials chosen from it.

dominance.py  fronts and hypervolume
bounds.py     the baseline, and bounds relative to it
picks.py      the rules: balanced, knee, no-regret, best-X
kept.py       picks by name, as files of a run
ablation.py   a point with one setting put back at a time, recorded or emulated
whole.py      what a change of the heap is for the whole program
repricing.py  whether other prices would have chosen otherwise
"""
