# Writes a history for git fast-import: files that change line by line.

function random(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return int(seed / 65536) % n
}

function line(f) {
    return "line " random(100000) " of file " f " with " random(1000) " words"
}

function content(f,    all, k) {
    all = ""
    for (k = 0; k < count[f]; k++)
        all = all lines[f, k] "\n"
    return all
}

BEGIN {
    seed = 5
    for (c = 1; c <= 400; c++) {
        print "commit refs/heads/main"
        printf "mark :%d\ncommitter A <a@example.org> %d +0000\ndata 6\nchange\n", c, 1700000000 + c * 60
        if (c > 1)
            printf "from :%d\n", c - 1
        for (n = 0; n < 3; n++) {
            f = random(60)
            if (!(f in count))
                for (count[f] = 0; count[f] < 40 + random(300); count[f]++)
                    lines[f, count[f]] = line(f)
            for (k = random(6); k >= 0; k--)
                lines[f, random(count[f])] = line(f)
            lines[f, count[f]++] = line(f)
            all = content(f)
            printf "M 100644 inline folder%d/file%d\ndata %d\n%s\n", f % 5, f, length(all), all
        }
    }
    print "done"
}
