# SPDX-License-Identifier: MIT
# For scripts that try a page of docs/ as it is written, as SCRIPT ROWLOCK postgresql|mysql|sqlite.
#
# Blocks of the page whose fence names a file ("```sh entrypoint.sh") are written to that file of $page, a
# folder; the other shell blocks are run there by `block N`, and `finished` says which were forgotten. All
# of it happens in a database of the test's own.
. "$(dirname "$0")/../cli/lib.sh" || exit 1
rowlock=$1 driver=$2
name=$(basename "$0" .sh)
page=$work/page blocks=$work/blocks ran=
mkdir "$page" "$blocks" "$work/home" "$work/bin"
ln -s "$rowlock" "$work/bin/rowlock"

awk -v files="$page/" -v blocks="$blocks/" '
    /^```$/ && out { close(out); out = ""; next }
    /^```[a-z]+ / { out = files $2; printf "" >out; next }
    /^```sh$/ { n++; out = blocks n; printf "" >out; next }
    /^```/ { out = "/dev/null"; next }
    out { print >out }' "$(dirname "$0")/../../docs/$name.md"
grep -l '^#!' "$page"/* | xargs -r chmod +x

# ---- the database --------------------------------------------------------------------------------

own=docs_$$
case $driver in
postgresql)
    admin=${ROWLOCK_TEST_POSTGRESQL:-}
    [[ $admin ]] || skip 'ROWLOCK_TEST_POSTGRESQL is not set'
    command -v psql >/dev/null || skip 'psql is not installed'
    psql -Xq "$admin" -c "CREATE DATABASE $own" || skip 'no database can be made'
    drop() { psql -Xq "$admin" -c "DROP DATABASE $own WITH (FORCE)"; }
    db=${admin%/*}/$own nowhere=postgresql://u:sEcret@127.0.0.1:1/d
    ;;
mysql)
    admin=${ROWLOCK_TEST_MYSQL:-}
    [[ $admin ]] || skip 'ROWLOCK_TEST_MYSQL is not set'
    command -v mysql >/dev/null || skip 'mysql is not installed'
    [[ $admin =~ ^[a-z]+://([^:@]*)(:([^@]*))?@([^:/]*)(:([0-9]+))?/ ]] || exit 1
    printf '[client]\nuser=%s\npassword=%s\nhost=%s\nport=%s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}" \
        "${BASH_REMATCH[4]}" "${BASH_REMATCH[6]:-3306}" >"$work/home/.my.cnf"
    mysql --defaults-file="$work/home/.my.cnf" -e "CREATE DATABASE $own" || skip 'no database can be made'
    drop() { mysql --defaults-file="$work/home/.my.cnf" -e "DROP DATABASE $own"; }
    printf '[mysql]\ndatabase=%s\n' "$own" >>"$work/home/.my.cnf"
    db=${admin%/*}/$own nowhere=mysql://u:sEcret@127.0.0.1:1/d
    ;;
sqlite)
    command -v sqlite3 >/dev/null || skip 'sqlite3 is not installed'
    drop() { :; }
    db=$page/shop.db nowhere=$work/none/shop.db
    ;;
esac
trap 'drop; finish' EXIT

# What the pages say about clients: the line `sql()` of each database.
case $driver in
postgresql) sql_line='sql() { psql -XAtq -v ON_ERROR_STOP=1 "$DATABASE_URL"; }' ;;
*) sql_line=$(grep -h -A 1 "^\`\`\`sh $driver.line" "$(dirname "$0")/../../docs/migrations.md" | tail -n 1) ;;
esac

# for_driver FILE...: with the line of this database in the place of PostgreSQL's.
for_driver() {
    local file text
    for file; do
        text=$(<"$page/$file")
        yes_ "$file has its line sql()" grep -q '^sql() { psql ' "$page/$file"
        printf '%s\n' "${text/$(grep '^sql() ' "$page/$file")/$sql_line}" >"$page/$file"
    done
}

# ---- running -------------------------------------------------------------------------------------

# in_page COMMAND...: in the folder, with no more in the environment than the page says.
in_page() {
    (cd "$page" && exec env -i PATH="$work/bin:/usr/local/bin:/usr/bin:/bin" HOME="$work/home" \
        ROWLOCK_DB="$db" DATABASE_URL="$db" JDBC_URL="jdbc:$db" "$@")
}

# block N [COMMAND...]: the Nth shell block of the page, by sh or the command.
block() {
    local n=$1
    shift
    ran+=" $n"
    (($# > 0)) || set -- sh -eu
    in_page "$@" "$blocks/$n"
}

# well_within SECONDS: waits for the next hour if this one ends so soon: what is done once in an hour would be
# done again.
well_within() {
    local left=$((3600 - $(date +%s) % 3600))
    ((left > $1)) || sleep $((left + 1))
}

# sql: runs standard input by the page's own line.
sql() {
    in_page sh -c "$sql_line; sql"
}

# program NAME: standard input becomes a program on the PATH.
program() {
    cat >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

finished() {
    local file
    for file in "$blocks"/*; do
        [[ ! -e $file || " $ran " == *" ${file##*/} "* ]] || fail "block ${file##*/} of the page was not run"
    done
    summary
}
