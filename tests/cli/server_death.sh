#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The database server is killed while a command runs: the command is ended before the lease.
#     server_death.sh ROWLOCK postgresql|mysql
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1 driver=$2
servers=$(dirname "$0")/../support/servers
variable=ROWLOCK_TEST_${driver^^}
[[ ${!variable:-} ]] || skip "$variable is not set"

# A server of our own. Not below $work, which only its owner may enter.
folder=$(mktemp -u "/tmp/rowlock-death.XXXXXX")
trap '"$servers" stop "$folder" >/dev/null; finish' EXIT
"$servers" start "$folder" "--$driver" >"$work/start" 2>&1 || { cat "$work/start" && exit 1; }
# shellcheck disable=SC1091 # written by the line above
. "$folder/env"
db=${!variable}
pid_of=${variable}_PID
expect 0 'tables' "$rowlock" migrate up --db "$db"

group 'the server is killed'
"$rowlock" run --db "$db" --ttl 6s job -- \
    bash -c 'trap "echo ended >\"$0\"; exit" TERM; touch "$0.on"; for i in {1..600}; do sleep 0.1; done' "$work/job" \
    2>"$work/job.err" &
holder=$!
pids+=("$holder")
until_ 'the command runs' test -e "$work/job.on"
# All of it at once: a server process that goes on for a moment could still renew the lease.
mapfile -t family < <(echo "${!pid_of}" && pgrep -P "${!pid_of}")
kill -KILL "${family[@]}" 2>/dev/null
killed=$(now_ms)
joined "$holder"
took=$(($(now_ms) - killed))
err=$(<"$work/job.err")
is "$status" 79 'the lock is lost'
is "$(<"$work/job")" ended 'the command had time to clean up'
has "$err" "cannot renew 'job' yet: " 'what fails is said'
has "$err" "lost 'job': the database did not answer in time; stopping the command" 'and what follows'
yes_ "before the lease ends ($took ms)" test "$took" -lt 6000
call "$rowlock" run --db "$db" job -- true
is "$status" 69 'no database'
summary
