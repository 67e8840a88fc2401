#!/bin/sh
# Interpreter: perl builds an inverted index.  Needs perl.
cd "$(dirname "$0")" && PERL_HASH_SEED=0 exec perl index.pl "$@"
