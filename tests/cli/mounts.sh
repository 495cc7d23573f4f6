#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SQLite, and what mounts and links do to a file or to /proc: one file under two names must not be two
# locks. Mounts are made in a mount namespace of their own, as a container has one.
#     mounts.sh ROWLOCK
. "$(dirname "$0")/lib.sh" || exit 1
rowlock=$1
data=$work/data
db=$data/locks.db
mkdir "$data" "$work/app" "$work/folder"

# inside MOUNTS COMMAND...: the command, after these shell commands, where nobody else sees mounts.
namespace=()
for try in 'unshare -r -m' 'unshare -m'; do
    # shellcheck disable=SC2086 # a list of words
    if $try true; then
        read -ra namespace <<<"$try"
        break
    fi
done
((${#namespace[@]} > 0)) || skip 'no mount namespace can be made here'
inside() {
    local mounts=$1
    shift
    "${namespace[@]}" bash -c "set -e; $mounts; exec \"\$@\"" inside "$@"
}
yes_ 'a mount namespace works' inside "mount --bind '$data' '$work/folder'" test -d "$work/folder"

# Somebody holds the lock `a` under the file's own name.
expect 0 'tables' "$rowlock" migrate up --db "$db"
"$rowlock" run --db "$db" a -- sh -c 'touch "$0"; exec sleep 60' "$work/held" 2>"$work/holder.err" &
holder=$!
pids+=("$holder")
until_ 'the holder' test -e "$work/held"
expect 75 'is held' "$rowlock" run --db "$db" -n a -- true

group 'the file is a mount point'
touch "$work/app/locks.db"
bind="mount --bind '$db' '$work/app/locks.db'"
expect 69 'is refused' inside "$bind" "$rowlock" run --db "$work/app/locks.db" -n a -- touch "$work/taken"
has "$err" 'mount the folder' 'says what to do'
no_ 'no second holder' test -e "$work/taken"
expect 69 'doctor' inside "$bind" "$rowlock" doctor --db "$work/app/locks.db"
has "$out" 'mount the folder' 'doctor names it'
ln -s "$work/app/locks.db" "$work/link.db"
expect 69 'behind a symbolic link' inside "$bind" "$rowlock" run --db "$work/link.db" -n a -- true

group 'the folder is a mount point'
bind="mount --bind '$data' '$work/folder'"
expect 75 'excludes' inside "$bind" "$rowlock" run --db "$work/folder/locks.db" -n a -- true
expect 0 'works' inside "$bind" "$rowlock" run --db "$work/folder/locks.db" -n b -- true
ln -s "$db" "$work/symbolic.db"
expect 75 'so does a symbolic link' "$rowlock" run --db "$work/symbolic.db" -n a -- true

group 'a boot id that is not the kernel'"'"'s'
# As LXC, Incus and systemd-nspawn give one to each container: it looks as if the host had been restarted.
cat /proc/sys/kernel/random/uuid >"$work/boot_id"
bind="mount --bind '$work/boot_id' /proc/sys/kernel/random/boot_id"
expect 69 'is refused' inside "$bind" "$rowlock" run --db "$db" -n a -- touch "$work/taken"
has "$err" 'boot_id' 'says why'
expect 69 'the same one as well' inside "cat /proc/sys/kernel/random/boot_id >'$work/boot_id'; $bind" \
    "$rowlock" run --db "$db" -n b -- true
expect 69 'doctor' inside "$bind" "$rowlock" doctor --db "$db"
has "$out" 'boot_id' 'doctor names it'
no_ 'no second holder' test -e "$work/taken"
expect 75 'it is held still' "$rowlock" run --db "$db" -n a -- true
expect 69 'no /proc/sys' inside 'mount -t tmpfs none /proc/sys' "$rowlock" run --db "$db" -n a -- true
has "$err" 'boot_id' 'says why'

group 'hard links'
ln "$db" "$work/hard.db"
for name in "$work/hard.db" "$db"; do
    expect 69 "$name is refused" "$rowlock" run --db "$name" -n a -- touch "$work/taken"
    has "$err" 'hard link' 'says why'
done
no_ 'no second holder' test -e "$work/taken"
expect 69 'doctor' "$rowlock" doctor --db "$work/hard.db"
has "$out" 'hard link' 'doctor names it'
rm "$work/hard.db"
expect 75 'once it is gone' "$rowlock" run --db "$db" -n a -- true
summary
