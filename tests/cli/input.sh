#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Help, version and bad input: one line, the documented status, nothing run, nothing created.
#     input.sh ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1
marker=$work/ran

group 'help'
expect 0 'version' "$rowlock" --version
yes_ 'version is a number' grep -Eqx 'rowlock [0-9]+\.[0-9]+\.[0-9]+' "$work/out"
expect 0 '--help' "$rowlock" --help
for sub in run once acquire renew release list show waiters top metrics reap migrate doctor fence-sql \
    bench completion; do
    has "$out" "  $sub " "--help names $sub"
done
help_fits() {
    expect 0 "$*" "$rowlock" "$@"
    has "$out" 'usage: rowlock ' "$*: usage"
    is "$err" '' "$*: nothing on stderr"
    yes_ "$*: fits a screen" test "$(wc -l <"$work/out")" -le 32
    yes_ "$*: fits 80 columns" test "$(wc -L <"$work/out")" -le 80
}
help_fits --help
help_fits help
for sub in run once acquire renew release list show waiters top metrics reap migrate doctor fence-sql \
    bench completion; do
    help_fits help "$sub"
    help_fits "$sub" --help
    help_fits "$sub" -h
done
has "$("$rowlock" run --local x -- echo --help --nonblock 2>&1)" '--help --nonblock' 'after -- nothing is ours'
if [[ -w /dev/full ]]; then
    expect 70 'full disk' bash -c '"$0" --help >/dev/full' "$rowlock"
fi
rm -rf "${work:?}/state"

# What stands before "--" is wrong, and the message has the part after "|".
group 'bad input'
long_name=$(printf 'n%.0s' {1..256})
long_64=$(printf 'n%.0s' {1..64})
export ROWLOCK_DB=local # what is wrong here is not the address
while IFS='|' read -r line part; do
    [[ $line ]] || continue
    eval "words=($line)"
    expect 64 "$line" "$rowlock" "${words[@]}"
    has "$err" "$part" "$line: message"
    is "$out" '' "$line: nothing on stdout"
done <<'TABLE'
|
frobnicate|unknown command 'frobnicate'
rnu|did you mean 'run'
lst|did you mean 'list'
--versoin|did you mean '--version'
migrat|did you mean 'migrate'
metric|did you mean 'metrics'
docter|did you mean 'doctor'
rap|did you mean 'reap'
help nothing|unknown command 'nothing'
--frob|unknown option --frob
--db x list|go after the command
run|no lock name
run -- touch "$marker"|no lock name
run a|after '--'
run a --|after '--'
run a touch "$marker"|write the command after
run a -c 'touch "$marker"' -- true|exclude each other
run a -c ''|-c: the line is empty
run -n --on-busy wait a -- touch "$marker"|exclude each other
run --on-busy never a -- touch "$marker"|'never' is none of skip, wait and fail
run --on-busy skip -E 1 a -- touch "$marker"|exclude each other
run -E 256 a -- touch "$marker"|between 0 and 255
run -E x a -- touch "$marker"|'x' is not a number
run -q -v a -- touch "$marker"|exclude each other
run --kill-after soon a -- touch "$marker"|'soon' is not a duration
run --hold-at-least 32d a -- touch "$marker"|31d or less
run --hold-at-least 2m --max-hold 1m a -- touch "$marker"|longer than --max-hold
run --ownr x a -- touch "$marker"|did you mean '--owner'
run --wa 5 a -- touch "$marker"|did you mean '--wait'
run --xx a -- touch "$marker"|unknown option --xx; see
once a -- touch "$marker"|give --every
once --every 0 a -- touch "$marker"|give --every
once --every 99ms a -- touch "$marker"|between 100ms and 31d
once --every 32d a -- touch "$marker"|between 100ms and 31d
once --every often a -- touch "$marker"|'often' is not a duration
once --every 1h -- touch "$marker"|no lock name
once --every 1h a|after '--'
once --every 1h --owner x a -- touch "$marker"|unknown option --owner
once --every 1h --wait 1s a -- touch "$marker"|unknown option --wait
once --every 1h --max-hold 1s a -- touch "$marker"|unknown option --max-hold
run a b -- touch "$marker"|'b' is one word too many
run '' -- touch "$marker"|1 to 255 bytes
run "$long_name" -- touch "$marker"|1 to 255 bytes
run --frob a -- touch "$marker"|unknown option --frob
run -x a -- touch "$marker"|unknown option -x
run -nx a -- touch "$marker"|unknown option -x
run --ttl|--ttl needs a value
run -t|-t needs a value
run --nonblock=yes a -- touch "$marker"|--nonblock takes no value
run --ttl 0 a -- touch "$marker"|between 50ms and 31d
run --ttl 49ms a -- touch "$marker"|between 50ms and 31d
run --ttl 32d a -- touch "$marker"|between 50ms and 31d
run --ttl=-5s a -- touch "$marker"|'-5s' is not a duration
run --ttl soon a -- touch "$marker"|'soon' is not a duration
run --ttl '' a -- touch "$marker"|'' is not a duration
run --ttl 5x a -- touch "$marker"|'5x' is not a duration
run --ttl 213503983d a -- touch "$marker"|'213503983d' is not a duration
run --ttl 5m1h a -- touch "$marker"|'5m1h' is not a duration
run --ttl 5s5s a -- touch "$marker"|'5s5s' is not a duration
run --ttl 1h30 a -- touch "$marker"|'1h30' is not a duration
run --ttl '5 s' a -- touch "$marker"|'5 s' is not a duration
run --ttl 1. a -- touch "$marker"|'1.' is not a duration
run --ttl 1e3 a -- touch "$marker"|'1e3' is not a duration
run --ttl 99999999999999999999 a -- touch "$marker"|is not a duration
run --wait never a -- touch "$marker"|'never' is not a duration
run --wait -1 a -- touch "$marker"|'-1' is not a duration
run --max-hold|--max-hold needs a value
run --max-hold ever a -- touch "$marker"|'ever' is not a duration
run --max-hold 0 a -- touch "$marker"|--max-hold must be 50ms or more
run --max-hold 49ms a -- touch "$marker"|--max-hold must be 50ms or more
run -n -w 1s a -- touch "$marker"|exclude each other
run --owner '' a -- touch "$marker"|--owner is empty
run --owner $'a\nb' a -- touch "$marker"|owner
run --note $'\xff' a -- touch "$marker"|note
run --prefix 'x"; DROP TABLE y; --' a -- touch "$marker"|prefix
run --prefix '' a -- touch "$marker"|prefix
run --schema 'a;b' a -- touch "$marker"|schema
run --db '' a -- touch "$marker"|--db is empty
run --db oracle://scott:tiger@db/x a -- touch "$marker"|unknown kind of database 'oracle'; known are postgresql://, mysql://, mariadb:// and sqlite:
run --db http://x a -- touch "$marker"|unknown kind of database 'http'
run --db postgresql:x a -- touch "$marker"|must start with postgresql://
run --db mysql:/x a -- touch "$marker"|must start with mysql://
list extra|takes options only
list --frob|unknown option --frob
list --ttl 5s|unknown option --ttl
list --json --csv|exclude each other
list --jsn|did you mean '--json'
acquire|no lock name
acquire a b|'b' is one word too many
acquire a -- touch "$marker"|runs no command
acquire --ttl 1ms a|between 50ms and 31d
acquire -n -w 1s a|exclude each other
acquire --owner '' a|--owner is empty
acquire -E 256 a|between 0 and 255
renew a|give --owner and --fence
renew --fence 1 a|give --owner and --fence
renew --owner x a|give --owner and --fence
renew --owner x --fence 0 a|'0' is not a fence
renew --owner x --fence -1 a|'-1' is not a fence
renew --owner x --fence 9223372036854775808 a|is not a fence
renew --owner x --fence 1x a|'1x' is not a fence
renew --owner x --fence 1 --ttl 1ms a|between 50ms and 31d
renew --owner x --fence 1|no lock name
release a|give --owner and --fence
release --yes --owner x --fence 1 a|--yes belongs to --force
release --force --yes --owner x a|exclude each other
release --force --yes|no lock name
release --force --yes a -- x|runs no command
release --ttl 1s --owner x --fence 1 a|unknown option --ttl
releas a|did you mean 'release'
show|no lock name
show a b|one word too many
show a -- x|runs no command
show --csv a|unknown option --csv
top|needs a terminal
top extra|takes options only
top -i 99ms|between 100ms and 1h
top -i often|'often' is not a duration
completion|give one of bash, zsh and fish
completion bash zsh|give one of bash, zsh and fish
completion tcsh|unknown shell 'tcsh'
completion --db x bash|unknown option --db
waiters extra|takes options only
waiters --csv|unknown option --csv
list -- x|takes options only
doctor extra|takes options only
doctor --csv|unknown option --csv
metrics extra|takes options only
metrics -- x|takes options only
metrics --frob|unknown option --frob
metrics --json|unknown option --json
metrics --db ''|--db is empty
metrics --db oracle://scott:tiger@db/x|unknown kind of database 'oracle'
metrics --prefix 'a b'|prefix
metrics --schema 'a;b'|schema
metrics --label|--label needs a value
metrics --label shop|--label: give NAME=VALUE
metrics --label ''|--label: give NAME=VALUE
metrics --label =shop|--label: give NAME=VALUE
metrics --label 1a=shop|--label: give NAME=VALUE
metrics --label __name=shop|--label: give NAME=VALUE
metrics --label 'a b=shop'|--label: give NAME=VALUE
metrics --label $'a=b\nc'|--label: the value has control characters
metrics --label $'a=\xff'|or is not UTF-8
reap extra|takes options only
reap -- x|takes options only
reap --frob|unknown option --frob
reap --retention|--retention needs a value
reap --retention soon|'soon' is not a duration
reap --retention 0|--retention must be 1s or more
reap --retention 999ms|--retention must be 1s or more
reap --retention -1d|'-1d' is not a duration
reap --limit|--limit needs a value
reap --limit 0|--limit must be 1 or more
reap --limit -1|'-1' is not a number
reap --limit all|'all' is not a number
reap --limit 99999999999|'99999999999' is not a number
reap --prefix 'a b'|prefix
bench extra|takes options only
bench -- x|takes options only
bench --frob|unknown option --frob
bench --time|--time needs a value
bench --time soon|'soon' is not a duration
bench --time 999ms|--time must be between 1s and 10m
bench --time 11m|--time must be between 1s and 10m
bench --prefix 'a b'|prefix
migrate|up, down, status, print
migrate up down|up, down, status, print
migrate sideways|unknown 'migrate sideways'
migrate up --to many|'many' is not a number
migrate up --to -1|'-1' is not a number
migrate status --to 1|--to belongs to
migrate print --to 1|--to belongs to
migrate up --format goose|belong to 'rowlock migrate print'
migrate print --dialect oracle|unknown dialect 'oracle'
migrate print --dialect sqlite --format liquibase|unknown format 'liquibase'
migrate print --dialect sqlite --output "$work"|need a --format
migrate print --dialect sqlite --format goose --as 0|--as: '0' is not a number
migrate print --dialect sqlite --format goose --as 1x|--as: '1x' is not a number
migrate print --dialect sqlite --prefix 'a b'|prefix
migrate print --dialect sqlite --schema main|schema
fence-sq|did you mean 'fence-sql'
fence-sql|give --table and --column
fence-sql --dialect sqlite --table t|give --table and --column
fence-sql --dialect sqlite --column c|give --table and --column
fence-sql --table t --column c --dialect oracle|unknown dialect 'oracle'
fence-sql --table t --column c --dialect ''|unknown dialect ''
fence-sql --table t --column c -d oracle://u:p@h/d|unknown kind of database 'oracle'
fence-sql --table t --column c -d ''|--db is empty
fence-sql --table t --column c --dialect sqlite x|takes options only
fence-sql --table t --column c --dialect sqlite -- x|takes options only
fence-sql --table t --column c --dialect sqlite --trigger=yes|takes no value
fence-sql --table t --column c --dialect sqlite --prefix x|unknown option --prefix
fence-sql --table '' --column c --dialect sqlite|--table: a name is empty
fence-sql --table t --column '' --dialect sqlite|--column: a name is empty
fence-sql --table .t --column c --dialect sqlite|--table: a name is empty
fence-sql --table s. --column c --dialect sqlite|--table: a name is empty
fence-sql --table a.b.c --column c --dialect sqlite|with one dot
fence-sql --table $'a\nb' --column c --dialect sqlite|--table: a name has control characters
fence-sql --table $'a\nb.t' --column c --dialect sqlite|--table: a name has control characters
fence-sql --table t --column $'a\x7f' --dialect mysql|--column: a name has control characters
fence-sql --table t --column $'a\xc2\x85' --dialect mysql|--column: a name has control characters
fence-sql --table t --column $'a\xff' --dialect postgresql|--column: a name has control characters or is not UTF-8
fence-sql --table "$long_64" --column c --dialect postgresql|--table: a name is too long; it may have 63 bytes
fence-sql --table "${long_64}n" --column c --dialect mysql|--table: a name is too long; it may have 64 characters
fence-sql --table "s.${long_64}n" --column c --dialect mysql|--table: a name is too long; it may have 64 characters
fence-sql --table t --column "$long_name" --dialect sqlite|--column: a name is too long; it may have 255 bytes
fence-sql --table "$long_name$long_name$long_name$long_name" --column c --dialect sqlite|--table: a name is too long
TABLE
unset ROWLOCK_DB
for words in 'migrate print' 'fence-sql --table t --column c'; do
    # shellcheck disable=SC2086 # a list of words
    expect 64 "$words" "$rowlock" $words
    has "$err" 'give --dialect' "$words"
    is "$out" '' "$words: nothing on stdout"
done
expect 64 'no command' "$rowlock"
expect 64 'ROWLOCK_DB is empty' env ROWLOCK_DB= "$rowlock" list
expect 64 'no HOME' env -u XDG_STATE_HOME -u HOME "$rowlock" list --local
no_ 'no command was run' test -e "$marker"

group 'secrets'
for address in oracle://u:sEcret@h/d postgresql://u:sEcret@127.0.0.1:1/d mysql://u:sEcret@127.0.0.1:1/d \
    'host=127.0.0.1 port=1 password=sEcret' 'host=127.0.0.1 prot=1 password=sEcret' \
    mysql://u:sEcret@127.0.0.1:port/d postgresql://u:sEcret@127.0.0.1:port/d \
    postgresql://u:x@sEcret/y@127.0.0.1:1/d 'postgresql://u:x?sEcret@127.0.0.1:1/d' \
    'postgresql://127.0.0.1:1/d?password=sEcret' 'postgresql://127.0.0.1:1/d?user=a@b&password=sEcret' \
    postgresql://u:sEcret "host=127.0.0.1 port=1 password='x host=sEcret'" \
    'host=127.0.0.1 port=1 password = host=sEcret'; do
    call env ROWLOCK_DB="$address" "$rowlock" run a -- touch "$marker"
    one_line "${address%%:*}"
    yes_ "fails: ${address%%:*}" test "$status" -ge 64
    no_ "${address%%:*}: no password" grep -q sEcret "$work/err" "$work/out"
    call env ROWLOCK_DB="$address" "$rowlock" doctor
    no_ "doctor: ${address%%:*}: no password" grep -q sEcret "$work/err" "$work/out"
done
call "$rowlock" doctor --db postgresql://u:sEcret@127.0.0.1:1,[::1]:1/shop
has "$out" 'postgresql://127.0.0.1:1,[::1]:1/shop' 'the database is named'
call "$rowlock" doctor --db 'host=127.0.0.1 port=1 dbname=shop password=sEcret'
has "$out" 'postgresql: host=127.0.0.1 port=1 dbname=shop' 'the database is named'
for words in '--db=@ list' '-d@ list' '@' 'run a @ -- true' 'migrate @' 'migrate print --dialect @' \
    'fence-sql --table t --column c --dialect @' 'fence-sql @'; do
    # shellcheck disable=SC2086 # a list of words
    expect 64 "misplaced: $words" "$rowlock" ${words//@/postgresql://u:sEcret@h/d}
    no_ "$words: no password" grep -q sEcret "$work/err" "$work/out"
done
no_ 'no command was run' test -e "$marker"
summary
