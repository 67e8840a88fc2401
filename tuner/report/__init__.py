"""Show what a campaign found: tables, one self-contained HTML page, figures for papers.

Every picture is two steps: `tuner.report.data` computes plain values, which
tests check; `charts` (plotly, for the page) and `figures` (matplotlib, for
papers) only draw them.
"""
