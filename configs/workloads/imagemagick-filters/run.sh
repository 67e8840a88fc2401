#!/bin/sh
# Image editor: ImageMagick makes, blurs, turns, sharpens and quantises three pictures, each
# a block of some megabytes.  Needs imagemagick.
cd "$(dirname "$0")" && exec convert-im6.q16 \
    -seed 7 -size 320x240 plasma:red-blue plasma:green-yellow gradient:black-white \
    -blur 0x2 -rotate 12 -resize 150% -unsharp 0x1 -morphology dilate disk:2 \
    -colors 64 -append -strip png:-
