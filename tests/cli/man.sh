#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The manual page is set without a warning, and has every command and option that the help has.
#     man.sh PAGE ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
command -v groff >/dev/null || skip 'groff is not installed'

group 'manual page'
for width in 80n 120n; do
    call groff -ww -t -man -Tutf8 -P-cbou -rLL=$width "$1"
    is "$status" 0 "groff at $width"
    is "$err" '' "no warning at $width"
done
has "$out" 'EXIT STATUS' 'has its sections'
page=$out
if command -v mandoc >/dev/null; then
    call mandoc -T lint "$1"
    is "$out$err" '' 'nothing that mandoc would mend'
elif [[ ${ROWLOCK_TEST_NO_SKIP:-} ]]; then
    fail 'mandoc is not installed'
fi
for sub in $("$2" help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p'); do
    has "$page" "rowlock $sub" "has the command $sub"
    [[ $sub != help ]] || continue
    for option in $("$2" help "$sub" | grep -oE '^ .*' | grep -oE -- '--[a-z][a-z-]+' | sort -u); do
        yes_ "$sub: has $option" grep -Eq -- "$option([^a-z-]|\$)" <<<"$page"
    done
done
summary
