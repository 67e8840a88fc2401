#!/bin/sh
# Document renderer: Ghostscript draws six pages.  Needs ghostscript.
cd "$(dirname "$0")" && exec gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r100 \
    -sOutputFile=%stdout pages.ps
