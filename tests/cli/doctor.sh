#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rowlock doctor: what it finds, what it says to do, and its exit status.
#     doctor.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/on_database.sh" || exit 1
need_sql
tidy() {
    rl migrate down --to 0 >/dev/null
    case $driver in
    postgresql) sql <<<"DROP OWNED BY ${prefix}poor; DROP ROLE ${prefix}poor" ;;
    mysql) sql <<<"DROP USER ${prefix}poor" ;;
    esac >/dev/null
    finish
}
trap tidy EXIT

# grade SUBJECT: the worst that the last call, by --json, said of it.
grade() {
    local worst
    for worst in bad warning ok; do
        if grep -qF "{\"grade\": \"$worst\", \"subject\": \"$1\"," "$work/out"; then
            echo "$worst"
            return
        fi
    done
}
# quiet WHAT: no secret was shown, and nothing but the summary went to stderr.
quiet() {
    no_ "$1: no password" grep -qi 'sEcret' "$work/out" "$work/err"
    one_line "$1: summary"
}
# is_json: what the last call printed is an array of flat objects with the four keys.
is_json() {
    local text='"([^"\\]|\\.)*"' last
    last=$(tail -n 1 "$work/out")
    [[ $(head -n 1 "$work/out") == '[' && $last == ']' ]] &&
        ! sed '1d;$d' "$work/out" | grep -qvE \
            "^ \{\"grade\": \"(ok|warning|bad)\", \"subject\": $text, \"message\": $text, \"remedy\": (null|$text)\},?$"
}

group 'no tables'
[[ $driver != sqlite ]] || sql <<<'PRAGMA journal_mode = WAL; CREATE TABLE t (x); DROP TABLE t' >/dev/null
expect 78 'no tables' rl doctor
has "$out" "rowlock migrate up" 'says what to do'
quiet 'no tables'
expect 78 'no tables, JSON' rl doctor --json
yes_ 'valid JSON' is_json
is "$(grade tables)" bad 'the tables are bad'
is "$(grade server)" ok 'the server is not'
is "$(rl migrate status | grep -c 'version 0')" 1 'nothing was made'

group 'older tables'
expect 0 'first version' rl migrate up --to 1
expect 78 'older' rl doctor --json
is "$(grade tables)" bad 'older'

group 'all is well'
expect 0 'tables' rl migrate up
call rl doctor --json
yes_ 'valid JSON' is_json
no_ 'nothing is bad' grep -q '"grade": "bad"' "$work/out"
if grep -q '"grade": "warning"' "$work/out"; then expected=1; else expected=0; fi
is "$status" "$expected" 'status: warnings of the server, or none'
is "$(grade tables)/$(grade server)" ok/ok 'tables and server'
is "$(grade database)" ok 'names the database'
yes_ 'says whether waiters are woken' grep -q '"subject": "waiters"' "$work/out"
call rl doctor
is "$status" "$expected" 'the same for people'
yes_ 'in columns' grep -qE '^ok       tables       .*version' "$work/out"
[[ $expected == 1 ]] || is "$err" '' 'silence on stderr'
[[ $driver == sqlite ]] || no_ 'no password' grep -qF "${db#*:*:}" "$work/out"

group 'not to be reached'
expect 69 'nowhere' "$rowlock" doctor --db "$nowhere" --json
is "$(grade server)" bad 'nowhere'
yes_ 'valid JSON' is_json
[[ $driver == sqlite ]] || quiet 'nowhere' # a path is no secret
if [[ $driver != sqlite ]]; then
    [[ $db =~ ^([a-z]+://)([^:@]*)(:[^@]*)?@([^/]*)/(.*)$ ]] || fail 'address' "cannot take apart"
    scheme=${BASH_REMATCH[1]} user=${BASH_REMATCH[2]} secret=${BASH_REMATCH[3]} host=${BASH_REMATCH[4]}
    database=${BASH_REMATCH[5]%%\?*}
    expect 69 'wrong password' "$rowlock" doctor --db "$scheme$user:sEcret@$host/$database"
    has "$out" 'check user and password' 'wrong password: what to do'
    quiet 'wrong password'
    expect 69 'no such database' "$rowlock" doctor --db "$scheme$user$secret@$host/rowlock_no_such"
    has "$out" 'create the database' 'no such database: what to do'
fi

group 'rights'
# poor STATUS WHAT: the same as a user who has but some rights.
poor() {
    expect "$1" "$2" "$rowlock" doctor --db "$scheme${prefix}poor:sEcret@$host/$database" --prefix "$prefix" --json
    quiet "$2"
}
if [[ $driver != sqlite ]]; then
    to=${prefix}poor waiters=${prefix}waiters locks=${prefix}locks schema=${prefix}schema floor=${prefix}floor
    case $driver in
    postgresql) sql <<<"CREATE ROLE $to LOGIN PASSWORD 'sEcret'" >/dev/null ;;
    mysql) # one right on the database, to be let in
        sql <<<"CREATE USER $to IDENTIFIED BY 'sEcret'; GRANT CREATE TEMPORARY TABLES ON \`$database\`.* TO $to"
        ;;
    esac
    poor 70 'none at all'
    is "$(grade rights)" bad 'none at all'
    sql <<<"GRANT SELECT ON $schema TO $to; GRANT SELECT ON $locks TO $to;
            GRANT SELECT, INSERT, UPDATE, DELETE ON $waiters TO $to" >/dev/null
    poor 70 'to read only'
    is "$(grade rights)/$(grade tables)" bad/ok 'to read only'
    for right in INSERT UPDATE DELETE; do
        yes_ "lacks $right" grep -qE "lacks .*$right.* on $locks" "$work/out"
    done
    yes_ 'lacks UPDATE on the floor' grep -qE "lacks .*UPDATE.* on $floor" "$work/out"
    no_ 'has what it has' grep -qE "lacks .*SELECT.* on $locks|on $waiters" "$work/out"
    sql <<<"GRANT INSERT, UPDATE, DELETE ON $locks TO $to; GRANT SELECT, UPDATE ON $floor TO $to" >/dev/null
    call "$rowlock" doctor --db "$scheme$to:sEcret@$host/$database" --prefix "$prefix" --json
    is "$(grade rights)" ok 'enough'
    is "$status" "$expected" 'enough: status'
fi

if [[ $driver == postgresql ]]; then
    group 'search_path'
    export PGOPTIONS="-c search_path=public,${prefix}open"
    sql <<<"CREATE SCHEMA ${prefix}open" >/dev/null
    call rl doctor --json
    is "$(grade search_path)" ok 'only the owner may create'
    sql <<<"GRANT CREATE ON SCHEMA ${prefix}open TO PUBLIC" >/dev/null
    expect 1 'everybody may create' rl doctor --json
    is "$(grade search_path)" warning 'everybody may create'
    yes_ 'names the schema and who' grep -qE "${prefix}open: PUBLIC" "$work/out"
    sql <<<"REVOKE CREATE ON SCHEMA ${prefix}open FROM PUBLIC;
            GRANT CREATE ON SCHEMA ${prefix}open TO ${prefix}poor" >/dev/null
    expect 1 'a role may create' rl doctor --json
    yes_ 'names the schema and the role' grep -qE "${prefix}open: ${prefix}poor" "$work/out"
    unset PGOPTIONS
    expect "$expected" 'not on the search_path' rl doctor --json
    is "$(grade search_path)" ok 'not on the search_path'
    sql <<<"DROP SCHEMA ${prefix}open" >/dev/null
fi

group 'unsafe'
case $driver in
postgresql) sql <<<"ALTER TABLE ${prefix}locks SET UNLOGGED" >/dev/null ;;
mysql) sql <<<"ALTER TABLE ${prefix}locks ENGINE = MyISAM" ;;
sqlite) sql <<<"CREATE TRIGGER tr AFTER UPDATE ON ${prefix}locks BEGIN SELECT 1; END" ;;
esac
if [[ $driver == sqlite ]]; then
    expect 1 'a trigger' rl doctor --json
    is "$(grade triggers)" warning 'a trigger'
    one_line 'a trigger'
    sql <<<'DROP TRIGGER tr'
else
    expect 70 'a table that forgets' rl doctor --json
    is "$(grade storage)" bad 'a table that forgets'
fi

if [[ $driver == sqlite ]]; then
    group 'files'
    expect 78 'no file' "$rowlock" doctor --db "sqlite:$work/none.db"
    no_ 'is not made' test -e "$work/none.db"
    expect 78 'no local file' "$rowlock" doctor --local
    no_ 'nor its folder' test -e "$XDG_STATE_HOME"
    expect 69 'a folder' "$rowlock" doctor --db "sqlite:$work"
    printf '%01000d' 1 >"$work/text.db"
    expect 69 'no database' "$rowlock" doctor --db "sqlite:$work/text.db"

    sql <<<'PRAGMA journal_mode = DELETE' >/dev/null
    expect 1 'no log' rl doctor --json
    is "$(grade journal)" warning 'no log'
    sql <<<'PRAGMA journal_mode = WAL' >/dev/null
    expect 0 'a log' rl doctor

    sql <<<'CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(3000)); PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    pages=$(sql <<<"SELECT rootpage FROM sqlite_schema WHERE name = 't'")
    size=$(sql <<<'PRAGMA page_size')
    printf 'garbage' | dd of="$work/test.db" bs=1 seek=$(((pages - 1) * size)) conv=notrunc 2>/dev/null
    expect 70 'a damaged file' rl doctor --json
    is "$(grade integrity)" bad 'a damaged file'
fi

group 'input'
expect 64 'a word too many' "$rowlock" doctor extra
expect 64 'no such option' "$rowlock" doctor --jsn
expect 64 'no such database' "$rowlock" doctor --db 'oracle://u:sEcret@h/d'
quiet 'input'
summary
