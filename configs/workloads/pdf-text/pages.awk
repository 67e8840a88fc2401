# Writes PostScript: pages of words in two columns and two fonts.

function random(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return int(seed / 65536) % n
}

function word(    made, k) {
    made = ""
    for (k = 2 + random(9); k > 0; k--)
        made = made substr("etaoinshrdlucmfwyp", 1 + random(18), 1)
    return made
}

BEGIN {
    seed = 13
    print "%!PS"
    for (page = 0; page < 12; page++) {
        for (column = 0; column < 2; column++) {
            printf "/%s findfont %d scalefont setfont\n", column ? "Times-Roman" : "Helvetica", 7 + random(3)
            for (y = 760; y > 40; y -= 10) {
                printf "%d %d moveto (", 40 + 260 * column, y
                for (k = 0; k < 7; k++)
                    printf "%s ", word()
                print ") show"
            }
        }
        print "showpage"
    }
}
