# SPDX-License-Identifier: MIT
# What the scripts here share. A script sets nothing, sources this, calls `expect` and friends, and
# ends with `summary`. $work is a folder of its own, removed at the end; processes that are still
# there are ended by their ids.

passed=0 failed=0 group='' pids=()
work=$(mktemp -d "${TMPDIR:-/tmp}/rowlock-cli.XXXXXX")
export XDG_STATE_HOME=$work/state
export SHELL=$BASH # script(1) runs it; a machine may have none set, and sh dies of a Ctrl-C that bash survives
export LC_ALL=C.UTF-8 # bash writes $'\u00e9' as UTF-8 in such a locale only
exec 2>"$work/stderr" # bash's words on killed jobs; shown if something failed
unset ROWLOCK_DB ROWLOCK_NAME ROWLOCK_FENCE ROWLOCK_OWNER ROWLOCK_HELD NO_COLOR

finish() {
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null
    done
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

# Ends with 77 for "skipped", or fails if skipping is not allowed.
skip() {
    echo "skipped: $1"
    [[ ${ROWLOCK_TEST_NO_SKIP:-} ]] && exit 1
    exit 77
}

group() {
    group=$1
}

pass() {
    passed=$((passed + 1))
}

fail() {
    failed=$((failed + 1))
    printf 'FAILED: %s: %s\n' "$group" "$1"
    shift
    (($# == 0)) || printf '    %s\n' "$@"
}

# is ACTUAL EXPECTED WHAT
is() {
    if [[ $1 == "$2" ]]; then pass; else fail "$3" "got:      $1" "expected: $2"; fi
}

# has TEXT PART WHAT
has() {
    if [[ $1 == *"$2"* ]]; then pass; else fail "$3" "got:              $1" "does not contain: $2"; fi
}

# yes WHAT COMMAND...: the command succeeds.
yes_() {
    local what=$1
    shift
    if "$@"; then pass; else fail "$what" "failed: $*"; fi
}

no_() {
    local what=$1
    shift
    if "$@"; then fail "$what" "succeeded: $*"; else pass; fi
}

# call COMMAND...: sets $status, $out, $err.
call() {
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    out=$(<"$work/out") err=$(<"$work/err")
}

# expect STATUS WHAT COMMAND...: runs it and checks the status. Statuses of ours come with exactly one
# line on stderr that starts with "rowlock: ".
expect() {
    local expected=$1 what=$2
    shift 2
    call "$@"
    if ((status != expected)); then
        fail "$what" "status $status, expected $expected" "stderr: $err"
        return
    fi
    pass
    case $expected in
    64 | 69 | 70 | 75 | 79) one_line "$what" ;;
    esac
}

one_line() {
    if [[ $err == "rowlock: "?* && $err != *$'\n'* ]]; then pass; else fail "$1: one line" "$err"; fi
}

# until_ WHAT COMMAND...: the command succeeds within ten seconds.
until_() {
    local what=$1 i
    shift
    for ((i = 0; i < 500; i++)); do
        "$@" 2>/dev/null && return 0
        sleep 0.02
    done
    fail "$what" "waited ten seconds for: $*"
    return 1
}

gone() {
    ! kill -0 "$1" 2>/dev/null
}

now_ms() {
    local t=${EPOCHREALTIME/[.,]/}
    echo $((t / 1000))
}

# joined PID: waits for it and sets $status.
joined() {
    wait "$1" 2>/dev/null
    status=$?
}

summary() {
    ((failed == 0)) || cat "$work/stderr"
    echo "$passed passed, $failed failed"
    ((failed == 0))
}
