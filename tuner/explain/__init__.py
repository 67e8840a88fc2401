"""What matters in a run: which settings carry the gain, which do nothing, which are dangerous.

importance.py   shares of what the settings decide, by a forest, with interactions
levels.py       what each value of a setting does, and from which value on it harms
explanation.py  all of it, for one run, and a point of it by `tuner.front.ablation`
wording.py      the same in words, and as JSON
figure.py       its picture
"""
