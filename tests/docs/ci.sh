#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/ci.md, as it is written: the lines of the jobs are run as the runners do it.
#     ci.sh ROWLOCK postgresql|mysql|sqlite
. "$(dirname "$0")/page.sh" || exit 1
in_page rowlock migrate up >/dev/null
cat >"$page/deploy.sh" <<'END'
#!/bin/sh
echo "deploy begins"
[ ! -e slow ] || sleep 60
echo "deploy ends"
END
echo 'echo tested' >"$page/acceptance-tests.sh"
chmod +x "$page"/*.sh

# steps KEY FILE: the list under a key.
steps() {
    sed -n "/^  $1:/,/^  [a-z]/s/^    - //p" "$page/$2"
}

# gitlab FILE: a job, with its after_script in a shell of its own.
gitlab() {
    steps script "$1" >"$work/script"
    steps after_script "$1" >"$work/after"
    in_page CI_PROJECT_PATH=shop/web CI_PIPELINE_ID=7 bash -e -o pipefail "$work/script"
    local rc=$?
    in_page bash -e -o pipefail "$work/after" || echo "after_script: $?"
    return $rc
}

github() {
    sed -n 's/^  run: //p' "$page/github-step.yml" >"$work/step"
    in_page GITHUB_REPOSITORY=shop/web GITHUB_RUN_ID=8 bash -c 'echo $$ >shell; exec bash -e "$0"' "$work/step"
}

note() {
    in_page rowlock list --csv | grep -qF "$1"
}

group 'one command'
for step in 'gitlab gitlab-ci.yml' github 'block 1'; do
    call $step
    is "$status$out" $'0deploy begins\ndeploy ends' "$step: $err"
done
touch "$page/slow"
github >"$work/slow.out" 2>&1 &
pids+=($!)
until_ 'seen by its note' note 'shop/web 8' && pass
group 'cancelled'
kill -INT "$(<"$page/shell")"
joined "${pids[-1]}"
is "$status" 130 'the step ends'
is "$(in_page rowlock list --csv | wc -l)" 1 'the lock is free at once'
rm "$page/slow"

group 'several steps'
call gitlab gitlab-steps.yml
is "$status$out" $'0deploy begins\ndeploy ends\ntested' "the job: $err"
is "$(in_page rowlock list --csv | wc -l)" 1 'the lock is free'
cat >"$page/deploy.sh" <<'END'
#!/bin/sh
rowlock release --force --yes staging
END
call gitlab gitlab-steps.yml
is "$status" 79 'a lock that is lost ends the job'
no_ 'and nothing is tested' grep -q tested <<<"$out"
has "$out" 'after_script: 79' 'the release says so, too'
finished
