"""The comparison that allocator articles draw, for any set of allocators.

`subjects` is what is compared, `plan` what is run, `journal` keeps every raw sample,
`rounds` runs what is missing, `summary` makes medians with intervals of it.  Pictures
are `tuner.report.bench_figures`.
"""
