"""The answer: the setting that the program itself proved better, or "keep what you have".

    session.py       record, search in emulation, select on the program, confirm, answer
    conclusion.py    from what is proven to the answer
    comparison.py    given settings of a service against the service as it is
    options.py       from the options to what is asked for
    request.py       what is asked for, the file that keeps it, and what of it may change later
    work.py          what the stages share: folder, time, runs and their journals
    used_time.py     the time of all calls, however they ended
    tuned.py         what is tuned, as the rest sees it: how it runs once, what a run yields
    quantities.py    what is measured, the one table
    view.py          what is called as it goes on
    aside.py         what no longer holds is renamed, not lost

and five packages, of which each needs only those below it:

    confirming/      new runs of the candidates: the winner, in few settings
    choosing/        from all that can be set to a few candidates
    kinds/           what can be tuned, and how it runs
    answering/       the answer as a value, and in words
    proof/           what rounds prove, under any load

Emulation proposes, the program disposes: nothing is recommended that new runs of the program did
not confirm.  Runs that chose the candidates are no evidence for them.
"""
