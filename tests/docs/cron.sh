#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/cron.md, as it is written. Lines of the crontab are run as cron does it: by /bin/sh, in the home
# folder, with what the crontab sets and little else.
#     cron.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/page.sh" || exit 1
well_within 90
for job in make-report sync-stock make-backup; do
    program $job <<<"#!/bin/sh
echo $job >>'$work/log'; sleep 1"
done

# The variables of the crontab: those of the page, but our folder and our database.
variables=()
while IFS= read -r line; do
    case $line in
    PATH=*) variables+=("PATH=$work/bin:${line#PATH=}") ;;
    ROWLOCK_DB=*) variables+=("ROWLOCK_DB=$db") ;;
    *) variables+=("$line") ;;
    esac
done < <(grep '^[A-Z_]*=' "$page/crontab")
is "${#variables[@]}" 3 'the variables of the crontab'

# cron COMMAND [VARIABLE]: as cron would.
cron() {
    (cd "$work/home" && exec env -i HOME="$work/home" LOGNAME=cron SHELL=/bin/sh "${variables[@]}" ${2:+"$2"} \
        /bin/sh -c "$1")
}

group 'preparation'
call block 1
is "$status" 0 'tables'

group 'a line of the crontab, on two hosts'
lines=0
while read -r _ _ _ _ _ command; do
    lines=$((lines + 1))
    rm -f "$work/log"
    no_ "no percent sign: $command" grep -q '%' <<<"$command"
    for i in 1 2; do
        cron "$command" >"$work/mail.$i" 2>&1 &
        jobs_[i]=$!
    done
    for i in 1 2; do
        joined "${jobs_[i]}"
        is "$status$(<"$work/mail.$i")" 0 "no mail: $command"
    done
    [[ $command == *reap* ]] || is "$(wc -l 2>/dev/null <"$work/log")" 1 "once: $command"
done < <(grep '^[0-9*]' "$page/crontab")
is "$lines" 4 'lines'

group 'at another time'
rm -f "$work/log"
crontab_line() {
    sed -n "s/^[^A-Z]* \(rowlock .*$1.*\)/\1/p" "$page/crontab"
}
for job in make-report sync-stock make-backup; do
    call cron "$(crontab_line $job)"
    is "$status$out$err" 0 "$job"
done
is "$(sort "$work/log")" sync-stock 'only what may be run again is'
call cron "$(crontab_line sync-stock)" "ROWLOCK_DB=$nowhere"
is "$status" 69 'no database'
one_line 'no database: a mail'

group 'two hosts at the same moment'
in_page rowlock release --force --yes report
rm -f "$work/log"
call block 2
is "$status$(<"$work/log")" 0make-report 'one of them'
finished
