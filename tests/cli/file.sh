#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What only SQLite has: the local file, files that are wrong; and `migrate print` in all formats.
#     file.sh ROWLOCK STOCK
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1 stock=$2

group 'no address'
for sub in 'run a -- touch ran' 'once --every 1h a -- touch ran' 'acquire a' 'release a 1 o' 'renew a 1 o' list \
    'show a' waiters metrics reap 'migrate up' 'migrate status' doctor 'bench --seconds 1' top; do
    # shellcheck disable=SC2086 # a list of words
    expect 64 "$sub" "$rowlock" $sub
done
expect 64 'says what to do' "$rowlock" run a -- touch "$work/ran"
has "$err" 'set ROWLOCK_DB or give --db' 'says what to do'
has "$err" '--local' 'says how to have the local file'
no_ 'no command was run' test -e "$work/ran"
no_ 'no file was made' test -e "$work/state"
expect 64 'both' "$rowlock" list --local --db x
expect 0 'ROWLOCK_DB=local' env ROWLOCK_DB=local "$rowlock" run b -- touch "$work/ran"
yes_ 'ROWLOCK_DB=local' test -e "$work/ran"
expect 0 '--local comes before ROWLOCK_DB' env ROWLOCK_DB=/nowhere/x "$rowlock" list --local
rm -r "$work/state"

group 'the local file'
expect 0 'first use' "$rowlock" run --local -v a -- true
has "$err" "database: sqlite:$work/state/rowlock/locks.db" '-v names it'
expect 0 'list' "$rowlock" list --local
has "$err" "sqlite:$work/state/rowlock/locks.db" 'list names it'
expect 0 'show' "$rowlock" show --local a
has "$out" "database  sqlite:$work/state/rowlock/locks.db" 'show names it'
expect 0 'doctor' "$rowlock" doctor --local
has "$out" 'for this user on this host alone' 'doctor says what it is'
yes_ 'is created' test -f "$work/state/rowlock/locks.db"
is "$(stat -c %a "$work/state/rowlock")" 700 'is private'
mkdir "$work/home"
expect 0 'in the home folder' env -u XDG_STATE_HOME HOME="$work/home" "$rowlock" run --local a -- true
yes_ 'is created' test -f "$work/home/.local/state/rowlock/locks.db"
expect 0 'a relative XDG_STATE_HOME is ignored' \
    env XDG_STATE_HOME=rel HOME="$work/home" "$rowlock" list --local
no_ 'a relative XDG_STATE_HOME is ignored' test -e rel
expect 0 'runs inside runs need no address' "$rowlock" run --local a -- "$rowlock" run -n a -- true
jobs_=()
for i in {1..8}; do
    XDG_STATE_HOME=$work/many "$rowlock" run --local a -- true 2>"$work/many.$i" &
    jobs_+=($!)
done
for i in "${!jobs_[@]}"; do
    joined "${jobs_[i]}"
    is "$status" 0 "first use by eight at once: $(<"$work/many.$((i + 1))")"
done
touch "$work/blocked"
expect 69 'a file in the way' env XDG_STATE_HOME="$work/blocked" "$rowlock" list --local

group 'addresses'
mkdir "$work/in" && cd "$work/in" || exit 1
for address in plain.db ./dot.db "sqlite:scheme.db" "$work/in/absolute.db" ./a=b.db; do
    expect 0 "$address" "$rowlock" migrate up --db "$address"
    yes_ "$address is there" test -f "${address#sqlite:}"
done
expect 0 'ROWLOCK_DB' env ROWLOCK_DB=plain.db "$rowlock" run a -- true
expect 0 '--db comes first' env ROWLOCK_DB=/nowhere/x "$rowlock" run --db plain.db a -- true
expect 64 'SQLite has no schemas' "$rowlock" run --db plain.db --schema main a -- true
printf 'this is no database, and long enough to be looked at as one %0200d\n' 0 >not.db
call "$rowlock" list --db not.db
one_line 'not a database'
yes_ "not a database ($status)" test "$status" -ge 69
expect 69 'a folder that is not there' "$rowlock" list --db /nowhere/x.db

group 'runs inside runs'
"$rowlock" migrate up --db other.db >/dev/null
expect 75 'the same name elsewhere is another lock' "$rowlock" run --db plain.db n -- \
    sh -c '"$@" -w 5s n -- sh -c "touch sibling; sleep 2" & while [ ! -e sibling ]; do sleep 0.02; done; "$@" -n n -- true; s=$?; wait; exit $s' \
    sh "$rowlock" run --db other.db

group 'options'
expect 0 'durations' "$rowlock" run --local -t1h30m -w 1.5s --note=x a -- true
expect 0 'options after the name' "$rowlock" run --local a -nt 90 -- true
expect 0 'a name of 255 bytes' "$rowlock" run --local "$(printf 'n%.0s' {1..255})" -- true
expect 0 'prefix' "$rowlock" migrate up --db plain.db --prefix other_
expect 0 'prefix' "$rowlock" run --db plain.db --prefix other_ a -- true

group 'print'
print() {
    local dialect=$1
    shift
    "$rowlock" migrate print --dialect "$dialect" "$@"
}
dialects=()
for dialect in postgresql mysql sqlite; do
    print "$dialect" >/dev/null 2>&1 && dialects+=("$dialect")
done
for dialect in "${dialects[@]}"; do
    expect 0 "$dialect plain" print "$dialect"
    has "$out" 'CREATE TABLE' "$dialect plain"
    no_ "$dialect plain: no down" grep -q 'DROP TABLE' "$work/out"
    expect 0 "$dialect prefix" print "$dialect" --prefix my_
    has "$out" 'my_locks' "$dialect prefix"
    no_ "$dialect prefix is everywhere" grep -Eq 'rowlock_(locks|held|schema|clock|waiters|queue)' "$work/out"
    expect 0 "$dialect golang-migrate" print "$dialect" --format golang-migrate
    is "$(grep -c '^-- file: 0001_rowlock_locks\.\(up\|down\)\.sql$' "$work/out")" 2 'golang-migrate'
    expect 0 "$dialect flyway" print "$dialect" --format flyway --as 7
    is "$(grep -c '^-- file: [VU]7__rowlock_locks\.sql$' "$work/out")" 2 'flyway'
    expect 0 "$dialect dbmate" print "$dialect" --format dbmate --as 20260101120000
    is "$(grep '^-- ' "$work/out")" \
        '-- file: 20260101120000_rowlock_locks.sql
-- migrate:up
-- migrate:down
-- file: 20260101120001_rowlock_queue.sql
-- migrate:up
-- migrate:down
-- file: 20260101120002_rowlock_floor.sql
-- migrate:up
-- migrate:down' 'dbmate'
    expect 0 "$dialect goose" print "$dialect" --format goose --as 00012
    is "$(grep '^-- ' "$work/out")" \
        '-- file: 00012_rowlock_locks.sql
-- +goose Up
-- +goose Down
-- file: 00013_rowlock_queue.sql
-- +goose Up
-- +goose Down
-- file: 00014_rowlock_floor.sql
-- +goose Up
-- +goose Down' 'goose'
done
expect 0 'the dialect of the address' env ROWLOCK_DB=plain.db "$rowlock" migrate print
files() {
    mkdir "$1"
    expect 0 "$1 into files" print sqlite --format "$1" --output "$1"
    is "$(sort <<<"$out")" "$2" "$1: paths of files"
    is "$(cd "$1" && printf "$1/%s\n" *)" "$2" "$1: names of files"
}
files golang-migrate 'golang-migrate/0001_rowlock_locks.down.sql
golang-migrate/0001_rowlock_locks.up.sql
golang-migrate/0002_rowlock_queue.down.sql
golang-migrate/0002_rowlock_queue.up.sql
golang-migrate/0003_rowlock_floor.down.sql
golang-migrate/0003_rowlock_floor.up.sql'
files flyway 'flyway/U0001__rowlock_locks.sql
flyway/U0002__rowlock_queue.sql
flyway/U0003__rowlock_floor.sql
flyway/V0001__rowlock_locks.sql
flyway/V0002__rowlock_queue.sql
flyway/V0003__rowlock_floor.sql'
files dbmate $'dbmate/0001_rowlock_locks.sql\ndbmate/0002_rowlock_queue.sql\ndbmate/0003_rowlock_floor.sql'
files goose $'goose/0001_rowlock_locks.sql\ngoose/0002_rowlock_queue.sql\ngoose/0003_rowlock_floor.sql'
expect 70 'files that exist are left alone' print sqlite --format goose --output goose
has "$err" 'File exists' 'files that exist are left alone'
expect 70 'no such folder' print sqlite --format goose --output nowhere

if command -v sqlite3 >/dev/null; then
    group 'the sqlite3 command'
    print sqlite | sqlite3 -bail made.db
    is "${PIPESTATUS[1]}" 0 'takes the plain SQL'
    expect 0 'which is what we need' "$rowlock" migrate status --db made.db
    expect 0 'and works' "$rowlock" run --db made.db -n a -- true
    cat golang-migrate/000{3,2,1}_*.down.sql | sqlite3 -bail made.db
    is "${PIPESTATUS[1]}" 0 'takes the way down'
    is "$(sqlite3 made.db .tables)" '' 'which leaves nothing'
elif [[ ${ROWLOCK_TEST_NO_SKIP:-} ]]; then
    fail 'the sqlite3 command is not installed'
fi

group 'the example'
echo 20 >items
for i in 1 2 3 4; do
    "$stock" items locks.db >"sold.$i" &
    jobs_[i]=$!
done
for i in 1 2 3 4; do
    joined "${jobs_[i]}"
    is "$status" 0 'a seller'
done
is "$(cat sold.? | wc -l)" 20 'sells exactly what there is'
is "$(<items)" 0 'and no more'
is "$(sort -n sold.? | awk '$1 < last || $3 <= fence {bad++} {last = $2; fence = $3} END {print bad + 0}')" 0 \
    'one at a time, with rising fences'
cd / || exit 1
summary
