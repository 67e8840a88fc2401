# Prints the requests of workload "redis-load" in the server's own inline form:
# strings, lists, sets, hashes and sorted sets are filled, changed and thinned.
# Deterministic: its own generator.  Usage: awk -v requests=20000 -f commands.awk
function draw(n) { seed = (seed * 16807) % 2147483647; return seed % n }
function text(n,    s) { s = ""; while (length(s) < n) s = s letters; return substr(s, 1, n) }
BEGIN {
    seed = 42
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    for (i = 0; i < requests; i++) {
        kind = draw(100); key = draw(3000)
        if (kind < 35) print "SET s:" key, text(1 + draw(draw(50) ? 200 : 9000))
        else if (kind < 45) print "APPEND a:" key % 100, text(1 + draw(300))
        else if (kind < 55) print "LPUSH l:" key % 200, text(1 + draw(60))
        else if (kind < 63) print "SADD m:" key % 300, "member:" draw(100000)
        else if (kind < 73) print "HSET h:" key % 400, "field:" draw(40), text(1 + draw(80))
        else if (kind < 80) print "ZADD z:" key % 200, draw(100000), "item:" draw(5000)
        else if (kind < 85) print "LTRIM l:" key % 200, 0, 20
        else if (kind < 95) print "DEL s:" draw(3000)
        else if (kind < 97) print "DEL a:" key % 100
        else print "GET s:" key
        if (i == int(requests * 0.7)) for (k = 0; k < 1500; k++) print "DEL s:" k * 2
    }
}
