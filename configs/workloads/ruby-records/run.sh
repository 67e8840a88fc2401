#!/bin/sh
# Garbage-collected runtime: Ruby groups, sorts and prints records.  Needs ruby.
cd "$(dirname "$0")" && exec ruby --disable=gems records.rb "$@"
