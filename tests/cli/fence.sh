#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `rowlock fence-sql` prints runs in the database's own client as it is, and does what it says.
#     fence.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1 dialect=$2
schema=fence_$$

# sql: runs standard input in the dialect's client, which stops at the first error.
case $dialect in
postgresql)
    db=${ROWLOCK_TEST_POSTGRESQL:-}
    [[ $db ]] || skip 'ROWLOCK_TEST_POSTGRESQL is not set'
    command -v psql >/dev/null || skip 'psql is not installed'
    export PGOPTIONS="-c search_path=$schema -c client_min_messages=warning"
    sql() {
        psql -X -At -v ON_ERROR_STOP=1 "$db"
    }
    ;;
mysql)
    db=${ROWLOCK_TEST_MYSQL:-}
    [[ $db ]] || skip 'ROWLOCK_TEST_MYSQL is not set'
    [[ $db =~ ^[a-z]+://([^:@]*)(:([^@]*))?@([^:/]*)(:([0-9]+))?/ ]] || exit 1
    client=$(command -v mariadb || command -v mysql) || skip 'the mysql client is not installed'
    words=(--no-defaults -u "${BASH_REMATCH[1]}" -h "${BASH_REMATCH[4]}" -P "${BASH_REMATCH[6]:-3306}"
        --default-character-set=utf8mb4 --batch --skip-column-names)
    export MYSQL_PWD=${BASH_REMATCH[3]}
    sql() {
        "$client" "${words[@]}" "$schema"
    }
    ;;
sqlite)
    schema=main
    command -v sqlite3 >/dev/null || skip 'sqlite3 is not installed'
    sql() {
        sqlite3 -batch -bail "$work/test.db"
    }
    ;;
esac

make_schema() {
    case $dialect in
    postgresql) echo "CREATE SCHEMA $schema" | sql ;;
    mysql) echo "CREATE DATABASE $schema" | "$client" "${words[@]}" ;;
    esac
}

drop_schema() {
    case $dialect in
    postgresql) echo "DROP SCHEMA $schema CASCADE" | sql ;;
    mysql) echo "DROP DATABASE $schema" | sql ;;
    esac
}
trap 'drop_schema >/dev/null; finish' EXIT

quoted() {
    local mark='"'
    [[ $dialect != mysql ]] || mark='`'
    printf '%s' "$mark${1//"$mark"/$mark$mark}$mark"
}

fence_sql() {
    "$rowlock" fence-sql --dialect "$dialect" "$@"
}

# pattern WORD: the statement of $shown that starts so, out of its comments, on one line.
pattern() {
    sed -n 's/^--     //p' <<<"$shown" | sed -n "/^$1/,/;$/p" | tr '\n' ' '
}

# filled STATEMENT FENCE VALUE ID [ORDER]: with numbers for parameters; ORDER is that of MySQL's, as
# letters.
filled() {
    local s=$1 letter
    local -A number=([f]=$2 [v]=$3 [i]=$4)
    case $dialect in
    postgresql) s=${s//\$1/$2} s=${s//\$2/$3} s=${s//\$3/$4} ;;
    sqlite) s=${s//\?1/$2} s=${s//\?2/$3} s=${s//\?3/$4} ;;
    mysql)
        for letter in $(fold -w1 <<<"$5"); do
            s=${s/\?/${number[$letter]}}
        done
        ;;
    esac
    printf '%s\n' "$s"
}

# rows STATEMENT: how many it changed; "error" if it failed.
rows() {
    local answer
    case $dialect in
    postgresql) answer=$(sql <<<"$1") ;;
    mysql) answer=$(sql <<<"$1; SELECT ROW_COUNT()") ;;
    sqlite) answer=$(sql <<<"$1; SELECT changes()") ;;
    esac 2>"$work/sql.err" || answer=error
    printf '%s' "${answer##*[ $'\n']}"
}

write() {
    rows "$(filled "$(pattern UPDATE)" "$1" "$2" "$3" vfif)"
}

row() {
    sql <<<"SELECT value, $(quoted "$column") FROM $(quoted "$table") WHERE id = $1;" | tr '\t' '|'
}

# start TABLE COLUMN: a table with one row, as it was before anybody thought of fences.
start() {
    table=$1 column=$2
    sql <<<"DROP TABLE IF EXISTS $(quoted "$table");
        CREATE TABLE $(quoted "$table") (id INTEGER PRIMARY KEY, value INTEGER NOT NULL);
        INSERT INTO $(quoted "$table") VALUES (1, 10), (2, 20);" >/dev/null
}

# apply OPTION...: prints the SQL and runs it.
apply() {
    expect 0 'is printed' fence_sql --column "$column" "$@"
    shown=$out
    is "$err" '' 'nothing on stderr'
    call sql <<<"$shown"
    is "$status $err" '0 ' 'runs as it is'
    is "$(row 1)" '10|0' 'rows begin with fence 0'
}

conditional_update() {
    start "$1" "$2"
    apply --table "${3:-$1}"
    is "$(write 7 11 1)" 1 'a higher fence writes'
    is "$(write 7 12 1)" 1 'the same fence writes again'
    is "$(write 6 13 1)" 0 'a lower fence changes no row'
    is "$(row 1)" '12|7' 'a lower fence changes nothing'
    is "$(write 8 14 1)" 1 'the next holder writes'
    is "$(write 7 15 1)" 0 'and the one before does not any more'
    is "$(write 5 21 2)" 1 'each row has a fence of its own'
    is "$(write 9 1 3)" 0 'no such row'
    is "$(rows "$(filled "$(pattern INSERT)" 6 30 3 ivf)")" 1 'a new row'
    is "$(row 3)" '30|6' 'a new row has the fence of its writer'
    is "$(write 5 31 3)" 0 'a lower fence on a new row'
    if [[ $dialect == mysql ]]; then
        is "$(write 8 14 1)" 0 'the trap: the same once more changes no row'
        is "$(sql <<<"$(filled "$(pattern SELECT)" 0 0 1 i)")" 8 'and the fence tells that it is no loss'
    else
        is "$(rows "$(filled "$(pattern INSERT)" 7 31 3)")" 1 'insert or update, higher'
        is "$(rows "$(filled "$(pattern INSERT)" 6 32 3)")" 0 'insert or update, lower'
        is "$(row 3)" '31|7' 'insert or update'
    fi
}

# set_to FENCE VALUE: an UPDATE of a writer that does not look.
set_to() {
    rows "UPDATE $(quoted "$table") SET value = $2, $(quoted "$column") = $1 WHERE id = 1"
}

trigger() {
    start "$1" "$2"
    apply --trigger --table "${3:-$1}"
    is "$(set_to 7 11)" 1 'a higher fence writes'
    is "$(set_to 7 12)" 1 'the same fence writes again'
    is "$(set_to 6 13)" error 'a lower fence is an error'
    has "$(<"$work/sql.err")" 'a later holder of the lock has written this row' 'and says why'
    is "$(row 1)" '12|7' 'a lower fence changes nothing'
    is "$(set_to 8 14)" 1 'the next holder writes'
    is "$(rows "UPDATE $(quoted "$table") SET value = 15 WHERE id = 1")" 1 'what it cannot see'
    is "$(rows "UPDATE $(quoted "$table") SET value = 16, $(quoted "$column") = 7")" error 'all rows at once'
    is "$(row 2)" '20|0' 'undoes the whole statement'
}

# refuses TABLE COLUMN: there is a trigger, whatever tables were there before.
refuses() {
    start "$1" "$2"
    apply --trigger --table "$1"
    is "$(set_to 7 11)" 1 "a higher fence writes $1"
    is "$(set_to 6 12)" error "a lower fence is an error in $1"
}

remove_trigger() {
    sed -n 's/^--     DROP/DROP/p' <<<"$shown" | sql >/dev/null
    is "$(set_to 1 17)" 1 'and is removed as it says'
}

both() {
    group "$dialect, update, table $1"
    conditional_update "$@"
    group "$dialect, trigger, table $1"
    trigger "$@"
    remove_trigger
}

make_schema >/dev/null || exit 1
long=$(printf 'l%.0s' {1..62})
both orders fence
both order select "$schema.order"
both "it's \"odd\" \`\`;--/*" "\"a' \`b//;\$\$" "$schema.it's \"odd\" \`\`;--/*"
both the_column the_table
both $'Gr\u00f6\u00dfe' $'\u6570'
both "${long}a" "${long}c"

if [[ $dialect == sqlite ]] && sql <<<"CREATE TABLE s (id INTEGER PRIMARY KEY, value INT) STRICT"; then
    group 'sqlite, a strict table'
    table=s column=fence
    sql <<<"INSERT INTO s VALUES (1, 10)"
    apply --table s --trigger
fi

group "$dialect, names of triggers"
refuses "${long}a" fence
refuses "${long}b" fence # differs at its end only
refuses a_b c
refuses a b_c # the same when joined
refuses "$(printf '\u00e9%.0s' {1..19})x$(printf '\u00e9%.0s' {1..11})" c # to be cut inside a character

group "$dialect, twice"
start twice fence
apply --trigger --table twice
call sql <<<"$shown"
case $dialect in
postgresql) is "$status $err" '0 ' 'may be run again' ;;
mysql) yes_ 'may be run again, or says what is there' grep -Eq '^(0 |1 .*Duplicate column name)' <<<"$status $(tr '\n' ' ' <<<"$err")" ;;
sqlite) has "$err" 'duplicate column name' 'says what is there' ;;
esac

group "$dialect, the address tells the dialect"
expect 0 'by --dialect' fence_sql --table t --column c
same=$out
case $dialect in
postgresql) addresses=(postgresql://u:sEcret@127.0.0.1:1/d postgres://h/d 'host=h password=sEcret') ;;
mysql) addresses=(mysql://u:sEcret@127.0.0.1:1/d mariadb://u:sEcret@h/d) ;;
sqlite) addresses=(sqlite:/nowhere/x.db /nowhere/x.db x.db) ;;
esac
for address in "${addresses[@]}"; do
    expect 0 "${address%%:*}" "$rowlock" fence-sql --table t --column c -d "$address"
    is "$out" "$same" "${address%%:*}"
    expect 0 "ROWLOCK_DB ${address%%:*}" env ROWLOCK_DB="$address" "$rowlock" fence-sql --table t --column c
    is "$out" "$same" "ROWLOCK_DB ${address%%:*}"
done
summary
