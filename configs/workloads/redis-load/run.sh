#!/bin/sh
# Server under load: redis-server takes a fixed sequence of requests, prints a
# digest of its data and is shut down.  The load runs in the background without
# the allocator under test; the measured process is the server.
# Needs redis-server and redis-tools.
cd "$(dirname "$0")" || exit 1
port="${REDIS_LOAD_PORT:-6399}"
requests="${1:-25000}"
load() {
    unset LD_PRELOAD GLIBC_TUNABLES MALLOC_CONF
    until redis-cli -p "$port" ping > /dev/null 2>&1; do sleep 0.02; done
    awk -v requests="$requests" -f commands.awk | redis-cli -p "$port" --pipe > /dev/null
    redis-cli -p "$port" debug digest
    redis-cli -p "$port" shutdown nosave > /dev/null 2>&1
}
load &
exec redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no \
    --enable-debug-command local --logfile /dev/null --daemonize no
