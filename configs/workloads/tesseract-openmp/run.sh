#!/bin/sh
# OpenMP: Tesseract reads a page of text with four threads.  Needs tesseract-ocr with
# English, ghostscript and awk; the page is drawn without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-page.pgm"
lines="${1:-12}"
prepare() (
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk -v lines="$lines" -f page.awk | gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pgmraw -r150 -sOutputFile="$made" -
)
prepare || exit 1
OMP_NUM_THREADS=4 OMP_THREAD_LIMIT=4 exec tesseract "$made" - 2> /dev/null
