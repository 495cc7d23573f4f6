#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Options of `rowlock run` for cron and pipelines, and what becomes of the command's own children.
#     job.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
expect 0 'tables' rl migrate up
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

group 'a line for the shell'
expect 3 'status' rl run a -c 'echo "<$ROWLOCK_NAME>"; exit 3'
is "$out" '<a>' 'is run by a shell'
expect 127 'not found' rl run a -c 'exec ./nothing-there'
is "$(printf 'in' | rl run --command 'cat; echo put' a)" input 'standard input'

group 'busy'
hold --owner 'the holder' busy
expect 75 'fail' rl run --on-busy fail busy -- touch "$work/ran"
has "$err" "'busy' is held by the holder" 'fail says who'
expect 75 'fail after a wait' rl run --on-busy fail -w 200ms busy -- touch "$work/ran"
expect 0 'skip' rl run --on-busy skip busy -- touch "$work/ran"
is "$out$err" '' 'skip: not a word'
start=$(now_ms)
expect 0 'skip after a wait' rl run --on-busy=skip -w 300ms busy -- touch "$work/ran"
yes_ 'skip after a wait: waits' test $(($(now_ms) - start)) -ge 300
expect 0 'skip, verbose' rl run -v --on-busy skip busy -- touch "$work/ran"
has "$err" "'busy' is held by the holder" 'skip, verbose: says who'
expect 75 'wait with a bound' rl run --on-busy wait -w 200ms busy -- touch "$work/ran"
expect 5 'a status of its own' rl run -n -E 5 busy -- touch "$work/ran"
one_line 'a status of its own'
expect 0 'the status 0' rl run -w 100ms --conflict-exit-code 0 busy -- touch "$work/ran"
call rl run -n -q busy -- touch "$work/ran"
is "$status/$err" '75/' 'quiet'
no_ 'nothing was run' test -e "$work/ran"
(
    sleep 0.5
    kill -TERM "$holder"
) &
expect 0 'verbose' rl run -v busy -- sh -c 'echo said >&2'
is "$(sed -E 's/ for another .*//; s/after [0-9.]+m?s/after T/; s/fence [0-9]+/fence N/; s/owner .*/owner O/
    s|^(rowlock: database: )[a-z]+:.*|\1D|' <<<"$err")" \
    "rowlock: database: D
rowlock: waiting: 'busy' is held by the holder,
rowlock: acquired 'busy' after T, fence N, owner O
said
rowlock: the command ended with status 0 after T
rowlock: released 'busy'" 'verbose'
joined "$holder"

group 'closed streams'
call sh -c '"$@" 2>&-' sh "$rowlock" run "${here[@]}" closed -- sh -c 'readlink /proc/$PPID/fd/2; : >&2; echo closed'
is "$out" /dev/null 'no connection takes the place of a stream; for the command it is closed'
call sh -c '"$@" >&-' sh "$rowlock" help
is "$status" 70 'output that is closed'

group 'hold at least'
start=$(now_ms)
expect 4 'shorter than the lease' rl run --hold-at-least 700ms least -- sh -c 'exit 4'
took=$(($(now_ms) - start))
yes_ "is waited for ($took ms)" test "$took" -ge 700
yes_ 'and released' is_free least
start=$(now_ms)
expect 5 'longer than the lease' rl run -t 500ms --hold-at-least 2s least -- sh -c 'exit 5'
expect 75 'is kept' rl run -n least -- true
expect 0 'until then' rl run -w 20s least -- true
took=$(($(now_ms) - start))
yes_ "not less ($took ms)" test "$took" -ge 2000
start=$(now_ms)
expect 0 'a command that takes longer' rl run --hold-at-least 100ms least -- sleep 0.5
yes_ 'is released at its end' is_free least
"$rowlock" run "${here[@]}" -t 9s --hold-at-least 7500ms forced -c "exit 6" 2>"$work/holder.err" &
holder=$!
pids+=("$holder")
forced=$holder
until_ 'forced' is_held forced
sleep 0.3
expect 0 'by force' rl release --force --yes forced
"$rowlock" run "${here[@]}" -t 20s --hold-at-least 10s least -c "exit 6" &
holder=$!
pids+=("$holder")
until_ 'least' is_held least
sleep 0.5
kill -TERM "$holder"
joined "$holder"
is "$status" 6 'a signal ends the waiting'
yes_ 'but not the hold' is_held least
joined "$forced"
is "$status/$(<"$work/holder.err")" "6/rowlock: lost 'forced', but not before the command had ended" 'lost while it is kept'

group 'kill after'
rm -f "$mark"
set -m
"$rowlock" run "${here[@]}" --kill-after 300ms stubborn -c \
    "trap '' INT TERM; echo \$\$ >'$mark'; for i in \$(seq 300); do sleep 0.1; done" &
holder=$!
set +m
pids+=("$holder")
until_ 'stubborn' test -s "$mark"
kill -INT "$holder"
joined "$holder"
is "$status" 137 'what ignores a signal is killed'
expect 0 'and the lock is free' rl run -n stubborn -- true
start=$(now_ms)
expect 79 'after a loss' rl run -t 30s --max-hold 3s --kill-after 100ms stubborn -c \
    "trap '' TERM; for i in \$(seq 300); do sleep 0.1; done"
took=$(($(now_ms) - start))
yes_ "TERM as late as that allows ($took ms)" test "$took" -ge 2000 -a "$took" -le 3100

group 'death'
rm -f "$mark"
"$rowlock" run "${here[@]}" -t 1s family -c "sleep 60 & echo \$! >'$mark.new'; mv '$mark.new' '$mark'; wait" &
holder=$!
pids+=("$holder")
until_ 'family' test -s "$mark"
kill -KILL "$holder"
joined "$holder"
until_ 'what the command started dies with rowlock' gone "$(<"$mark")" && pass
expect 0 'and the lock is free after the ttl' rl run -w 10s family -- true
expect 0 'what the command leaves behind' rl run family -c "sleep 60 >/dev/null 2>&1 & echo \$! >'$mark'"
no_ 'lives on after a good end' gone "$(<"$mark")"
kill "$(<"$mark")"

group 'secrets'
if [[ $driver != sqlite ]]; then
    secret=${db#*://*:} secret=${secret%%@*}
    unset "${!ROWLOCK_TEST_@}"
    seen=$(rl run a -- sh -c 'tr "\0" " " </proc/$PPID/cmdline; cat /proc/self/environ' | tr '\0' '\n')
    has "$seen" 'run --db' 'the arguments are seen'
    no_ 'but no password' grep -qF "$secret" <<<"$seen"
fi
for sub in list waiters; do
    no_ "nor in $sub" grep -qF "${secret:-sEcret}" <(rl $sub --json 2>&1)
done
summary
