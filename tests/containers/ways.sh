# SPDX-License-Identifier: MIT
#
# The two ways to a database in a container, for ./run; source it. Each has
#
#   all_WAY               the names of its databases
#   describe_WAY NAME     prints the driver, the suites, with commas, and the client's image, if any
#   prepare_WAY NAME...   makes or fetches images
#   bring_up_WAY NAME     starts it, waits until it answers, writes $dir/NAME/env; or fails, the reason
#                         being the last line on stderr
#   take_away_WAY NAME    ends it
#   take_down_WAY         ends all, and removes $dir
# shellcheck shell=bash disable=SC2154

suites_all=conformance,transactions,waiting,background,faults
suites_mood=conformance,transactions

choose_way() {
    if compose_ready; then
        echo compose
    else
        echo debian
    fi
}

# ---- official images, by compose -----------------------------------------------------------------

# compose ARGUMENT...: of the first engine that answers; fails if there is none.
compose() {
    local options=(--project-name rowlock-test --file "$containers/compose.yaml")
    case $(compose_engine) in
    docker) docker compose "${options[@]}" "$@" ;;
    docker-compose) docker-compose "${options[@]}" "$@" ;;
    podman) podman-compose "${options[@]}" "$@" ;;
    *) echo "no engine that has compose" >&2 && return 1 ;;
    esac
}

compose_engine() {
    if timeout 10 docker info; then
        if docker compose version; then echo docker >&3; else
            command -v docker-compose && echo docker-compose >&3
        fi
    elif timeout 10 podman info && command -v podman-compose; then
        echo podman >&3
    fi 3>&1 >/dev/null 2>&1
}

# An engine, and a registry that gives the first image.
compose_ready() {
    [ -n "$(compose_engine)" ] && compose pull postgres-18 >/dev/null 2>&1
}

# await_health CONTAINER: for two minutes, as long as it runs.
await_health() {
    local inspect=docker status health
    [ "$(compose_engine)" != podman ] || inspect=podman
    for _ in $(seq 120); do
        read -r status health < <("$inspect" inspect --format '{{.State.Status}} {{.State.Health.Status}}' "$1")
        [ "$health" != healthy ] || return 0
        [ "$status" = running ] || break
        sleep 1
    done
    "$inspect" logs "$1" 2>&1 | tail -n 20 >&2
    echo "it is $status, and $health" >&2
    return 1
}

all_compose() {
    compose config --services | sort -V
}

describe_compose() {
    case $1 in
    postgres-*) echo "postgresql $suites_all" ;;
    mysql-* | mariadb-*) echo "mysql $suites_all" ;;
    *) return 1 ;;
    esac
}

prepare_compose() {
    compose pull "$@"
}

bring_up_compose() {
    local container kind=mysql user=root port=3306
    case $1 in postgres-*) kind=postgresql user=rowlock port=5432 ;; esac
    compose up --detach "$1" >&2 || return 1
    container=$(compose ps --quiet "$1")
    await_health "$container" || return 1
    port=$(compose port "$1" "$port")
    mkdir -p "$dir/$1"
    echo "export ROWLOCK_TEST_${kind^^}='$kind://$user:rowlock@$port/rowlock_test'" >"$dir/$1/env"
}

take_away_compose() {
    compose rm --force --stop --volumes "$1" >/dev/null 2>&1 || true
}

take_down_compose() {
    compose down --volumes --timeout 1 >/dev/null 2>&1 || true
    rm -rf "$dir"
}

# ---- Debian's packages, without a registry -------------------------------------------------------

all_debian() {
    awk 'NF { print $1 }' <<<"$servers_table"
}

describe_debian() {
    local suites=$suites_mood image kind words client=
    read -r _ image kind words < <(row "$servers_table" "$1") || return 1
    [ "$1" != "$image" ] || suites=$suites_all
    [[ " $words " =~ \ @client=([^ ]+)\  ]] && client=${BASH_REMATCH[1]}
    [[ " $words " =~ \ @suites=([^ ]+)\  ]] && suites=${BASH_REMATCH[1]}
    echo "$kind $suites $client"
}

prepare_debian() {
    local name image
    for name; do
        read -r _ image _ < <(row "$servers_table" "$name") || return 1
        "$containers/images" build "$image" || echo "the image $image cannot be made"
    done
}

bring_up_debian() {
    "$containers/server" start "$dir" "$1"
}

take_away_debian() {
    "$containers/server" end "$dir" "$1"
}

take_down_debian() {
    [ ! -e "$dir/names" ] || "$containers/server" stop "$dir"
    rm -rf "$dir"
}
