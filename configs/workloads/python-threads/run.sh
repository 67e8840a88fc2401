#!/bin/sh
# Threaded interpreter: producers and consumers in one Python process, with the C
# library's allocator under every object.  Needs python3.
cd "$(dirname "$0")" && PYTHONMALLOC=malloc PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 \
    exec /usr/bin/python3 pipeline.py "$@"
