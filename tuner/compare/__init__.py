"""The one engine that compares: real programs, gem5, programs inside gem5, `bench`, benchmarks.

    plan.py       what runs when: a `Plan` hands out blocks of `Step`s; `Rounds` shuffles each round
    loop.py       `compare` runs what is missing, keeps every sample, lets failed subjects leave
    apart.py      the same on several machines at once, each round on one
    journal.py    a file of JSON lines that is only appended to, and how damage to it is met
    values.py     a metric of all samples: medians, intervals, ratios of pairs, tests

A comparison is five things put together::

    plan = Rounds(subjects=("glibc", "exgen"), tasks=("larson", "ring"), rounds=6, seed=1)
    with Journal(path, header, same=("subjects", "seed")) as journal:
        keeper = JournalKeeper(journal, encode, decode)
        course = compare(plan, run, keeper, Observer(on_sample=show))
    values = Values.of(course, lambda result: result.cpu_ns)
    values.ratio("larson", "exgen", "glibc")        # median of the paired ratios, interval

A **subject** is a label; what it runs under is the runner's to know.  A **task** is what it runs:
any hashable value, whose text seeds the order (`None` where there is only one).  A **runner** is a
function from a `Step` to a sample; a **sample** is a `tuner.records.Outcome` of any values.  A
**keeper** says what was measured and keeps what is: `JournalKeeper` in a file of its own,
`tuner.validate` in the store of a campaign.

What fits in without a change to the loop: a race is a plan that looks at the course between two
blocks and calls `Course.leave` or ends; a duet is a block of two with ``workers=2``.
"""
