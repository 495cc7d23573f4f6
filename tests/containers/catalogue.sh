# SPDX-License-Identifier: MIT
#
# What there is to run, as tables; source it. A new line is a new image, or a new server.
# shellcheck shell=bash disable=SC2034

# Images made of Debian's packages: a name, the suite, what is in it besides the base.
images_base=(base-files dash coreutils sed grep tzdata)
images_table="
postgresql-17  trixie  postgresql-17
postgresql-18  sid     postgresql-18 pgbouncer
mysql-9        sid     mysql-server-core
client-oracle  sid     gcc g++ cmake ninja-build pkgconf libmysqlclient-dev libsqlite3-dev libcmocka-dev bash gawk procps hostname findutils
mariadb-11     trixie  mariadb-server galera-4 rsync bash gawk hostname procps iproute2 findutils
"

# Servers: a name, its image, the driver, and what it is started with. The first four are as they
# come; the others are in moods that somebody's production is in. Words that begin with @ are for the
# suites: @client=IMAGE builds and runs them in a container with another client library, @suites=LIST
# says which, @NAME=VALUE goes into their environment; @with=WORD brings more servers; @by-socket: the
# user is known by the process, since Oracle's client has forgotten how MariaDB checks passwords.
servers_table="
postgresql-17            postgresql-17  postgresql
postgresql-18            postgresql-18  postgresql
mysql-9                  mysql-9        mysql
mariadb-11               mariadb-11     mysql
postgresql-serializable  postgresql-18  postgresql  -c default_transaction_isolation=serializable -c timezone=Asia/Kathmandu
postgresql-pgbouncer     postgresql-18  postgresql  @with=pgbouncer @suites=pgbouncer -c timezone=America/St_Johns
postgresql-failover      postgresql-18  postgresql  @with=standby @suites=failover
mysql-found-rows         mysql-9        mysql       @ROWLOCK_TEST_FOUND_ROWS=1
mysql-oracle-client      mysql-9        mysql       @client=client-oracle
mariadb-oracle-client    mariadb-11     mysql       @client=client-oracle @by-socket @suites=conformance
mysql-gtid               mysql-9        mysql       --sql-require-primary-key=ON --gtid-mode=ON --enforce-gtid-consistency=ON --binlog-format=ROW --default-time-zone=-03:30
mysql-mixed              mysql-9        mysql       --binlog-format=MIXED --default-time-zone=+05:45
mariadb-snapshot         mariadb-11     mysql       --innodb-snapshot-isolation=ON --log-bin=binlog --binlog-format=ROW --default-time-zone=+05:45
mariadb-oracle           mariadb-11     mysql       --sql-mode=ORACLE,SIMULTANEOUS_ASSIGNMENT --log-bin=binlog --binlog-format=MIXED --default-time-zone=-03:30
mariadb-galera           mariadb-11     mysql       @with=galera @suites=conformance,cluster
"

# row TABLE NAME: the line that begins with the name.
row() {
    awk -v name="$2" '$1 == name { print; found = 1 } END { exit !found }' <<<"$1"
}
