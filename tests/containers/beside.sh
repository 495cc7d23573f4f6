# SPDX-License-Identifier: MIT
#
# Servers in containers beside the other tests of scripts/test, which sources this. Their output goes
# to build/containers/log.
# shellcheck shell=bash disable=SC2154

# shellcheck source=tests/containers/table.sh
. tests/containers/table.sh

# What is run there, and the seconds after which none begins any more: a whole run of CI has a quarter
# of an hour.
beside_names=(mysql-9 postgresql-18)
beside_seconds=${ROWLOCK_TEST_CONTAINERS:-300}
beside_pids=()

# In a process group of its own, so that all of it can be ended.
in_background() {
    set -m
    "$@" >>build/containers/log 2>&1 </dev/null &
    set +m
    beside_pids+=($!)
}

make_images() {
    [ -z "$install" ] || (install_packages podman runc) || true
    # Who waits for the images gives up by then; a network that hangs must not keep the run.
    timeout --foreground "$((beside_seconds + 60))" \
        tests/containers/run --debian --prepare "${beside_names[@]}"
}

# An engine and images, while the compiler works.
prepare_beside() {
    mkdir -p build/containers
    rm -f build/containers/*.rows
    : >build/containers/log
    in_background make_images
}

# With the binaries of the first preset, while the tests of all of them run; all at once, since they
# mostly wait. They wait for images that are being made, too.
start_beside() {
    local name
    for name in "${beside_names[@]}"; do
        in_background tests/containers/run --debian --build "build/${presets[0]}" \
            --suite conformance --budget "$beside_seconds" \
            --results "build/containers/$name.md" "$name"
    done
}

# Nothing that could be run (77) is no failure; the table says so.
await_beside() {
    local rc=0
    wait "${beside_pids[@]}" || true
    beside_pids=()
    print_table build/containers/*.rows
    table_status build/containers/*.rows || rc=$?
    [ "$rc" = 0 ] || [ "$rc" = 77 ]
}

end_beside() {
    local pid
    for pid in "${beside_pids[@]}"; do
        kill -TERM -- "-$pid" 2>/dev/null || true
        wait "$pid" || true
    done
}

# exec_containers PRESET NAME...: --containers, in place of this script.
exec_containers() {
    wait "${beside_pids[@]}" || true
    trap - EXIT INT TERM
    exec tests/containers/run --build "build/$1" --results tests/containers/RESULTS.md "${@:2}"
}
