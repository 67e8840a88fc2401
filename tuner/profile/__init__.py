"""Workload profiles: a trace as counts that people can review, share and scale."""
