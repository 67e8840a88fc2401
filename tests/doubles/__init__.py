"""Stand-ins with the real interfaces, for tests and for looking at reports."""
