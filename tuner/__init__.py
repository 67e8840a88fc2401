"""Find the malloc, and its settings, that use the least memory for the least work."""
