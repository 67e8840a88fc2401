#!/bin/sh
# Garbage-collected runtime with threads: the Java compiler compiles one class.  Objects live
# in memory of the runtime's own; malloc serves the runtime and its compilers.  Needs a JDK.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-java"
mkdir -p "$made"
exec javac -J-Xshare:auto -J-XX:+UseSerialGC -d "$made" Shapes.java
