# SPDX-License-Identifier: MIT
#
# version NAME: of a server, for tables; source it.
# shellcheck shell=bash

version() {
    case $1 in
    postgresql) "$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)" --version |
        sed 's/.*) \([0-9.]*\).*/PostgreSQL \1/' ;;
    mysql) mariadbd --version | sed 's/.*Ver \([0-9.]*\)-.*/MariaDB \1/' ;;
    sqlite) sqlite3 --version | sed 's/ .*//; s/^/SQLite /' ;;
    redis) redis-server --version | sed 's/.*v=\([0-9.]*\).*/Redis \1/' ;;
    etcd) etcd --version | sed -n 's/etcd Version: /etcd /p' ;;
    esac
}
