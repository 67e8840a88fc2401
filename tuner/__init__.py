"""Find the malloc, and its settings, that use the least memory for the least work."""

__version__ = "0.1.0"
"""The one place of the version: package, command and native parts take it from here."""
