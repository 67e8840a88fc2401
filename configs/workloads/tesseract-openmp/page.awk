# Writes PostScript: one page of large words.

function random(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return int(seed / 65536) % n
}

BEGIN {
    seed = 21
    split("the allocator keeps small blocks in slabs and large ones apart so that memory returns", words, " ")
    print "%!PS\n/Times-Roman findfont 16 scalefont setfont"
    for (y = 740; y > 740 - 20 * lines; y -= 20) {
        printf "60 %d moveto (", y
        for (k = 0; k < 9; k++)
            printf "%s ", words[1 + random(15)]
        print ") show"
    }
    print "showpage"
}
