# SPDX-License-Identifier: MIT
#
# The suites, for ./run; source it.
# shellcheck shell=bash disable=SC2154

# suite_tests NAME: which tests of ctest it is. Left out is what starts servers of its own.
suite_tests() {
    case $1 in
    conformance) echo '^(conformance|faults[.]hostile_path)[.]' ;;
    transactions) echo '^(faults[.](tx_|guard_proof|concurrently)|examples[.])' ;;
    waiting) echo '^faults[.]queue_' ;;
    background) echo '^faults[.](watch_(paused|blackhole|many|reaper|flat)|bloat)' ;;
    faults) echo '^faults[.](lost_reply|late|round_trips|direct|bounded|stopped|processes|busy_is_free|deadlocks|fork|deployment|password|settings)[.]' ;;
    pgbouncer) echo '^faults[.]pgbouncer[.]' ;;
    *) return 1 ;;
    esac
}

# run_suite DATABASE KIND SUITE: in the environment of the database, with the build of this machine or
# that of $client. A suite that is not a list of ctest's is a script of that name.
run_suite() {
    local log=$PWD/$logs/$1.$3.log tests began=$SECONDS passed failed skipped
    : >"$log"
    if tests=$(suite_tests "$3"); then
        part "$log" -L "^$2\$" -R "$tests" -LE '^alone$' -j "$((2 * $(nproc)))"
        part "$log" -L "^$2\$" -R "$tests" -L '^alone$'
    else
        in_group "$log" "$containers/$3" "$dir" "$1" "$build"
    fi
    read -r passed failed skipped < <(awk -f "$containers/count.awk" "$log")
    record "$1" "$3" "$passed" "$failed" "$skipped" "$((SECONDS - began))"
}

# part LOG OPTION...: ctest, one half of a suite.
part() {
    local log=$1
    shift
    if [ -z "$client" ]; then
        in_group "$log" ctest --test-dir "$build" -V --no-tests=ignore "$@"
    else
        in_group "$log" in_client "$client" ctest --test-dir /data/build -V --no-tests=ignore "$@"
    fi
}

# in_group LOG COMMAND...: in a process group of its own, so that an interrupted run can end all of it.
in_group() {
    local log=$1
    shift
    set -m
    "$@" >>"$log" 2>&1 </dev/null &
    running=$!
    set +m
    wait "$running" || true
    running=
}

# ---- other client libraries ----------------------------------------------------------------------

# in_client IMAGE COMMAND...: with this tree as /src, and what it built before in /data/build.
in_client() {
    local image=$1
    shift
    contain "$image" "$PWD/$logs/$image" --rm --volume="$PWD:/src:ro" --volume="$dir:$dir" \
        --env='ROWLOCK_TEST_*' -- "$@"
}

# make_client IMAGE: the MySQL driver and its tests, built there.
make_client() {
    mkdir -p "$logs/$1"
    chown 999:999 "$logs/$1"
    in_group "$logs/$1.log" in_client "$1" sh -c '
        cmake -S /src -B /data/build -G Ninja -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug \
            -DROWLOCK_WERROR=ON -DROWLOCK_TESTS=ON -DROWLOCK_POSTGRESQL=OFF -DROWLOCK_MYSQL=ON \
            -DROWLOCK_SQLITE=OFF -DROWLOCK_MYSQL_CLIENT=mysqlclient &&
            cmake --build /data/build && touch /data/built'
    [ -e "$logs/$1/built" ]
}
