"""The answer: the setting that the program itself proved better, or "keep what you have".

    session.py        record, search in emulation, select on the program, confirm, answer
    options.py        from the options to what is asked for
    request.py        what is asked for, the file that keeps it, and what of it may change later
    tuned.py          what is tuned, as the rest sees it: how it runs once, what a run yields
    kinds.py          which kind a request asks for
    program.py        a program that ends: environments, runs, samples
    service.py        a service under load: memory of all its processes
    suite.py          several commands tuned on together
    driver.py         which child of a program that starts others does the work
    known.py          settings that run whatever emulation says
    quantities.py     what is measured, the one table
    work.py           what the stages share: folder, time, runs and their journals
    examination.py    the first runs, also of the held-out input
    used_time.py      the time of all calls, however they ended
    aside.py          what no longer holds is renamed, not lost
    machines.py       what other machines are that ran it, and what makes samples comparable
    cluster.py        rounds on the workers of a Dask cluster
    duets.py          rounds of runs at the same time on one core
    emulation.py      the search in emulation, bounded by time
    noise.py          how much runs vary
    outlook.py        what the time that is given can show
    expecting.py      what emulation expects of the program, and when that stays as it is
    proposals.py      which emulated settings go to the program
    correction.py     what emulation gets wrong, learned from the runs made so far
    direct.py         the search with the program alone
    direct_plan.py    the plan of its runs
    smoothed.py       what all of these say of a setting
    candidates.py     runs that choose the candidates, which are no evidence for them
    exploration.py    more such runs, where they are short
    selection.py      the plan of these runs
    selected.py       what these runs showed
    confirmation.py   new runs of the candidates, and which of them is the winner
    held_out.py       runs of the winner on an input that was not tuned on
    race.py           the plan of the confirmation; losers leave, it ends when it is decided
    judgement.py      what the rounds prove of one candidate
    evidence.py       evidence that may be looked at after every round
    reduced.py        the winner without the settings that do nothing
    ablation.py       what each setting of the winner does
    counted.py        instructions of the whole program, beside its CPU time
    disturbance.py    what else the machine did meanwhile
    conclusion.py     from what is proven to the answer
    turned_down.py    what a guard turned down although it gains much
    answer.py         the recommendation and its sentence
    answer_table.py   its table, and the rows of what the program measured
    conditions.py     what a build asks of an answer
    view.py           what is called as it goes on
    comparison.py     given settings of a service against the service as it is

Emulation proposes, the program disposes: nothing is recommended that new runs of the program did
not confirm.  Runs that chose the candidates are no evidence for them.
"""
