/* SPDX-License-Identifier: MIT
 *
 *   proof_check FOLDER
 *
 * Judges the history of a run: all files FOLDER/history.*. Prints what was counted, one "word
 * number" on each line, then violations. Exit status 0: none; 1: some; 2: it could not be read. */
#include "check.h"

#include "rowlock/rowlock.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

static int add_files(struct check *check, const char *folder)
{
    char pattern[512];
    glob_t files;
    int failed = 0;

    snprintf(pattern, sizeof(pattern), "%s/history.*", folder);
    if (glob(pattern, 0, NULL, &files) != 0) {
        fprintf(stderr, "proof_check: no history in %s\n", folder);
        return -1;
    }
    for (size_t i = 0; i < files.gl_pathc && !failed; i++) {
        size_t n;
        const struct history_record *records = history_map(&n, files.gl_pathv[i]);

        failed = records == NULL || check_add(check, records, n) != 0;
        if (failed)
            fprintf(stderr, "proof_check: cannot read %s\n", files.gl_pathv[i]);
        else
            history_unmap(records, n);
    }
    globfree(&files);
    return failed ? -1 : 0;
}

static void print(const struct check_report *r)
{
    printf("records %llu\n", (unsigned long long)r->records);
    printf("grants %llu\n", (unsigned long long)r->grants);
    printf("checks %llu\n", (unsigned long long)r->checks);
    printf("takeovers %llu\n", (unsigned long long)r->takeovers);
    printf("lost %llu\n", (unsigned long long)r->lost);
    printf("guarded %llu\n", (unsigned long long)r->guarded);
    printf("fenced %llu\n", (unsigned long long)r->fenced);
    printf("refused %llu\n", (unsigned long long)r->refused);
    printf("unknown %llu\n", (unsigned long long)r->unknown);
    for (int i = 0; i < 256; i++)
        if (r->statuses[i] > 0)
            printf("failed %llu # %s\n", (unsigned long long)r->statuses[i],
                   rowlock_strstatus(i - 128));
    printf("violations %llu\n", (unsigned long long)r->violated);
    for (int i = 0; i < CHECK_KINDS; i++)
        if (r->violations[i] > 0)
            printf("*** %llu: %s\n", (unsigned long long)r->violations[i],
                   check_text((enum check_violation)i));
    for (uint64_t i = 0; i < r->violated && i < CHECK_MESSAGES; i++)
        printf("    %s\n", r->messages[i]);
}

int main(int argc, char **argv)
{
    struct check *check = check_new();
    struct check_report report;

    if (argc != 2 || check == NULL) {
        fprintf(stderr, "usage: proof_check FOLDER\n");
        return 2;
    }
    if (add_files(check, argv[1]) != 0)
        return 2;
    check_finish(&report, check);
    check_free(check);
    print(&report);
    return report.violated == 0 ? 0 : 1;
}
