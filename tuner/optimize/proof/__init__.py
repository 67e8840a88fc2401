"""What rounds prove, whatever the load of the machine.

    evidence.py      evidence that may be looked at after every round
    judgement.py     what the rounds prove of one candidate
    noise.py         how much runs vary
    duets.py         rounds of runs at the same time on one core
    abreast.py       runs of a search, which proves nothing, on several cores at the same time
    machines.py      what other machines are that ran it, and what makes samples comparable
    disturbance.py   what else the machine did meanwhile

A round is a run of the program as it is and one of each candidate, in random order.
"""
