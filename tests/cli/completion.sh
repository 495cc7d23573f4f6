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
            fish) yes_ "fish: $sub $option" grep -q -- "_in $sub' -l ${option#--}\b" "$work/completion.fish" ;;
            *) yes_ "$shell: $sub $option" grep -Eq -- "^    $sub\) .*${option}[ ']" "$work/completion.$shell" ;;
            esac
        done
    done
done

# ask_SHELL WORD...: what the last one becomes, on one line in the order of the alphabet.
ask_bash() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _rowlock
    echo "${COMPREPLY[*]}"
}

ask_fish() {
    HOME=$work fish --no-config -c 'source $argv[1]; complete -C "$argv[2..]"' "$work/completion.fish" "$@" |
        cut -f 1 | sort -u | paste -sd ' '
}

# On a terminal of its own, where Tab completes and Ctrl-X tells what was offered.
mkdir "$work/zsh" && cp "$work/completion.zsh" "$work/zsh/_rowlock"
cat >"$work/setup.zsh" <<'END'
compadd() {
    local -a found
    if [[ " ${@[1,(i)(-|--)]} " != *" -"[OAD]" "* ]]; then
        builtin compadd -A found "$@"
        offered+=($found)
    fi
    builtin compadd "$@"
}
tell() {
    print -rl -- $offered >$TOLD
    exit
}
zle -N tell
bindkey '^I' complete-word '^X' tell
END
ask_zsh() {
    HOME=$work TERM=vt100 TOLD=$work/told timeout 60 zsh -f -c '
        zmodload zsh/zpty
        zpty -b shell zsh -f -i
        zpty -w shell "PROMPT=; fpath=($1/zsh \$fpath); autoload -Uz compinit; compinit -u -D; . $1/setup.zsh"
        zpty -w -n shell "$2$(print "\t\x18")"
        while zpty -t shell; do
            zpty -r -t shell said
            sleep 0.02
        done' zsh "$work" "$*"
    sort -u "$work/told" | paste -sd ' '
    rm -f "$work/told"
}

mkdir "$work/in" && cd "$work/in" && touch locks.db
. "$work/completion.bash"
for shell in bash zsh fish; do
    group $shell
    if ! command -v $shell >/dev/null; then
        [[ ! ${ROWLOCK_TEST_NO_SKIP:-} ]] || fail 'is not installed'
        continue
    fi
    is "$(ask_$shell rowlock wai)" waiters 'a command'
    is "$(ask_$shell rowlock help onc)" once 'help on a command'
    is "$(ask_$shell rowlock run --hold)" --hold-at-least 'an option'
    is "$(ask_$shell rowlock run list --cs)" '' 'a lock with the name of a command'
    is "$(ask_$shell rowlock run --on-busy s)" skip 'a value'
    is "$(ask_$shell rowlock migrate print --format go)" 'golang-migrate goose' 'values'
    is "$(ask_$shell rowlock migrate st)" status 'a word'
    is "$(ask_$shell rowlock run a -- --nonb)" '' 'no option of ours after --'
    has " $(ask_$shell rowlock run a -- tru) " ' true ' 'a program after --'
    is "$(ask_$shell rowlock run a -- cat lo)" locks.db 'its file'
    is "$(ask_$shell rowlock list --db lo)" locks.db 'a file'
done
summary
