"""Search strategies behind ask and tell; they never run anything.

    base.py            the contract of a strategy, and the bookkeeping all of them share
    novelty.py         what was proposed already, and how to find what was not
    operators.py       crossover and mutation of level indices under conditions
    survival.py        survival and parents in NSGA-II of pymoo
    random_search.py   the baseline every other strategy has to beat
    pymoo_nsga2.py     NSGA-II of pymoo
    pymoo_nsga3.py     NSGA-III of pymoo
    deap_nsga2.py      NSGA-II of DEAP
    optuna_search.py   TPE of Optuna, if that is installed
    exhaustive.py      all of a small space
    auto.py            NSGA-II of pymoo whose children a model sifts, the default
    surrogate.py       that model: a Gaussian process over genomes
    making.py          strategies by name, as `tuner.registry` lists them

A strategy is deterministic: the same seed and the same results give the
same proposals in another process.  A campaign resumes by asking again and
reporting what its store holds.
"""

from tuner.search.base import Strategy, Told
from tuner.search.making import make_strategy, population_for

__all__ = ["Strategy", "Told", "make_strategy", "population_for"]
