#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock bench: it measures, and leaves nothing behind.
#     bench.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
need_sql

# What is there of the benchmark in the database: names of tables and views. Others may run theirs: only
# those of the process $1, if that is given.
left() {
    local like="rowlock\\_bench\\_${1:-}"
    case $driver in
    postgresql) echo "SELECT relname FROM pg_class WHERE relname LIKE '$like%'" ;;
    mysql) echo "SELECT table_name FROM information_schema.tables WHERE table_name LIKE '$like%'" ;;
    sqlite) echo "SELECT name FROM sqlite_master WHERE name LIKE '$like%' ESCAPE '\\'" ;;
    esac | sql
}

# start OUT: in the background; $pid is its process.
start() {
    "$rowlock" bench "${here[@]}" --time 60s >"$1" 2>&1 &
    pid=$!
    pids+=("$pid")
}

group 'before there are tables'
expect 78 'no tables' rl bench --time 1s
one_line 'no tables'
has "$err" 'rowlock migrate up' 'says what to do'
expect 69 'no database' "$rowlock" bench --db "$nowhere" --time 1s
[[ $driver == sqlite ]] || no_ 'no password' grep -q sEcret "$work/err" # whose path it is
rl migrate up >/dev/null
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

group 'measuring'
expect 0 'a lock of ours' rl run mine -- true
before=$(rl list --all --json | grep -o '"name": "[^"]*"')
has_numbers() {
    awk 'NR > 1 && $1 != "hand-over" && !($3 > 0 && $4 > 0 && $4 <= $5 && $5 <= $6) { bad = 1 }
        END { exit bad }' "$work/out"
}
for time in 1s 4s 16s; do # a disk that stands still for longer than a measurement leaves it without any
    expect 0 'a table' rl bench --time "$time"
    ! has_numbers || break
done
is "$err" '' 'nothing on stderr'
is "$(awk '{ print $1, $2 }' "$work/out")" 'TEST THREADS
cycle 1
cycle 4
cycle 16
cycle 64
hand-over 2
hand-over 8
busy 1
re-entry 1' 'all tests'
yes_ 'cycle, busy and re-entry have numbers' has_numbers
expect 0 'JSON' rl bench --time 1s --json
is "$(grep -c '"test": "[a-z-]*", "threads": [0-9]*, "per_second": [0-9]*, "p50_us": [0-9]*, ' "$work/out")" \
    8 'JSON: eight objects'
if command -v python3 >/dev/null; then
    yes_ 'JSON: well-formed' python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/out"
fi

group 'what is left'
is "$(rl list --all --json | grep -o '"name": "[^"]*"')" "$before" 'our own locks are as they were'
start "$work/interrupted"
has_tables() {
    [[ $(left "$pid") ]]
}
until_ 'has tables while it runs' has_tables && pass
kill -TERM "$pid"
joined "$pid"
is "$status" 143 'interrupted'
is "$(left "$pid")" '' 'interrupted: no tables are left'
if [[ $driver == sqlite ]]; then # a database of our own
    is "$(left)" '' 'no tables are left'
fi
summary
