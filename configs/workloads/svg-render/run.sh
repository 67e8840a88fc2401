#!/bin/sh
# Document renderer in Rust: librsvg draws shapes, text and gradients.  Needs librsvg2-bin,
# fonts-dejavu-core and awk; the drawing, of as many groups as the argument says, is written
# without the allocator under test.
cd "$(dirname "$0")" || exit 1
groups=${1:-24}
made="${TMPDIR:-/tmp}/malloc-tuner-drawing-$groups.svg"
prepare() (
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    awk -v groups="$groups" -f drawing.awk > "$made.$$" && mv "$made.$$" "$made"
)
[ -e "$made" ] || prepare || exit 1
exec rsvg-convert --format png "$made"
