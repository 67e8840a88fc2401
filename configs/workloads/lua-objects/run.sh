#!/bin/sh
# Garbage-collected runtime: Lua parses, changes and prints a tree of tables.  Needs lua5.4.
cd "$(dirname "$0")" && exec lua5.4 objects.lua "$@"
