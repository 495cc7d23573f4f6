#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `rowlock run` when the lock is lost: the command is ended, in time, and the reason is said.
#     loss.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
need_sql
rl migrate up >/dev/null
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

# lost REASON WHAT: the holder ends with 79 and says why, on one line; its command is gone.
lost() {
    joined "$holder"
    is "$status" 79 "$2: status"
    err=$(grep "lost '" "$work/holder.err")
    one_line "$2"
    has "$err" "$1" "$2: the reason"
    until_ "$2: the command is gone" gone "$(<"$mark")" && pass
}

# change SET: changes the row of the holder "victim" behind its back.
change() {
    sql <<<"UPDATE ${prefix}locks SET $1 WHERE owner = 'victim' AND hold_count > 0;"
} >/dev/null

# blocked SECONDS: keeps everybody from the table for so long; prints a line when it begins.
blocked() {
    case $driver in
    postgresql) sql <<<"BEGIN; LOCK TABLE ${prefix}locks; SELECT 'blocked'; SELECT pg_sleep($1); ROLLBACK;" ;;
    mysql) sql <<<"LOCK TABLES ${prefix}locks WRITE; SELECT 'blocked'; DO SLEEP($1); UNLOCK TABLES;" ;;
    sqlite) { echo "BEGIN EXCLUSIVE; SELECT 'blocked';" && sleep "$1" && echo 'ROLLBACK;'; } | sql ;;
    esac
}

group 'reasons'
for try in 1 2 3; do # a busy machine may be late now and then
    hold -t 6s --owner victim "taken$try"
    start=$(now_ms)
    change "owner = 'the thief', fence = fence + 1"
    lost "lost 'taken$try': taken by the thief; stopping the command" 'taken by another'
    took=$(($(now_ms) - start))
    ((took >= 3000)) || break
done
yes_ "with the first renewal that shows it ($took ms)" test "$took" -lt 3000
is "$(wc -l <"$work/holder.err")" 1 'taken by another: nothing else is said'
hold -t 6s --owner victim forced
change 'fence = fence + 1, hold_count = 0, expire_time = 1'
lost 'it was force-released' 'force-released'
hold -t 6s --owner victim expired
change 'expire_time = 1'
lost 'its lease expired' 'expired in the database'
hold -t 2s paused
kill -STOP "$holder"
sleep 2.3
kill -CONT "$holder"
lost 'its lease expired' 'paused for longer than the lease'

# SQLite says that the file is locked, which is not counted as an error.
group 'a database that does not answer'
reason='the database did not answer in time' errors=1
[[ $driver != sqlite ]] || reason='its lease could not be renewed in time' errors=0
for _ in 1 2 3; do # a busy machine may be late now and then
    hold -t 3s stuck
    blocked 4 >"$work/blocked" &
    blocker=$!
    until_ 'blocked' grep -q blocked "$work/blocked"
    start=$(now_ms)
    lost "$reason" 'ends the command'
    took=$(($(now_ms) - start))
    is "$(grep -c "cannot renew 'stuck' yet" "$work/holder.err")" $errors 'what fails is said once'
    joined "$blocker"
    is "$status" 0 'it was blocked'
    ((took >= 3000)) || break
done
yes_ "before the lease ends ($took ms)" test "$took" -lt 3000

group 'a command that ignores TERM'
rm -f "$mark"
"$rowlock" run "${here[@]}" -t 30s --max-hold 2s stubborn -- \
    sh -c 'trap "" TERM; echo $$ >"$0"; for i in $(seq 300); do sleep 0.1; done' "$mark" 2>"$work/holder.err" &
holder=$!
pids+=("$holder")
until_ 'stubborn' test -s "$mark"
expect 0 'another gets the lock' rl run -w 20s --owner next stubborn -- \
    sh -c '! kill -0 "$(cat "$0")" 2>/dev/null' "$mark"
lost 'held for as long as --max-hold allows' 'is killed before the lease ends'

group 'max-hold'
for _ in 1 2 3; do # a busy machine may be late now and then
    hold -t 2s --max-hold 4s bounded
    start=$(now_ms)
    lost 'held for as long as --max-hold allows' 'longer than the lease'
    took=$(($(now_ms) - start))
    ((took < 1900 || took >= 4000)) || break
done
yes_ "is renewed until then ($took ms)" test "$took" -ge 1900 -a "$took" -lt 4000
hold --max-hold 1s bounded
lost 'held for as long as --max-hold allows' 'shorter than the lease'
expect 0 'and is free again' rl run -n bounded -- true
expect 7 'a command that ends sooner' rl run --max-hold 10s bounded -- sh -c 'exit 7'
is "$err" '' 'a command that ends sooner: nothing is said'
for _ in 1 2 3; do # a busy machine may be late now and then
    start=$(now_ms)
    expect 0 'a run inside may have a bound of its own' rl run -t 10s bounded -- \
        sh -c '"$@" --max-hold 600ms bounded -- sleep 60; test $? -eq 79' sh "$rowlock" run "${here[@]}"
    took=$(($(now_ms) - start))
    ((took >= 4000)) || break
done
yes_ "whatever the lease around it ($took ms)" test "$took" -lt 4000
summary
