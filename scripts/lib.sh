# SPDX-License-Identifier: MIT
#
# Shell functions that the scripts share; source it.

say() {
    printf '== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Where the servers keep their files: in memory, if there is room for them. A disk that stalls for
# seconds ends leases, and that is not what is tested.
scratch() {
    local free
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    if [ "${free:-0}" -gt 4000000 ] && [ -w /dev/shm ]; then
        echo /dev/shm
    else
        echo /tmp
    fi
}

# as_root COMMAND...
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# missing_packages PACKAGE...: those that dpkg does not have installed.
missing_packages() {
    local package
    for package; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            echo "$package"
    done
}

# Packages of servers start them when they are installed, unless this file tells them not to. Tests
# start servers of their own.
policy=/usr/sbin/policy-rc.d

forbid_server_starts() {
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    forbidden=1
}

allow_server_starts() {
    [ -z "${forbidden:-}" ] || as_root rm -f "$policy"
    forbidden=
}

# Linux shares the processors out to sessions first, and each process of PostgreSQL is a session. Under
# load kernel 6.18 was seen to leave a server with 50 threads ready to run without any processor for 20
# seconds. Where that can be turned off it is, until share_by_session.
share_flatly() {
    [ "$(cat "$sharing" 2>/dev/null)" = 1 ] && { echo 0 >"$sharing"; } 2>/dev/null || return 0
    say "processors are not shared out by session until the end ($sharing)"
    is_flat=1
}

share_by_session() {
    [ -z "${is_flat:-}" ] || echo 1 >"$sharing"
    is_flat=
}

sharing=/proc/sys/kernel/sched_autogroup_enabled

# install_packages PACKAGE...: with apt-get, what is missing; never at the price of removing a package
# (another database server, say). Elsewhere says what to install, and goes on: the build names what it
# lacks.
install_packages() {
    local missing
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        say "no apt-get here; install what corresponds to Debian's: $*"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        die "neither root nor sudo; install these and use --no-install: $(echo $missing)"
    fi
    say "installing $(echo $missing)"
    forbid_server_starts
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 update &&
        # shellcheck disable=SC2086 # a list of words
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 \
            install --no-install-recommends --no-remove $missing >/dev/null || {
        allow_server_starts
        die "apt-get failed; install these by hand and use --no-install: $(echo $missing)"
    }
    allow_server_starts
}
