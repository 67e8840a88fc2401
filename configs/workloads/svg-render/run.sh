#!/bin/sh
# Document renderer in Rust: librsvg draws shapes, text and gradients.  Needs librsvg2-bin,
# fonts-dejavu-core and awk; the drawing is written without the allocator under test.
cd "$(dirname "$0")" || exit 1
made="${TMPDIR:-/tmp}/malloc-tuner-drawing.svg"
(
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk -f drawing.awk > "$made"
) || exit 1
exec rsvg-convert --format png "$made"
