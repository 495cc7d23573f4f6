# SPDX-License-Identifier: MIT
#
# free_port, for scripts that start servers; source it.
# shellcheck shell=bash

# Below the range from which the kernel takes ports for outgoing connections.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    die "found no free port"
}
