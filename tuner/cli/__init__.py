"""The command line: parse, call, print, exit code.  One file per command."""
