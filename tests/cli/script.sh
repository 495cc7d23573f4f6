#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock acquire, renew, release and show: locks in scripts.
#     script.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
expect 0 'tables' rl migrate up
trap 'rl migrate down --to 0 >/dev/null; finish' EXIT

# left NAME: milliseconds.
left() {
    rl show --json "$1" | sed -n 's/.*"left_ms": \(-\{0,1\}[0-9]*\),.*/\1/p'
}

group 'acquire'
expect 0 'acquire' rl acquire -t 1m --note 'a note' a
yes_ 'prints fence and owner' grep -Eqx '[1-9][0-9]* [^ ]+:[0-9]+:[0-9a-f]{8}:t[0-9]+' "$work/out"
is "$err" '' 'and nothing else'
read -r fence owner <<<"$out"
yes_ 'is held when the process has ended' is_held a
has "$(rl show a)" 'a note' 'with its note'
expect 75 'busy' rl acquire -n a
has "$err" "'a' is held by $owner" 'busy says who'
is "$out" '' 'busy prints nothing'
expect 75 'a wait' rl acquire -w 200ms a
call rl acquire -n -q -E 3 a
is "$status/$err" 3/ 'quiet, with a status of its own'
expect 0 'JSON' rl acquire --json -t 2500ms --owner 'the "owner"' $'j\xff'
yes_ 'JSON' grep -Eqx '\{"name": "j\\ufffd", "name_hex": "6aff", "owner": "the \\"owner\\"", "fence": [0-9]+, "ttl_ms": 2500\}' "$work/out"
if [[ -w /dev/full ]]; then
    expect 70 'full disk' bash -c '"$@" >/dev/full' bash "$rowlock" acquire "${here[@]}" full
    yes_ 'what cannot be told is released' is_free full
fi
set -m
"$rowlock" acquire "${here[@]}" a >"$work/waited" &
waiter=$!
set +m
pids+=("$waiter")
sleep 0.3
kill -INT "$waiter"
joined "$waiter"
is "$status/$(<"$work/waited")" 130/ 'a signal ends the wait'
is "$(rl waiters --json)" '[]' 'and leaves no ticket'

group 'renew'
before=$(left a)
expect 0 'renew' rl renew -t 1h --fence "$fence" --owner "$owner" a
is "$out$err" '' 'renew says nothing'
yes_ 'extends the lease' test "$(left a)" -gt $((before + 1000000))
expect 0 'a shorter one' rl renew -t 1s --fence "$fence" --owner "$owner" a
yes_ 'does not shorten it' test "$(left a)" -gt $((before + 1000000))
expect 79 'another fence' rl renew --fence $((fence + 1)) --owner "$owner" a
expect 79 'another owner' rl renew --fence "$fence" --owner "$owner." a
expect 79 'another name' rl renew --fence "$fence" --owner "$owner" b
yes_ 'is held' is_held a

group 'release'
expect 79 'another fence' rl release --fence $((fence + 1)) --owner "$owner" a
expect 79 'another owner' rl release --fence "$fence" --owner "$owner." a
yes_ 'is held' is_held a
expect 0 'release' rl release --fence "$fence" --owner "$owner" a
is "$out$err" '' 'release says nothing'
yes_ 'is free' is_free a
expect 79 'a second one' rl release --fence "$fence" --owner "$owner" a
expect 79 'renew after it' rl renew --fence "$fence" --owner "$owner" a
read -r fence owner < <(rl acquire -t 300ms short)
sleep 0.6
expect 79 'after the lease' rl release --fence "$fence" --owner "$owner" short

group 'by force'
read -r fence owner < <(rl acquire f)
expect 64 'asks' bash -c '"$@" </dev/null' bash "$rowlock" release "${here[@]}" --force f
has "$err" 'give --yes' 'asks'
expect 79 'only that fence' rl release --force --yes --fence $((fence + 1)) f
yes_ 'is held' is_held f
expect 0 'by force' rl release --force --yes f
yes_ 'is free' is_free f
expect 79 'nobody holds it' rl release --force --yes f
expect 79 'the old one is refused' rl renew --fence "$fence" --owner "$owner" f
expect 0 'the next fence' rl acquire f
yes_ 'is larger' test "${out%% *}" -gt "$fence"
expect 0 'with the right fence' rl release -fy --fence "${out%% *}" f

group 'show'
expect 0 'unknown' rl show nothing
is "$(sed -E '1s/^(database  )[a-z]+:.+/\1D/' <<<"$out")" $'database  D\nname      nothing\nowner     nobody\nwaiting   0' 'unknown'
is "$(rl show --json nothing)" '{"name": "nothing", "held": false, "queue": []}' 'unknown, JSON'
has "$(rl show a)" 'last one ' 'free'
has "$(rl show --json a)" '"held": false, "queue": []}' 'free, JSON'
hold --owner A one
first=$holder
hold --owner B two
waits=()
for pair in C:one A:two; do
    "$rowlock" run "${here[@]}" --owner "${pair%:*}" "${pair#*:}" -- true &
    waits+=($!)
    pids+=($!)
done
two_wait() {
    (($(rl waiters --json | grep -c '"place"') == 2))
}
until_ 'two wait' two_wait
is "$(rl show one | sed -E 's/ +/ /g; s/ [0-9.]+m?s( |$)/ T\1/; s/fence .*/fence F/
    1s/^(database )[a-z]+:.+/\1D/')" 'database D
name one
owner A
fence F
held for T
left T
count 1
waiting 1

NAME PLACE WAITER WAITED BLOCKED BY
one 1 C T A > two: B' 'held and waited for'
is "$(rl show --json one | grep -c '"place"')" 1 'JSON has its queue'
kill -TERM "${waits[@]}"
drop
holder=$first
drop
summary
