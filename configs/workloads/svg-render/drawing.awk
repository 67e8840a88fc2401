# Writes a drawing of many small shapes, in `groups` groups that share gradients.

function random(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return int(seed / 65536) % n
}

BEGIN {
    seed = 9
    print "<svg xmlns='http://www.w3.org/2000/svg' width='900' height='700'>"
    for (g = 0; g < groups; g++) {
        printf "<defs><linearGradient id='g%d'><stop offset='0' stop-color='rgb(%d,%d,%d)'/>", g, random(256), random(256), random(256)
        printf "<stop offset='1' stop-color='white'/></linearGradient></defs>\n"
        printf "<g transform='translate(%d,%d) rotate(%d)' opacity='0.8'>\n", random(800), random(600), random(90)
        for (i = 0; i < 60; i++) {
            printf "<path fill='url(#g%d)' stroke='black' d='M%d %d", g, random(100), random(100)
            for (k = 2 + random(12); k > 0; k--)
                printf " C%d %d %d %d %d %d", random(100), random(100), random(100), random(100), random(100), random(100)
            print "'/>"
            if (i % 6 == 0)
                printf "<text x='%d' y='%d' font-family='DejaVu Sans' font-size='%d'>label %d of group %d</text>\n", random(100), random(100), 6 + random(10), i, g
        }
        print "</g>"
    }
    print "</svg>"
}
