# Writes SQL: a shop's orders, item by item, with reports between them.

function random(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return int(seed / 65536) % n
}

function text(n,    words) {
    words = "parcel"
    while (n-- > 0)
        words = words " " random(100000)
    return words
}

BEGIN {
    seed = 11
    print "create table orders(id integer primary key, customer int, day int, note text);"
    print "create table items(id integer primary key, orders int, article int, price int);"
    print "create index by_customer on orders(customer);"
    print "create index by_order on items(orders);"
    for (i = 1; i <= rows; i++) {
        if (i % 50 == 1)
            print "begin;"
        printf "insert into orders values(%d, %d, %d, '%s');\n", i, random(900), random(365), text(random(30))
        for (k = random(4); k >= 0; k--)
            printf "insert into items(orders, article, price) values(%d, %d, %d);\n", i, random(5000), random(900)
        if (i % 50 == 0)
            print "commit;"
        if (i % 200 == 0)
            printf "update orders set note = note || ' sent' where customer = %d;\n", random(900)
        if (i % 500 == 0)
            printf "delete from orders where day = %d;\n", random(365)
        if (i % 1000 == 0) {
            print "select count(*), sum(length(note)) from orders;"
            print "select customer, sum(price) s from orders join items on items.orders = orders.id group by customer order by s desc, customer limit 3;"
            print "select substr(note, 1, 20), count(*) from orders group by 1 order by 2 desc, 1 limit 2;"
        }
    }
    print "delete from items where price < 300;"
    print "vacuum;"
    print "select count(*), sum(price) from items;"
}
