"""The answer: the setting that the program itself proved better, or "keep what you have".

    session.py      record, search in emulation, select on the program, confirm on new runs, answer
    request.py      what is asked for, and the file that keeps it
    program.py      the program as it is and under candidates: environments, runs, samples
    proposals.py    which emulated settings go to the program
    correction.py   what emulation gets wrong, learned from the runs made so far
    selection.py    runs that choose the candidates, which are no evidence for them
    race.py         rounds of the confirmation; losers leave, it ends when it is decided
    judgement.py    what the rounds prove of one candidate
    evidence.py     evidence that may be looked at after every round
    answer.py       the recommendation and its sentence

Emulation proposes, the program disposes: nothing is recommended that new runs of the program did
not confirm.  Runs that chose the candidates are no evidence for them.
"""
