# SPDX-License-Identifier: MIT
# For scripts that run on each kind of database, as SCRIPT ROWLOCK postgresql|mysql|sqlite: tables of
# their own, and holders in the background.
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1 driver=$2
prefix=cli_$$_

case $driver in
postgresql) db=${ROWLOCK_TEST_POSTGRESQL:-} nowhere=postgresql://u:sEcret@127.0.0.1:1/d ;;
mysql) db=${ROWLOCK_TEST_MYSQL:-} nowhere=mysql://u:sEcret@127.0.0.1:1/d ;;
sqlite) db=sqlite:$work/test.db nowhere=sqlite:$work/sEcret/none/test.db ;;
esac
[[ $db ]] || skip "ROWLOCK_TEST_${driver^^} is not set"

here=(--db "$db" --prefix "$prefix")
mark=$work/mark

# rl SUBCOMMAND [ARGUMENT...]: on our tables.
rl() {
    local subcommand=$1
    shift
    "$rowlock" "$subcommand" "${here[@]}" "$@"
}

# hold [OPTION...] NAME: a holder in the background that is there until it is killed; $holder is the
# process id of rowlock, and the file $mark has that of its command.
hold() {
    rm -f "$mark"
    "$rowlock" run "${here[@]}" "$@" -- \
        sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 60' "$mark" 2>"$work/holder.err" &
    holder=$!
    pids+=("$holder")
    until_ "holder of $*" test -s "$mark"
}

drop() {
    kill -TERM "$holder"
    joined "$holder"
}

# is_held NAME, is_free NAME
is_held() {
    rl list --json | grep -qF "\"name\": \"$1\","
}

is_free() {
    ! is_held "$1"
}

# sql: runs standard input in the database's own client, which stops at the first error.
sql() {
    case $driver in
    postgresql) psql -X -At -v ON_ERROR_STOP=1 "$db" ;;
    mysql)
        [[ $db =~ ^[a-z]+://([^:@]*)(:([^@]*))?@([^:/]*)(:([0-9]+))?/([^?]*) ]] || return 1
        MYSQL_PWD=${BASH_REMATCH[3]} "$(command -v mariadb || command -v mysql)" --no-defaults \
            -u "${BASH_REMATCH[1]}" -h "${BASH_REMATCH[4]}" -P "${BASH_REMATCH[6]:-3306}" \
            --batch --unbuffered --skip-column-names "${BASH_REMATCH[7]}"
        ;;
    sqlite) sqlite3 -batch -bail -cmd '.timeout 5000' "$work/test.db" ;;
    esac
}

# need_sql: ends the script if that client is not there.
need_sql() {
    case $driver in
    postgresql) command -v psql ;;
    mysql) command -v mariadb || command -v mysql ;;
    sqlite) command -v sqlite3 ;;
    esac >/dev/null || skip "the client of $driver is not installed"
}
