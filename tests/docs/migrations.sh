#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/migrations.md, as it is written.
#     migrations.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/page.sh" || exit 1
for_driver migrate.sh
mkdir "$page/sql"
echo 'CREATE TABLE items (id int PRIMARY KEY);' >"$page/sql/0001_items.sql"
echo 'INSERT INTO items VALUES (1);' >"$page/sql/0002_item.sql"

group 'a shell script'
call block 1
is "$status" 0 'three containers'
is "$(grep -c '^applying' <<<"$out")" 2 'each file is applied once'
for i in 1 2 3; do
    has "$out" "server $i is up" 'each server starts'
done
is "$(echo 'SELECT count(*) FROM items;' | sql)" 1 'the rows are there'

group 'failures'
call in_page env ROWLOCK_DB="$nowhere" ./entrypoint.sh echo up
is "$status$out" 69 'no database'
echo 'INSERT INTO items VALUES (1);' >"$page/sql/0003_bad.sql"
call in_page ./entrypoint.sh echo up
yes_ "a migration fails: $status" test "$status" -ge 1 -a "$status" -lt 64
has "$out" 'applying sql/0003_bad.sql' 'a migration fails'
no_ 'its server does not start' grep -q up <<<"$out"
is "$(in_page rowlock list --csv | wc -l)" 1 'the lock is free'
echo 'INSERT INTO items VALUES (2);' >"$page/sql/0003_bad.sql"
call in_page ./entrypoint.sh echo up
has "$out" up 'the next container goes on'
in_page rowlock run schema -- sh -c 'until [ -e stop ]; do sleep 0.1; done' &
until_ 'held' in_page sh -c 'rowlock list --csv | grep -q "^schema,"'
call in_page sh -c "$(sed -n 's/--wait 10m/--wait 300ms/p' "$page/entrypoint.sh")"
is "$status" 75 'waited for too long'

# The tools themselves are not packaged everywhere. These do their job, and refuse other arguments;
# they do not lock.
program flyway <<END
#!/bin/sh
set -eu
$sql_line
[ "\$#,\$1,\$2,\$3" = "3,-url=\$JDBC_URL,-locations=filesystem:sql,migrate" ]
echo 'CREATE TABLE IF NOT EXISTS flyway_schema_history (script varchar(200) PRIMARY KEY);' | sql
for file in sql/V*.sql; do
    [ "\$(echo "SELECT count(*) FROM flyway_schema_history WHERE script = '\$file';" | sql)" = 0 ] || continue
    sleep 0.2
    { cat "\$file" && echo "INSERT INTO flyway_schema_history VALUES ('\$file');"; } | sql
    echo "migrating \$file"
done
END
program migrate <<END
#!/bin/sh
set -eu
$sql_line
[ "\$#,\$1,\$2,\$3,\$4,\$5" = "5,-path,sql,-database,\$DATABASE_URL,up" ]
echo 'CREATE TABLE IF NOT EXISTS schema_migrations (version varchar(200) PRIMARY KEY);' | sql
for file in sql/*.up.sql; do
    [ "\$(echo "SELECT count(*) FROM schema_migrations WHERE version = '\$file';" | sql)" = 0 ] || continue
    sleep 0.2
    { cat "\$file" && echo "INSERT INTO schema_migrations VALUES ('\$file');"; } | sql
    echo "migrating \$file"
done
END

touch "$page/stop"
for tool in flyway golang-migrate; do
    group "$tool, a stand-in"
    rm "$page"/sql/*
    table=${tool%-*}_t
    case $tool in
    flyway) echo "CREATE TABLE $table (id int);" >"$page/sql/V1__first.sql" ;;
    *) echo "CREATE TABLE $table (id int);" >"$page/sql/1_first.up.sql" ;;
    esac
    for i in 1 2; do
        in_page sh -e "$tool.command" >"$work/tool.$i" 2>"$work/tool.err.$i" &
        jobs_[i]=$!
    done
    for i in 1 2; do
        joined "${jobs_[i]}"
        is "$status" 0 "container $i: $(<"$work/tool.err.$i")"
    done
    is "$(cat "$work"/tool.? | grep -c migrating)" 1 'one of them applies the file'
done
call in_page sh -e flyway.tables
is "$status" 0 'tables for Flyway'
yes_ 'tables for Flyway' test -s "$page/sql/V9001__rowlock_locks.sql"
finished
