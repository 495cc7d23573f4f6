#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock once: exactly one run in each period, by the clock of the database.
#     once.sh ROWLOCK postgresql|mysql|sqlite
# ROWLOCK_TEST_CALLS is how many calls the last test makes, from eight processes; 80 unless set.
. "$(dirname "$0")/on_database.sh" || exit 1
calls=${ROWLOCK_TEST_CALLS:-80}
expect 0 'tables' rl migrate up
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

group 'one after the other'
expect 0 'the first' rl once --every 7d a -- echo ran
is "$out$err" ran 'the first runs'
expect 0 'the second' rl once --every 7d a -- echo ran
is "$out$err" '' 'the second does not'
expect 9 'a status for that' rl once --every 7d -E 9 a -- echo ran
one_line 'a status for that'
call rl once --every 7d -E 9 -q a -- echo ran
is "$status$out$err" 9 'quiet'
expect 0 'verbose' rl once --every 7d -v a -- echo ran
has "$err" "'a' is held by" 'verbose'
expect 0 'another name' rl once --every 7d b -c 'echo $ROWLOCK_NAME'
is "$out" b 'another name'

group 'commands that fail'
expect 3 'fails' rl once --every 7d f -- sh -c 'exit 3'
expect 0 'has been run' rl once --every 7d f -- sh -c 'exit 3'
expect 3 'fails, with --retry' rl once --every 7d --retry g -- sh -c 'exit 3'
expect 0 'is run again' rl once --every 7d --retry g -- echo again
is "$out" again 'is run again'
expect 0 'and no more' rl once --every 7d --retry g -- echo again
is "$out" '' 'and no more'
expect 127 'does not start' rl once --every 7d h -- "$work/nothing"
expect 0 'has not been run' rl once --every 7d h -- echo started
is "$out" started 'has not been run'
"$rowlock" once "${here[@]}" --every 7d k -- sh -c 'touch "$0"; exec sleep 60' "$mark" &
holder=$!
pids+=("$holder")
until_ 'killed' test -e "$mark"
kill -KILL "$holder"
joined "$holder"
yes_ 'killed: the lease lasts as long as the period' \
    test "$(rl show --json k | sed 's/.*"left_ms": \([0-9]*\),.*/\1/')" -gt 60000
expect 0 'killed: has been run' rl once --every 7d k -- echo ran
is "$out" '' 'killed: has been run'

group 'a command that outlives its period'
"$rowlock" once "${here[@]}" --every 1s long -- sh -c "sleep 2.5; touch '$work/ended'" &
holder=$!
pids+=("$holder")
until_ 'long' is_held long
ran_inside=0
while [[ ! -e $work/ended ]] && ! gone "$holder"; do
    [[ ! $(rl once --every 1s long -- sh -c "test -e '$work/ended' || echo ran") ]] || ran_inside=1
    sleep 0.2
done
is "$ran_inside" 0 'is alone'
joined "$holder"
is "$status" 0 'is not ended'
runs() {
    [[ $(rl once --every 1s long -- echo ran) == ran ]]
}
until_ 'the next one runs after it' runs && pass

# Eight processes call all the time. The fence of a run tells its period.
group "$calls calls or more"
period=2 # seconds
until=$((SECONDS + 2 * period + 1))
jobs_=()
for i in {1..8}; do
    (for ((j = 0; j < calls / 8 || SECONDS < until; j++)); do
        rl once --every ${period}s many -c 'echo $ROWLOCK_FENCE >>'"'$work/fences'" || echo "status $?"
    done >"$work/many.$i" 2>&1) &
    jobs_+=($!)
done
for pid in "${jobs_[@]}"; do
    joined "$pid"
done
is "$(cat "$work"/many.*)" '' 'no call fails'
periods=$(while read -r fence; do echo $((fence / (period * 1000000))); done <"$work/fences")
is "$(sort <<<"$periods" | uniq -d)" '' 'no period has two runs'
first=$(head -n 1 <<<"$periods") last=$(tail -n 1 <<<"$periods")
is "$(wc -l <<<"$periods")" $((last - first + 1)) 'no period has none'
yes_ 'there were several periods' test "$last" -gt "$first"
summary
