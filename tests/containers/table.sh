# SPDX-License-Identifier: MIT
#
# What was run, for ./run: the table on the screen and the record in a file; source it.
# shellcheck shell=bash disable=SC2154

rows=
version=

# record DATABASE SUITE PASSED FAILED SKIPPED SECONDS
record() {
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$version" "$2" "$3" "$4" "$5" "$6" \
        "$(date -u +%F)" >>"$rows"
    printf '   %-24s %-13s %5s passed %3s failed %3s skipped %5s s\n' "$1" "$2" "$3" "$4" "$5" "$6"
    [ "$4" = 0 ] || grep -aE '\[  FAILED  \] [a-z]|\*\*\*(Failed|Timeout|Exception)' \
        "$logs/$1.$2.log" | sort -u | head -n 20 | sed 's/^/      /'
}

# skip DATABASE REASON: loudly. The reason stands in the place of the version.
skip() {
    say "SKIPPED $1: $2"
    version=$2
    record "$1" "(not run)" 0 0 1 0
}

# print_table ROWS...
print_table() {
    say "containers"
    awk -F '\t' '
        BEGIN { form = "%-24s %-13s %7s %7s %8s %8s\n"
                printf form, "database", "suite", "passed", "failed", "skipped", "seconds" }
        { printf form, $1, $3, $4, $5, $6, $7; for (i = 4; i <= 7; i++) sum[i] += $i }
        $3 == "(not run)" { skipped = skipped "SKIPPED  " $1 ": " $2 "\n" }
        END { printf form, "total", "", sum[4], sum[5], sum[6], sum[7]; printf "%s", skipped }' "$@"
}

# What was run replaces what the record has of the same database and suite.
write_results() {
    grep -E '^\| [a-z0-9.-]+ \| ' "$results" 2>/dev/null | grep -v '^| database' >"$dir/old" || true
    {
        cat "$containers/results.head.md"
        awk -F '\t' '
            FNR == NR && NF > 1 {
                if ($3 != "(not run)")
                    line[$1 " | " $3] = "| " $1 " | " $3 " | " $2 " | " $4 " | " $5 " | " $6 " | " $7 " | " $8 " |"
                next
            }
            {
                split($0, f, " [|] ")
                sub(/^[|] /, "", f[1])
                key = f[1] " | " f[2]
                if (!(key in line))
                    line[key] = $0
            }
            END { for (key in line) print line[key] }' "$rows" "$dir/old" | sort
    } >"$dir/new"
    mv "$dir/new" "$results"
}

# table_status ROWS...: 1 if a case failed, 77 if none was run.
table_status() {
    awk -F '\t' '{ failed += $5; passed += $4 }
                 END { exit failed > 0 ? 1 : passed > 0 ? 0 : 77 }' "$@"
}
