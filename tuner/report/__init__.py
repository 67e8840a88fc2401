"""Show what a campaign found: tables in a terminal and in files, one HTML page, figures.

Each file computes plain values, which tests check, and describes its figure or
table from them; `page` puts all together.  How a figure is drawn, and how
allocators look, is in `tuner.drawing`.
"""
