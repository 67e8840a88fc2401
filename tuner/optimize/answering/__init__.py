"""The answer as a value, and the words, rows and files it is shown in.

    answer.py           the decision, its sentence and all that is printed with it
    table.py            its table, and the rows of what the program measured
    recommendation.py   an answer read back from its file
    turned_down.py      what a guard turned down although it gains much
    conditions.py       what a build asks of an answer

The answer is printed, kept as `answer.json` and read back by all that shows or exports it.
"""
