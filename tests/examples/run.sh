#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An example that makes what it needs, checks its own result and cleans up.
#     run.sh PROGRAM postgresql|mysql|sqlite RESULT
# RESULT is a pattern (grep -E) that its one line of output matches.
. "$(dirname "$0")/../cli/lib.sh" || exit 1
program=$1 driver=$2 result=$3

case $driver in
postgresql) db=${ROWLOCK_TEST_POSTGRESQL:-} nowhere=postgresql://u:sEcret@127.0.0.1:1/d ;;
mysql) db=${ROWLOCK_TEST_MYSQL:-} nowhere=mysql://u:sEcret@127.0.0.1:1/d ;;
sqlite) db=$work/test.db nowhere=$work/none/test.db ;;
esac
[[ $db ]] || skip "ROWLOCK_TEST_${driver^^} is not set"

group "${program##*/}"
for run in first second; do
    call "$program" "$db"
    is "$status" 0 "the $run run: $err"
    yes_ "the $run run: $out" grep -Eqx "$result" "$work/out"
    is "$(wc -l <"$work/out")" 1 "the $run run: one line"
done
call "$program" "$nowhere"
yes_ 'fails without a database' test "$status" -ge 1 -a "$status" -lt 126
yes_ 'and says so' test -n "$err"
no_ 'without the password' grep -q sEcret "$work/err" "$work/out"
call "$program"
yes_ 'fails without an address' test "$status" -ge 1 -a "$status" -lt 126
summary
