# Writes build.ninja: libraries of objects, each library needing some before it.

BEGIN {
    print "cflags = -O2 -Wall -Iinclude"
    print "rule cc\n  command = cc $cflags $flags -MD -MF $out.d -c $in -o $out\n  description = compile $out"
    print "rule ar\n  command = rm -f $out && ar crs $out $in\n  description = archive $out"
    print "rule gen\n  command = generate $out\n  description = generate $out"
    for (l = 0; l < 120; l++) {
        printf "build gen/library%d/tables.h: gen\n", l
        objects = ""
        for (o = 0; o < 5 + l * 7 % 40; o++) {
            printf "build obj/library%d/part%d.o: cc gen/library%d/source%d.c | gen/library%d/tables.h", l, o, l, o, l
            printf " || gen/library%d/tables.h\n  flags = -DPART=%d -DLIBRARY=%d -Igen/library%d\n", int(l / 2), o, l, l
            printf "build gen/library%d/source%d.c: gen\n", l, o
            objects = objects " obj/library" l "/part" o ".o"
        }
        printf "build lib/library%d.a: ar%s", l, objects
        if (l > 2)
            printf " | lib/library%d.a lib/library%d.a", int(l / 2), int(l / 3)
        print ""
    }
}
