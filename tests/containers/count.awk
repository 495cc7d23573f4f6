# SPDX-License-Identifier: MIT
#
# What ctest -V says of its tests, counted in cases: "passed failed skipped". A test that does not
# count its cases, or fails without one that failed, is a case itself.

function number(line) {
    sub(/^[0-9]+: \[[ A-Z]*\] */, "", line)
    return line + 0
}

/^[0-9]+: \[  PASSED  \] [0-9]+ test/ { cases[$1 + 0] = 1; passed += number($0) }
/^[0-9]+: \[  SKIPPED \] [0-9]+ test/ { cases[$1 + 0] = 1; skipped += number($0) }
/^[0-9]+: \[  FAILED  \] [0-9]+ test/ { cases[$1 + 0] = bad[$1 + 0] = 1; failed += number($0) }

# Scripts that are no tests of ctest.
/^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3 }

/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    match($0, /#[0-9]+/)
    id = substr($0, RSTART + 1, RLENGTH - 1) + 0
    if ($0 ~ / Passed /)
        passed += !(id in cases)
    else if ($0 ~ /\*\*\*Skipped/)
        skipped += !(id in cases)
    else
        failed += !(id in bad)
}

END { print passed + 0, failed + 0, skipped + 0 }
