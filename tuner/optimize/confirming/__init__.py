"""New runs of the candidates: which of them is the winner, and which of its settings matter.

    confirmation.py   new runs of the candidates, and which of them is the winner
    race.py           the plan of the confirmation; losers leave, it ends when it is decided
    held_out.py       runs of the winner on an input that was not tuned on
    ablation.py       what each setting of the winner does
    reduced.py        the winner without the settings that do nothing

Only what ran here is evidence, and the claims share one error.
"""
