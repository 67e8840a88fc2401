"""What matters in a run: which settings carry the gain, which do nothing, which are dangerous.

importance.py   shares of what the settings decide, by a forest, with interactions
levels.py       what each value of a setting does, and from which value on it harms
ablation.py     a point with one setting put back at a time, recorded or emulated
explanation.py  all of it, for one run
"""
