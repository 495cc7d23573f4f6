#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/leader.md, as it is written.
#     leader.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/page.sh" || exit 1
for_driver scheduler
in_page rowlock migrate up >/dev/null
echo 'CREATE TABLE plan (leader varchar(255)); INSERT INTO plan (leader) VALUES (NULL);' | sql

group 'the fence'
call block 1
is "$status" 0 'printed'
sql <"$page/fence.sql" >/dev/null
is "$(echo 'SELECT fence FROM plan;' | sql)" 0 'the table has it'

fence() {
    echo 'SELECT fence FROM plan;' | sql
}
writes_after() {
    [[ $(fence) -gt $1 ]]
}

# The loops are those of the page; they end with the group that they are in.
group 'two hosts'
set -m
block 2 >"$work/loops" 2>&1 &
loops=$!
set +m
ran+=' 2'
end_loops() {
    kill -TERM -- "-$loops" 2>/dev/null
    end_holders
}
end_holders() {
    local pid
    for pid in $(in_page rowlock list --csv | cut -d , -f 4 | grep -x '[0-9]*'); do
        kill -TERM "$pid" 2>/dev/null
    done
}
trap 'end_loops; drop; finish' EXIT
until_ 'the leader writes' writes_after 0
first=$(fence)
joined "$loops"
is "$status" 0 "the leader is killed: $(<"$work/loops")"
killed=$(now_ms)
for ((i = 0; i < 60; i++)); do
    writes_after "$first" && break
    sleep 0.5
done
yes_ "the other host writes, after $(($(now_ms) - killed)) ms" writes_after "$first"
call block 3
is "$status" 0 'show'
has "$out" "$(fence)" 'the fence is that of the new leader'

group 'the old leader'
call in_page env ROWLOCK_OWNER=old ROWLOCK_FENCE="$first" timeout 20 ./scheduler
yes_ "its write is refused, and it ends: $status" test "$status" -ge 1 -a "$status" -lt 124
no_ 'its write is refused' test "$(echo 'SELECT leader FROM plan;' | sql)" = old

group 'what trying again does not help'
call in_page env ROWLOCK_DB="$nowhere" PATH=/usr/bin:/bin ./lead.sh
is "$status" 127 'no rowlock'
rm "$page/scheduler"
end_loops
call in_page timeout 60 ./lead.sh
is "$status" 127 'no program'
finished
