"""Allocation traces: read and write them, describe them, thin them out."""
