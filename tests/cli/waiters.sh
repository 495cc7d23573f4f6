#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock waiters: who waits for what, and who is in the way; and what the others say of the queue.
#     waiters.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
expect 0 'tables' rl migrate up
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

# waits OWNER NAME [OPTION...]: a waiter in the background, $waiter, which runs nothing in the end.
waits() {
    set -m # else the shell starts it with SIGINT ignored
    "$rowlock" run "${here[@]}" --owner "$1" "${@:3}" "$2" -- touch "$work/ran" 2>>"$work/wait.err" &
    waiter=$!
    set +m
    pids+=("$waiter")
    until_ "$1 waits for $2" in_line "$1" "$2"
}
in_line() {
    rl waiters --json | grep -F "\"name\": \"$2\"," | grep -qF "\"owner\": \"$1\", \"ticket\""
}
table() {
    rl waiters | sed -E 's/ +/ /g; s/ [0-9.]+m?s / T /'
}
nobody() {
    [[ $(rl waiters --json) == '[]' ]]
}

group 'nobody waits'
expect 0 'nobody' rl waiters
is "$out/$err" '/rowlock: nobody waits' 'nobody'
is "$(rl waiters --json)" '[]' 'nobody, JSON'

group 'a queue'
hold --owner A one
first=$holder
waits B one
second=$waiter
waits C one
third=$waiter
is "$(table)" $'NAME PLACE WAITER WAITED BLOCKED BY\none 1 B T A\none 2 C T A' 'table'
is "$(rl waiters --json | sed -E 's/("(ticket|waited_ms)": )[0-9]+/\1N/g')" '[
 {"name": "one", "place": 1, "owner": "B", "ticket": N, "waited_ms": N, "holder": "A", "blocked_by": [{"owner": "A", "holds": "one"}], "deadlock": false},
 {"name": "one", "place": 2, "owner": "C", "ticket": N, "waited_ms": N, "holder": "A", "blocked_by": [{"owner": "A", "holds": "one"}], "deadlock": false}
]' 'JSON'
has "$(rl list --json)" '"waiters": 2' 'list counts them'
call rl metrics
has "$out" $'\nrowlock_waiting 2' 'so do the metrics'
no_ 'and for how long' grep -q '^rowlock_oldest_wait_seconds 0.000' "$work/out"

group 'signals while waiting'
for pair in INT:130 TERM:143; do
    kill "-${pair%:*}" "$third"
    joined "$third"
    is "$status" "${pair#*:}" "SIG${pair%:*}"
    is "$(rl waiters --json | grep -c '"name"')" 1 "SIG${pair%:*}: no ticket is left"
    waits C one
    third=$waiter
done

group 'chains'
hold --owner D two
fourth=$holder
waits A two
a_waits=$waiter
is "$(table)" $'NAME PLACE WAITER WAITED BLOCKED BY\none 1 B T A > two: D\none 2 C T A > two: D\ntwo 1 A T D' \
    'the holder waits itself'
waits D one
is "$(table | grep -c ' DEADLOCK: ')" 4 'a circle'
has "$(rl waiters --json | grep '"owner": "D", "ticket"')" \
    '"blocked_by": [{"owner": "A", "holds": "one"}, {"owner": "D", "holds": "two"}], "deadlock": true' 'a circle, JSON'
kill -TERM "$second" "$third" "$waiter" "$a_waits"
for pid in "$second" "$third" "$waiter" "$a_waits"; do
    joined "$pid"
done
until_ 'all have gone' nobody && pass
holder=$first
drop
holder=$fourth
drop

group 'runs inside runs'
for pair in x:y y:x; do
    "$rowlock" run "${here[@]}" "${pair%:*}" -- sh -c 'touch "$0"; while [ ! -e "$1" ]; do sleep 0.02; done; shift; exec "$@"' \
        "$work/has.${pair%:*}" "$work/has.${pair#*:}" "$rowlock" run "${here[@]}" -w 20s "${pair#*:}" -- true &
    pids+=($!)
    outer=$!
done
circle() {
    (($(rl waiters --json | grep -c '"deadlock": true') == 2))
}
until_ 'scripts that wait for each other are seen' circle && pass
kill -TERM "${pids[@]: -2}"
joined "$outer"
joined "${pids[-2]}"
no_ 'nothing was run' test -e "$work/ran"
summary
