#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The command on a terminal, which script(1) provides: an interactive shell in it, and keys typed.
#     terminal.sh ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
export ROWLOCK_DB=local
command -v script >/dev/null || skip 'script(1) is not installed'
export ROWLOCK=$1 PS1='' HISTFILE= TERM=xterm

# type_ [SECONDS KEYS]...: an interactive bash gets the keys, each after a pause; $out is what it
# showed. printf(1) escapes work in KEYS.
type_() {
    {
        while (($# > 0)); do
            sleep "$1"
            printf "$2"
            shift 2
        done
        sleep 0.3
        printf 'exit 0\n'
    } | timeout 30 script -qec 'bash --norc --noprofile -i' /dev/null >"$work/out" 2>&1
    out=$(tr -d '\r' <"$work/out")
}

group 'terminal'
type_ 0.3 '$ROWLOCK run a -- sleep 30\n' 1 '\003' 0.5 'echo status=$?.\n'
has "$out" 'status=130.' 'Ctrl-C ends the command'
type_ 0.3 '$ROWLOCK run a -- sh -c '\''read x; echo "<$x>"'\''\n' 1 'typed\n' 0.3 'echo status=$?.\n'
has "$out" '<typed>' 'the command reads from the terminal'
has "$out" 'status=0.' 'and gives it back'
type_ 0.3 '$ROWLOCK run -t 5s a -- sh -c "sleep 1.5; echo com\"\"plete"\n' 0.5 '\032' \
    0.5 'echo status=$?.\n' 0.2 'fg\n' 2 'echo again=$?.\n'
has "$out" 'status=147.' 'Ctrl-Z stops it'
has "$out" 'complete' 'fg goes on'
has "$out" 'again=0.' 'to its end'
type_ 0.3 '$ROWLOCK run -t 600ms a -- sleep 30\n' 0.5 '\032' 1.2 'fg\n' 1 'echo status=$?.\n'
has "$out" 'status=79.' 'stopped for longer than the lease: lost'
type_ 0.3 '$ROWLOCK run a -- sleep 30 &\n' 1 '$ROWLOCK run a -- true\n' 0.5 '\003' \
    0.5 'echo status=$?.; kill %%1; wait\n'
has "$out" 'status=130.' 'Ctrl-C ends the wait'

group 'release by force'
"$ROWLOCK" acquire forced >/dev/null
type_ 0.3 '$ROWLOCK release --force forced\n' 0.7 'n\n' 0.5 'echo status=$?.\n'
has "$out" "'forced' has been held by " 'says who holds it'
has "$out" 'status=1.' 'asks'
no_ 'and is not done without a yes' grep -q '"held": false' <("$ROWLOCK" show --json forced)
type_ 0.3 '$ROWLOCK release --force forced\n' 0.7 'y\n' 0.5 'echo status=$?.\n'
has "$out" 'status=0.' 'yes'
has "$("$ROWLOCK" show --json forced)" '"held": false' 'is done'

group 'table'
long=$(printf 'long%.0s' {1..40})
"$ROWLOCK" run --note "$long" --owner "$long" "$long" -- sleep 20 &
holder=$!
pids+=("$holder")
is_held() {
    "$ROWLOCK" list | grep -q long
}
until_ 'held' is_held
for columns in 80 100; do
    type_ 0.3 "stty cols $columns"'; $ROWLOCK list >/dev/tty; echo\n'
    has "$out" $'\e[1mNAME\e[0m' 'the titles are bold'
    sed -i 's/\x1b\[[0-9]*m//g' "$work/out"
    is "$(grep -c '^long.*\.\.\.' "$work/out")" 1 "is cut at $columns columns"
    yes_ "fits $columns columns" test "$(grep -a '^\(long\|NAME\)' "$work/out" | tr -d '\r' | wc -L)" -le $columns
done
type_ 0.3 'NO_COLOR=1 $ROWLOCK list >/dev/tty; echo\n'
no_ 'no colours with NO_COLOR' grep -q $'\e\[1m' "$work/out"
no_ 'no colours in a file' grep -q $'\e' <("$ROWLOCK" list)
kill -TERM "$holder"
summary
