#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock top, on a terminal that script(1) provides.
#     top.sh ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
export ROWLOCK_DB=local
command -v script >/dev/null || skip 'script(1) is not installed'
export ROWLOCK=$1 TERM=xterm

# watch_ KEYS [COMMAND]: top on a terminal of 80 columns and 24 lines, keys after a while; $out is
# what it showed, with its status and the settings of the terminal before and after.
watch_() {
    {
        sleep 1.5
        printf "$1"
        sleep 0.5
    } | timeout 30 script -qec "stty cols 80 rows 24; stty -g; ${2:-\$ROWLOCK top -i 200ms}; echo status=\$?.; stty -g" \
        /dev/null >"$work/out" 2>&1
    out=$(tr -d '\r' <"$work/out")
}

# restored WHAT: the terminal is as it was.
restored() {
    is "$(head -n 1 <<<"$out")" "$(tail -n 1 <<<"$out")" "$1: settings as before"
    has "$out" $'\e[?1049h' "$1: another page"
    has "${out##*$'\e[?1049h'}" $'\e[?7h\e[?25h\e[?1049l' "$1: and back"
}

# page: the last one that was drawn, without colours.
page() {
    local text=${out%$'\e[?7h'*}
    sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' <<<"${text##*$'\e[H'}"
}

group 'nothing held'
expect 0 'the tables' "$ROWLOCK" run a -- true
watch_ q
has "$out" 'status=0.' 'q quits'
restored 'q'
has "$(page)" 'held 0  waiting 0 (-)' 'nothing held'
watch_ '\003'
has "$out" 'status=130.' 'Ctrl-C'
restored 'Ctrl-C'
watch_ 'x\032q'
has "$out" 'status=0.' 'other keys do nothing'
restored 'other keys'

group 'locks and waiters'
long=$(printf 'long%.0s' {1..40})
for i in {1..30}; do
    "$ROWLOCK" acquire -t 1h --note "$long" "many-$i-$long" >/dev/null
done
"$ROWLOCK" run --owner "$long" one -- sleep 30 &
pids+=($!)
holder=$!
held() {
    "$ROWLOCK" list | grep -q '^one'
}
until_ 'held' held
"$ROWLOCK" run --owner waiter one -- true &
pids+=($!)
waiter=$!
watch_ q
shown=$(page)
has "$shown" 'held 31  waiting 1 (' 'counts'
has "$shown" 'NAME' 'the locks'
has "$shown" $'\none ' 'the one with the least time left is there'
has "$shown" 'more' 'the others are counted'
yes_ 'the waiters' grep -Eq '^one +1 +waiter ' <<<"$shown"
yes_ 'fits 80 columns' test "$(wc -L <<<"$shown")" -le 80
yes_ 'fits 24 lines' test "$(wc -l <<<"$shown")" -le 24
yes_ 'has rates' grep -Eq 'granted [0-9.]+/s  freed [0-9.]+/s' <<<"$shown"
kill -TERM "$waiter" "$holder"
(
    for i in {1..30}; do
        "$ROWLOCK" run busy -- true
    done
) &
watch_ q
yes_ 'rates are seen' grep -Eq 'granted [0-9.]*[1-9][0-9.]*/s' <<<"$out"
no_ 'no colours with NO_COLOR' grep -q $'\e\\[1m' <(watch_ q 'NO_COLOR=1 $ROWLOCK top -i 200ms'; cat "$work/out")

group 'no terminal'
expect 64 'output' "$ROWLOCK" top
watch_ q '$ROWLOCK top </dev/null'
has "$out" 'status=64.' 'input'
summary
