#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The manual page is set without a warning.
#     man.sh PAGE
. "$(dirname "$0")/lib.sh" || exit 1
command -v groff >/dev/null || skip 'groff is not installed'

group 'manual page'
for width in 80n 120n; do
    call groff -ww -t -man -Tutf8 -P-cbou -rLL=$width "$1"
    is "$status" 0 "groff at $width"
    is "$err" '' "no warning at $width"
done
has "$out" 'EXIT STATUS' 'has its sections'
summary
