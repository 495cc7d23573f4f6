#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Completion: what `rowlock completion` prints is right for the shell, and completes.
#     completion.sh ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1

group 'syntax'
for shell in bash zsh fish; do
    expect 0 "$shell" "$rowlock" completion $shell
    cp "$work/out" "$work/completion.$shell"
    ! command -v $shell >/dev/null || yes_ "$shell: syntax" $shell -n "$work/completion.$shell"
    for sub in $("$rowlock" help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p'); do
        [[ $sub != help ]] || continue
        yes_ "$shell: $sub" grep -q -- "$sub" "$work/completion.$shell"
        for option in $("$rowlock" help "$sub" | sed -n "s/'[^']*'//g; s/([^)]*)//; /^ *-/p" |
            grep -oE -- '--[a-z][a-z-]+' | sort -u); do
            case $shell in
            fish) yes_ "fish: $sub $option" grep -q -- "from $sub' -l ${option#--}\b" "$work/completion.fish" ;;
            *) yes_ "$shell: $sub $option" grep -Eq -- "^    $sub\) .*${option}[ ']" "$work/completion.$shell" ;;
            esac
        done
    done
done

# completed WORD...: what the last one becomes.
completed() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _rowlock
    echo "${COMPREPLY[*]}"
}

group 'bash'
. "$work/completion.bash"
is "$(completed rowlock wai)" waiters 'a command'
is "$(completed rowlock help onc)" once 'help on a command'
is "$(completed rowlock run --hold)" --hold-at-least 'an option'
is "$(completed rowlock run --on-busy s)" skip 'a value'
is "$(completed rowlock migrate print --format go)" 'golang-migrate goose' 'values'
is "$(completed rowlock migrate st)" status 'a word'
is "$(completed rowlock run a -- --no)" '' 'no option of ours after --'
has " $(completed rowlock run a -- tru) " ' true ' 'a program after --'
mkdir "$work/in" && cd "$work/in" && touch locks.db
is "$(completed rowlock list --db lo)" locks.db 'a file'
summary
