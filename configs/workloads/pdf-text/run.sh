#!/bin/sh
# Document reader: poppler lays out the text of a PDF that Ghostscript wrote.  Needs
# poppler-utils, ghostscript and awk; the PDF is written without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-pages.pdf"
prepare() (
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk -f pages.awk | gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pdfwrite -sOutputFile="$made" -
)
prepare || exit 1
exec pdftotext -layout "$made" -
