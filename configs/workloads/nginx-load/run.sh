#!/bin/sh
# Web server under load: nginx serves files, compressed and not, to one client that opens
# many connections, and is told to quit.  The client runs in the background without the
# allocator under test.  Needs nginx and python3.
cd "$(dirname "$0")" || exit 1
made=$(mktemp -d "${TMPDIR:-/tmp}/malloc-tuner-nginx.XXXXXX") || exit 1
port="${NGINX_LOAD_PORT:-8399}"
mkdir "$made/logs" "$made/html"
sed "s/@PORT@/$port/" nginx.conf > "$made/nginx.conf"
load() {
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF EXGEN_CONF
    /usr/bin/python3 client.py "$port" "$made/nginx.pid" "${1:-6000}"
    rm -r "$made"
}
/usr/bin/env -u LD_PRELOAD /usr/bin/python3 client.py --pages "$made/html"
load "$@" &
exec nginx -p "$made" -c nginx.conf -e "$made/logs/error.log"
