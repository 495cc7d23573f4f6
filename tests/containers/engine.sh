# SPDX-License-Identifier: MIT
#
# Containers on the images that ./images makes, by podman, which needs no daemon; source it. All that
# podman keeps is in $engine, a folder of ours: containers of others are not seen and not touched.
# They use the network of the host, servers listen on loopback alone. Needs root.
# shellcheck shell=bash

engine_packages=(podman runc)

# engine_ready: can containers be started here? Says why not.
engine_ready() {
    if [ "$(id -u)" != 0 ]; then
        echo "containers without a registry need root"
    elif ! command -v podman >/dev/null || ! command -v runc >/dev/null; then
        echo "no container engine: install ${engine_packages[*]}"
    else
        return 0
    fi
    return 1
}

pod() {
    podman --runtime runc --cgroup-manager cgroupfs --root "$engine/root" --runroot "$engine/run" "$@"
}

# Enough for any server here, and below what podman asks for unless told: that is refused where even
# root may not raise limits.
limits=(--ulimit=nofile=8192:8192 --ulimit=nproc=4096:4096)

# contain IMAGE DATA OPTION... -- COMMAND...: runs it as the user "server", with the host's folder
# DATA as /data. What it changes elsewhere is forgotten with the container. Processes have the same
# ids inside and outside: tests ask a server for its own, and stop them.
contain() {
    local image=$1 data=$2 root options=()
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    root=$("$containers/images" build "$image") || return 1
    pod run "${limits[@]}" --network=host --pid=host --user=999:999 --workdir=/data --volume="$data:/data" \
        --env=PATH="/usr/lib/postgresql/${image#*-}/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        "${options[@]}" --rootfs "$root:O" "$@" </dev/null
}

# engine_stop: ends and removes all containers at once; their data is thrown away. Each has a process
# of podman's that cleans up behind it: who removes the folder before that has ended, gets it back.
engine_stop() {
    [ -d "$engine" ] || return 0
    pod rm --force --time 0 --all >/dev/null 2>&1 || true
    for _ in $(seq 100); do
        pgrep -f -- "$engine/" >/dev/null || break
        sleep 0.1
    done
    umount "$engine/root/overlay" 2>/dev/null || true
    rm -rf "$engine"
}
