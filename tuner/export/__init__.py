"""Write a chosen configuration in the form in which a program is deployed.

    deployment.py   what is deployed: variables, what they hold for, what was gained
    sources.py      of what it is made: a pick, an answer, a setting
    gains.py        what emulation, validation and optimize say of it
    reduction.py    which settings can be left out
    formats.py      the forms

A form is a function from a `Deployment` to its text and an entry of `tuner.registry.EXPORTERS`.
"""
