#!/bin/sh
# Garbage-collected runtime with threads: Node writes and parses JSON and compresses it.
# Objects live in memory of the runtime's own; malloc serves the runtime.  Needs nodejs.
cd "$(dirname "$0")" && exec node --single-threaded-gc orders.js
