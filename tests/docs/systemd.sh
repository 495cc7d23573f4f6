#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/systemd.md, as it is written, but for the folders and the database; and the unit of docs/leader.md.
#     systemd.sh ROWLOCK sqlite
. "$(dirname "$0")/page.sh" || exit 1
well_within 90
program make-report <<<"#!/bin/sh
echo \$PGPASSWORD >>'$work/log'; printenv ROWLOCK_DB ROWLOCK_NAME"
program scheduler <<<'#!/bin/sh'
sed -n '/^```ini scheduler.service/,/^```$/p' "$(dirname "$0")/../../docs/leader.md" | sed '1d;$d' >"$page/scheduler.service"
sed -i "s|/usr/local/bin/|$work/bin/|g; s|/etc/rowlock.env|$page/rowlock.env|" "$page"/*.service
sed -i "s|^ROWLOCK_DB=.*|ROWLOCK_DB=$db|" "$page/rowlock.env"
in_page rowlock migrate up >/dev/null

group 'units'
if command -v systemd-analyze >/dev/null; then
    call block 1
    is "$status$out$err" 0 'verify'
    call in_page systemd-analyze verify ./scheduler.service
    is "$status$out$err" 0 'verify the leader'
else
    ran+=' 1'
fi

group 'ExecStart'
start=$(sed -n 's/^ExecStart=//p' "$page/report.service")
unit() {
    # shellcheck disable=SC2046 # a variable in each line
    env -i PATH=/usr/local/bin:/usr/bin:/bin $(cat "$page/rowlock.env") sh -c "exec $start"
}
call unit
is "$status" 0 "the first host: $err"
is "$out" $'\nreport' 'has the name, but not the address'
is "$(<"$work/log")" secret 'the job ran, with the other variables'
call unit
is "$status$out$err" 0 'the second host does nothing'
is "$(wc -l <"$work/log")" 1 'once'
finished
