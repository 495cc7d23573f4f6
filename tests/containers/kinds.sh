# SPDX-License-Identifier: MIT
#
# How servers of each kind are started, for ./server; source it. start_KIND ARGUMENT... starts $image as
# $name on $port, with its files in $data; with_WORD brings what comes with it, and tells where.
# shellcheck shell=bash disable=SC2154

# another SUFFIX: a folder for a companion.
another() {
    mkdir "$home/$1"
    chown 999:999 "$home/$1"
}

# ---- PostgreSQL ----------------------------------------------------------------------------------

start_postgresql() {
    (umask 077 && echo "$password" >"$data/password")
    chown 999:999 "$data/password"
    quietly contain "$image" "$data" --rm -- initdb -D /data/db -U rowlock --pwfile=/data/password \
        -A scram-sha-256 -E UTF8 --locale=C --no-sync
    postgres "$name" "$data" "$port" "$@"
    psql "$name" "$port" postgres -c 'CREATE DATABASE rowlock_test'
}

# postgres CONTAINER DATA PORT ARGUMENT...
postgres() {
    quietly contain "$image" "$2" --detach --name="$1" -- postgres -D /data/db -p "$3" -k /data \
        -c listen_addresses=127.0.0.1 -c max_connections=200 "${@:4}"
    await "$1" pod exec "$1" pg_isready -h 127.0.0.1 -p "$3"
}

# psql CONTAINER PORT DATABASE ARGUMENT...
psql() {
    quietly pod exec --env=PGPASSWORD="$password" "$1" psql -X -h 127.0.0.1 -p "$2" -U rowlock \
        -d "$3" "${@:4}"
}

# A standby that every commit waits for.
with_standby() {
    local port2
    port2=$(free_port)
    another standby
    quietly contain "$image" "$home/standby" --rm --env=PGPASSWORD="$password" -- pg_basebackup \
        -h 127.0.0.1 -p "$port" -U rowlock -D /data/db -R -X stream -c fast --no-sync
    postgres "$name.standby" "$home/standby" "$port2" "${arguments[@]}"
    psql "$name" "$port" postgres -c "ALTER SYSTEM SET synchronous_standby_names = '*'" \
        -c 'SELECT pg_reload_conf()'
    tell "ROWLOCK_TEST_STANDBY=$(address "$port2")" \
        "ROWLOCK_TEST_BOTH='postgresql://rowlock:$password@127.0.0.1:$port,127.0.0.1:$port2/rowlock_test?target_session_attrs=read-write'"
}

# PgBouncer in transaction mode, with fewer connections than it has clients.
with_pgbouncer() {
    local port2
    port2=$(free_port)
    another pooler
    printf '"rowlock" "%s"\n' "$password" >"$home/pooler/users"
    cat >"$home/pooler/ini" <<END
[databases]
* = host=127.0.0.1 port=$port
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port2
unix_socket_dir =
auth_type = scram-sha-256
auth_file = /data/users
pool_mode = transaction
max_client_conn = 500
default_pool_size = 2
END
    chown 999:999 "$home/pooler/users" "$home/pooler/ini"
    chmod 600 "$home/pooler/users"
    quietly contain "$image" "$home/pooler" --detach --name="$name.pooler" -- pgbouncer /data/ini
    await "$name.pooler" pod exec "$name" pg_isready -h 127.0.0.1 -p "$port2"
    tell "ROWLOCK_TEST_PGBOUNCER=$(address "$port2")"
}

# ---- MySQL and MariaDB ---------------------------------------------------------------------------

accounts() {
    cat <<END
CREATE DATABASE rowlock_test;
CREATE USER rowlock@'%' IDENTIFIED BY '$password';
CREATE USER rowlock@localhost IDENTIFIED BY '$password';
GRANT ALL ON *.* TO rowlock@'%' WITH GRANT OPTION;
GRANT ALL ON *.* TO rowlock@localhost WITH GRANT OPTION;
ALTER USER root@localhost ACCOUNT LOCK;
END
    [ -z "$by_socket" ] || cat <<END
CREATE USER server@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON *.* TO server@localhost WITH GRANT OPTION;
END
}

# greets PORT: the server does, once it has run its init file.
greets() {
    # shellcheck disable=SC2016 # for the inner shell
    [ -n "$(timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && head -c 5 <&3 | tr -d "\0"' - "$1")" ]
}

start_mysql() {
    accounts >"$data/accounts.sql"
    case $image in
    mariadb-*)
        quietly contain "$image" "$data" --rm -- mariadb-install-db --no-defaults --datadir=/data/db \
            --auth-root-authentication-method=normal --skip-test-db
        ;;
    *)
        quietly contain "$image" "$data" --rm -- mysqld --no-defaults --datadir=/data/db \
            --secure-file-priv= --initialize-insecure
        ;;
    esac
    [ "$with" != galera ] || galera_node 1 "$(free_port)"
    mysqld "$name" "$data" "$port" --init-file=/data/accounts.sql "$@" "${node[@]}"
}

# mysqld CONTAINER DATA PORT ARGUMENT...
mysqld() {
    local server=mysqld
    case $image in mariadb-*) server=mariadbd ;; esac
    quietly contain "$image" "$2" --detach --name="$1" -- "$server" --no-defaults --datadir=/data/db \
        --socket=/data/socket --bind-address=127.0.0.1 --port="$3" --pid-file=/data/pid \
        --secure-file-priv= --max-connections=500 "${@:4}"
    await "$1" greets "$3"
}

node=()
galera_first=

# galera_node NUMBER PORT: sets $node, the arguments of one more; the first one makes the cluster.
# There is a port for the others, and two to get the first state by.
galera_node() {
    local state transfer
    state=$(free_port)
    transfer=$(free_port)
    node=(--wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so
        --wsrep-cluster-name=rowlock "--wsrep-cluster-address=gcomm://$galera_first"
        "--wsrep-node-name=node$1" "--wsrep-node-address=127.0.0.1:$2"
        "--wsrep-provider-options=base_host=127.0.0.1;base_port=$2;gmcast.listen_addr=tcp://127.0.0.1:$2;ist.recv_addr=127.0.0.1:$state"
        --wsrep-sst-method=rsync "--wsrep-sst-receive-address=127.0.0.1:$transfer"
        --binlog-format=ROW --innodb-autoinc-lock-mode=2)
    [ -n "$galera_first" ] || galera_first=127.0.0.1:$2
}

# Two more nodes, which get their data from the first.
with_galera() {
    local i port2 nodes
    nodes=$(address "$port")
    for i in 2 3; do
        another "node$i"
        another "node$i/db"
        port2=$(free_port)
        galera_node "$i" "$(free_port)"
        mysqld "$name.$i" "$home/node$i" "$port2" "${arguments[@]}" "${node[@]}"
        nodes="$nodes' '$(address "$port2")"
    done
    tell "ROWLOCK_TEST_NODES=$nodes"
}
