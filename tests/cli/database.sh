#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The command on one kind of database, the same cases on each.
#     database.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1

group 'tables'
expect 78 'status without tables' rl migrate status
latest=${out##* }
is "$out" $'version 0\nlatest '"$latest" 'status without tables'
expect 78 'run without tables' rl run a -- touch "$work/ran"
one_line 'run without tables'
has "$err" "rowlock migrate up" 'run without tables says what to do'
no_ 'run without tables runs nothing' test -e "$work/ran"
expect 78 'list without tables' rl list
expect 0 'down without tables' rl migrate down
expect 64 'up beyond the latest' rl migrate up --to 99
jobs_=()
for i in {1..8}; do
    "$rowlock" migrate up "${here[@]}" >"$work/up.$i" 2>&1 &
    jobs_+=($!)
done
for i in "${!jobs_[@]}"; do
    joined "${jobs_[i]}"
    is "$status" 0 "one of eight migrations at once: $(<"$work/up.$((i + 1))")"
done
expect 0 'status' rl migrate status
is "$out" "version $latest"$'\n'"latest $latest" 'status'
expect 0 'up again' rl migrate up
is "$out" "already at version $latest" 'up again'
expect 64 'up to a lower version' rl migrate up --to 0
expect 0 'down' rl migrate down
is "$out" "from version $latest to $((latest - 1))" 'down'
has "$err" 'down one step' 'down says what it chose'
expect 64 'down to a higher version' rl migrate down --to "$latest"
expect 0 'down to nothing' rl migrate down --to 0
expect 0 'up after down' rl migrate up
is "$out" "from version 0 to $latest" 'up after down'

group 'exit status'
expect 0 'success' rl run a -- true
expect 7 "the command's own" rl run a -- sh -c 'exit 7'
expect 255 "the command's own" rl run a -- sh -c 'exit 255'
expect 137 'killed' rl run a -- sh -c 'kill -KILL $$'
expect 143 'terminated' rl run a -- sh -c 'kill -TERM $$'
expect 127 'not found' rl run a -- "$work/nothing"
one_line 'not found'
printf 'no program\n' >"$work/file"
expect 126 'not executable' rl run a -- "$work/file"
one_line 'not executable'
expect 69 'database not there' "$rowlock" run --db "$nowhere" a -- touch "$work/ran"
expect 69 'database not there' "$rowlock" list --db "$nowhere"
expect 69 'database not there' "$rowlock" migrate up --db "$nowhere"
no_ 'nothing was run' test -e "$work/ran"

group 'the command'
is "$(printf 'a\nb\n' | rl run a -- cat)" $'a\nb' 'standard input'
call rl run 'name with spaces' -- sh -c 'echo "$ROWLOCK_NAME/$ROWLOCK_OWNER/$ROWLOCK_FENCE"; echo e >&2'
yes_ 'variables' grep -Eqx 'name with spaces/.+/[1-9][0-9]*' "$work/out"
is "$err" e 'standard error'
is "$(rl run --owner me a -- sh -c 'echo $ROWLOCK_OWNER')" me 'owner'
first=$(rl run a -- sh -c 'echo $ROWLOCK_FENCE')
second=$(rl run a -- sh -c 'echo $ROWLOCK_FENCE')
yes_ 'the fence rises' test "$second" -gt "$first"
is "$(ROWLOCK_DB=$db "$rowlock" run --prefix "$prefix" a -- sh -c 'echo "[$ROWLOCK_DB]"')" '[]' \
    'the address is not passed on'
is "$(rl run --pass-db a -- sh -c 'echo "$ROWLOCK_DB"')" "$db" 'the address is passed on if asked'
expect 64 'no other database inside a run' rl run a -- "$rowlock" run b -- true
is "$(rl run a -- sh -c 'for f in /proc/self/fd/*; do echo ${f##*/}; done' | sort -n | head -4 | tr '\n' ' ')" \
    "$(sh -c 'for f in /proc/self/fd/*; do echo ${f##*/}; done' | cat | sort -n | head -4 | tr '\n' ' ')" \
    'no descriptor of ours is passed on'

group 'busy'
hold --owner 'the holder' busy
expect 75 '--nonblock' rl run -n busy -- touch "$work/ran"
has "$err" "'busy' is held by the holder" '--nonblock says who'
expect 75 '--wait 0' rl run -w 0 busy -- touch "$work/ran"
for _ in 1 2 3; do # a busy machine may be late now and then
    start=$(now_ms)
    expect 75 '--wait 400ms' rl run -w 400ms busy -- touch "$work/ran"
    took=$(($(now_ms) - start))
    ((took >= 2000)) || break
done
yes_ "waited as long as asked ($took ms)" test "$took" -ge 400 -a "$took" -lt 2000
no_ 'nothing was run' test -e "$work/ran"
expect 0 'another name is free' rl run -n busy2 -- true
expect 0 'the same owner enters' rl run -n --owner 'the holder' busy -- true
drop
is "$status" 143 'holder was terminated'
expect 0 'free again' rl run -n busy -- true

group 'list'
expect 0 'nothing held' rl list
is "$out" '' 'nothing held: nothing on stdout'
is "$(rl list --json)" '[]' 'nothing held, JSON'
name=$'b"\\\x01\xff\u00e9'
hold --owner 'me' --note 'a "note"' "$name"
first_holder=$holder
hold --owner 'you' -t 60s a
expect 0 'table' rl list
is "$(sed -E 's/ +/ /g; s/ [0-9]{10,} [0-9.]+m?s [0-9.]+s / F H L /' "$work/out")" \
    $'NAME OWNER HOST PID FENCE HELD LEFT WAIT NOTE\nb"\\\\\\x01\\xff\u00e9 me F H L 0 a "note"\na you F H L 0' 'table'
expect 0 'JSON' rl list --json
is "$(sed -E 's/("(fence|held_ms|left_ms)": )[0-9]+/\1N/g' "$work/out")" \
    '[
 {"name": "b\"\\\u0001\ufffd'$'\u00e9''", "name_hex": "62225c01ffc3a9", "owner": "me", "host": null, "pid": null, "fence": N, "held_ms": N, "left_ms": N, "count": 1, "waiters": 0, "note": "a \"note\""},
 {"name": "a", "owner": "you", "host": null, "pid": null, "fence": N, "held_ms": N, "left_ms": N, "count": 1, "waiters": 0, "note": ""}
]' 'JSON'
expect 0 'CSV' rl list --csv
is "$(sed -E 's/,[0-9]{10,},[0-9]+,[0-9]+,/,F,H,L,/' "$work/out")" \
    'name,owner,host,pid,fence,held_ms,left_ms,count,waiters,note
"b""\\\x01\xff'$'\u00e9''",me,,,F,H,L,1,0,"a ""note"""
a,you,,,F,H,L,1,0,' 'CSV'
drop
has "$(rl list --all)" 'you' 'free locks are shown with --all'
no_ 'and not without' grep -q you <(rl list)
holder=$first_holder
drop

group 'runs inside runs'
again=("$rowlock" run "${here[@]}")
expect 0 'the same name' "${again[@]}" n -- "${again[@]}" -n n -- "${again[@]}" -n n -- true
call "${again[@]}" n -- "${again[@]}" -n n -- "$rowlock" list --json "${here[@]}"
has "$out" '"count": 2' 'counts'
fences=$("${again[@]}" n -- sh -c 'echo $ROWLOCK_FENCE; exec "$@"' sh "${again[@]}" n -- \
    sh -c 'echo $ROWLOCK_FENCE' | sort -u | wc -l)
is "$fences" 1 'shares the fence'
expect 0 'with another between' "${again[@]}" n -- "${again[@]}" m -- "${again[@]}" -n n -- true
expect 75 'siblings exclude each other' "${again[@]}" n -- \
    sh -c '"$@" -w 5s m -- sh -c "touch $0; sleep 2" & while [ ! -e $0 ]; do sleep 0.02; done; "$@" -n m -- true; s=$?; wait; exit $s' \
    "$work/sibling" "${again[@]}"
is "$(rl list --json)" '[]' 'all are free afterwards'
expect 0 'a short lease inside keeps the long one' "${again[@]}" -t 3s n -- \
    sh -c '"$@" -t 100ms n -- true; sleep 0.6; exec "$0" list --json '"--db '$db' --prefix $prefix" \
    "$rowlock" "${again[@]}"
has "$out" '"name": "n"' 'a short lease inside keeps the long one'

group 'exclusion'
jobs_=()
append() {
    local tries=0
    until rl run append -- sh -c "printf '<$1' >>'$work/log'; sleep 0.01; printf '$1>' >>'$work/log'"; do
        # a busy machine may be too late to connect; then nothing was run
        (($? == 69 && ++tries < 10)) || return 1
    done
}
for i in {a..t}; do
    (append "$i" && append "$i") &
    jobs_+=($!)
done
for pid in "${jobs_[@]}"; do
    joined "$pid"
    is "$status" 0 'a process of twenty'
done
is "$(sed -E 's/<([a-t])\1>//g' "$work/log")" '' 'nothing is interleaved'
is "$(wc -c <"$work/log")" 160 'nothing is missing'

group 'the lease'
hold -t 2s lease
sleep 4.5
expect 75 'is renewed' rl run -n lease -- true
is "$(<"$work/holder.err")" '' 'without a word'
for try in 1 2 3; do # a busy machine may be late now and then
    ((try == 1)) || hold -t 2s lease
    kill -KILL "$holder"
    start=$(now_ms)
    expect 0 'ends after kill -9' rl run -w 10s lease -- true
    took=$(($(now_ms) - start))
    joined "$holder"
    ((took > 2500)) || break
done
yes_ "within ttl + 500 ms ($took ms)" test "$took" -le 2500
until_ 'the command died with it' gone "$(<"$mark")" && pass

hold -t 700ms lost
kill -STOP "$holder"
expect 0 'another one gets it' rl run -w 10s lost -- true
kill -CONT "$holder"
joined "$holder"
is "$status" 79 'lost'
err=$(<"$work/holder.err")
one_line 'lost'
until_ 'the command was ended' gone "$(<"$mark")" && pass

rm -f "$mark"
"$rowlock" run "${here[@]}" -t 1s stubborn -- \
    sh -c 'trap "" TERM; (trap "" TERM; echo $(exec sh -c "echo \$PPID") >"$0"; for i in $(seq 300); do sleep 0.1; done) & wait; wait' "$mark" \
    2>"$work/holder.err" &
holder=$!
pids+=("$holder")
until_ 'stubborn' test -s "$mark"
kill -STOP "$holder"
sleep 1.2
kill -CONT "$holder"
joined "$holder"
is "$status" 79 'lost with a command that ignores TERM'
until_ 'all of its group was killed' gone "$(<"$mark")" && pass

rm -f "$mark"
"$rowlock" run "${here[@]}" -t 500ms late -- sh -c 'echo $$ >"$0"; sleep 0.5' "$mark" 2>"$work/holder.err" &
holder=$!
pids+=("$holder")
until_ 'late' test -s "$mark"
kill -STOP "$holder"
sleep 1
kill -CONT "$holder"
joined "$holder"
is "$status" 79 'ended before the command did'
has "$(<"$work/holder.err")" 'its lease ended before the command did' 'and that is said'

group 'signals'
hold waited
for pair in INT:130 TERM:143 HUP:129 QUIT:131; do
    for _ in 1 2 3 4 5; do # a busy machine may be late now and then
        set -m             # else the shell starts it with SIGINT ignored
        "$rowlock" run "${here[@]}" waited -- touch "$work/ran" 2>"$work/wait.err" &
        waiter=$!
        set +m
        pids+=("$waiter")
        sleep 0.4
        start=$(now_ms)
        kill "-${pair%:*}" "$waiter"
        joined "$waiter"
        took=$(($(now_ms) - start))
        ((took >= 500)) || break
    done
    is "$status" "${pair#*:}" "SIG${pair%:*} ends the wait"
    yes_ "SIG${pair%:*} ends it at once ($took ms)" test "$took" -lt 500
done
no_ 'nothing was run' test -e "$work/ran"
drop
for signal in INT TERM HUP QUIT; do
    rm -f "$mark"
    set -m
    "$rowlock" run "${here[@]}" signalled -- \
        bash -c 'trap "exit 9" '$signal'; echo $$ >"$0"; for i in {1..200}; do sleep 0.05; done' "$mark" &
    holder=$!
    set +m
    pids+=("$holder")
    until_ "$signal" test -s "$mark"
    kill "-$signal" "$holder"
    joined "$holder"
    is "$status" 9 "SIG$signal is passed on"
done
expect 0 'free afterwards' rl run -n signalled -- true

group 'cleaning up'
expect 0 'down to nothing' rl migrate down --to 0
expect 78 'nothing is left' rl migrate status
summary
