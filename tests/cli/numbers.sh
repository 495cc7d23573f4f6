#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock metrics and rowlock reap.
#     numbers.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1

# value NAME: of a metric in what `call` has seen.
value() {
    sed -n "s/^$1 //p" "$work/out"
}

# Each metric has HELP and TYPE in front of it, and is there once; names and labels are well-formed.
well_formed() {
    awk '
        /^# HELP [a-z_]+ [^ ].*[^ ]$/ { help = $3; next }
        /^# TYPE [a-z_]+ gauge$/ && $3 == help { type = $3; next }
        /^[a-z_]+(\{[a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\\\|\\")*"\})? [0-9]+(\.[0-9]+)?$/ {
            name = $0; sub(/[{ ].*/, "", name)
            if (name != type || seen[name]++) bad = 1
            next
        }
        { bad = 1 }
        END { exit bad || NR == 0 }' "$work/out"
}

# metrics WHAT [OPTION...]: prints them.
metrics() {
    local what=$1
    shift
    expect 0 "$what" rl metrics "$@"
    is "$err" '' "$what: nothing on stderr"
    yes_ "$what: well-formed" well_formed
}

# down WHAT: the last call said that there are no numbers.
down() {
    is "$status" 0 "$1: status"
    is "$(grep -v '^#' "$work/out")" 'rowlock_up 0' "$1: no other numbers"
    yes_ "$1: well-formed" well_formed
    one_line "$1"
    no_ "$1: no password" grep -q sEcret "$work/err" "$work/out"
}

older_than() {
    call rl metrics
    awk -v value="$(value "$1")" -v least="$2" 'BEGIN { exit !(value > least) }'
}

group 'metrics without numbers'
call rl metrics
down 'no tables'
has "$err" 'rowlock migrate up' 'no tables: says what to do'
call "$rowlock" metrics --db "$nowhere"
if [[ $driver != sqlite ]]; then # whose path it is
    down 'no database'
fi
is "$(value rowlock_up)" 0 'no database'
rl migrate up >/dev/null
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

group 'metrics'
metrics 'an empty table'
is "$(grep -v '^#' "$work/out")" 'rowlock_up 1
rowlock_held 0
rowlock_oldest_held_seconds 0.000
rowlock_expired 0
rowlock_oldest_expired_seconds 0.000
rowlock_waiting 0
rowlock_oldest_wait_seconds 0.000' 'an empty table'
expect 0 'a lock that is free again' rl run free -- true
hold one
first=$holder
until_ 'is held for longer than a second' older_than rowlock_oldest_held_seconds 1 && pass
hold $'two\n"{}\\'
metrics 'two held'
is "$(value rowlock_held)" 2 'two held'
is "$(value rowlock_expired)" 1 'one free'
yes_ 'the oldest counts' older_than rowlock_oldest_held_seconds 1
until_ 'is free for longer than a second' older_than rowlock_oldest_expired_seconds 1 && pass
metrics 'with a label' --label $'data_base=a "b" \\ \u00e9'
is "$(grep '^rowlock_held' "$work/out")" $'rowlock_held{data_base="a \\"b\\" \\\\ \u00e9"} 2' 'with a label'
metrics 'with an empty label' --label 'a='
is "$(grep '^rowlock_up' "$work/out")" 'rowlock_up{a=""} 1' 'with an empty label'
call "$rowlock" metrics --db "$nowhere" --label a=b
has "$out" 'rowlock_up{a="b"} 0' 'no database, with a label'
if [[ -w /dev/full ]]; then
    expect 70 'full disk' bash -c '"$@" >/dev/full' bash "$rowlock" metrics "${here[@]}"
fi

group 'reap'
expect 0 'nothing is old enough' rl reap
is "$out" 'reaped 0' 'nothing is old enough'
for name in a b c; do
    expect 0 "$name" rl run "$name" -- true
done
expect 0 'free for less than a minute' rl reap --retention 1m
is "$out" 'reaped 0' 'free for less than a minute'
# All of them have been free for longer than a second when the youngest has.
youngest_is_old() {
    ! rl list --all --json | grep '"name": "c"' | grep -Eq '"left_ms": (0|-[0-9]{1,3}|-1[01][0-9]{2}),'
}
until_ 'all are free for a while' youngest_is_old
expect 0 'a limit' rl reap --retention 1s --limit 3
is "$out" 'reaped 3' 'a limit'
is "$err" '' 'nothing on stderr'
expect 0 'the rest' rl reap --retention 1s
is "$out" 'reaped 1' 'the rest'
metrics 'after reaping'
is "$(value rowlock_held) $(value rowlock_expired)" '2 0' 'what is held stays'
before=$(rl list --json | sed -n 's/.*"name": "one".*"fence": \([0-9]*\).*/\1/p')
expect 75 'and is held' rl run -n one -- true
after=$(rl run a -- sh -c 'echo $ROWLOCK_FENCE')
yes_ 'fences rise' test "$after" -gt "$before"
drop
holder=$first
drop
expect 69 'no database' "$rowlock" reap --db "$nowhere"
has "$(rl migrate down --to 0)" ' to 0' 'down'
expect 78 'no tables' rl reap
one_line 'no tables'
summary
