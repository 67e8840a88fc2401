"""Allocation traces: read them, describe them, record them from real programs."""
