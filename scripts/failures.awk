# SPDX-License-Identifier: MIT
#
# What failed, from a log of ctest's with the output of failed tests: for each such test the cases
# and their last lines, and the headlines of sanitizers; the last lines of one that says nothing of
# the kind. Short, so that it can stand at the end of a log of which only the end is kept.
#
#   awk -v most=40 -f scripts/failures.awk build/PRESET.tests.log

BEGIN { each = 12 } # lines of one test

function show(line) {
    if (shown++ < each && all++ < most)
        print "   " substr(line, 1, 200)
}

function keep(line) {
    kept[count++ % 4] = line
}

function show_kept(n, i) {
    for (i = (count < n ? 0 : count - n); i < count; i++)
        show("   " kept[i % 4])
    count = 0
}

function end_of_test() {
    if (test == "")
        return
    if (shown == 1)
        show_kept(4)
    if (shown > each)
        print "      (and more)"
    test = ""
}

# 54/67 Test #19: name ....***Failed  148.18 sec
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    end_of_test()
    if ($0 !~ /\*\*\*/ || $0 ~ /\*\*\*Skipped/)
        next
    test = $0
    sub(/^.*Test +#[0-9]+: /, "", test)
    shown = count = in_case = details = 0
    gsub(/ *\.+\*\*\*/, ": ", test)
    show(test)
    next
}
/^ +Start +[0-9]+: / || /^[0-9]+% tests passed/ { end_of_test() }
test == "" || /^ *$/ || /^ +#[0-9]+ / || /^=+$/ { next }

# cmocka says it again at the end of a group.
/^\[ RUN / { in_case = 1; count = 0; next }
/^\[  FAILED  \]/ {
    if (in_case) {
        show("  " $0)
        show_kept(3)
    }
    in_case = 0
    next
}
/^\[/ && !/^\[  ERROR   \]/ && !/^\[   LINE   \]/ { in_case = 0; next }

/^FAILED: / { show("  " $0); details = 3; next } # the scripts of tests/cli
/^    / && details > 0 { show("  " $0); details--; next }
/(ERROR|WARNING): [A-Za-z]+Sanitizer/ || /^SUMMARY: / || /: runtime error: / { show("  " $0); next }
{ keep($0) }

END { end_of_test() }
