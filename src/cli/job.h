/* SPDX-License-Identifier: MIT
 *
 * A command under a lock: what `rowlock run` and `rowlock once` have in common. */
#ifndef ROWLOCK_CLI_JOB_H
#define ROWLOCK_CLI_JOB_H

#include "cli.h"

#define CLI_NOT_GIVEN ((int64_t)-1) /* a duration */

typedef struct cli_job {
    cli_db db;
    int64_t ttl_ms, wait_ms;
    int64_t max_hold_ms, kill_after_ms; /* or CLI_NOT_GIVEN */
    int64_t hold_at_least_ms;           /* 0: until the command ends */
    int64_t every_ms;                   /* once in each period of that length; 0: any time */
    int busy_status;                    /* what to exit with if it was not acquired */
    int busy_quiet;                     /* and say nothing of it */
    int verbose, pass_db;
    int retry; /* a command that fails does not use its period up */
    const char *note, *owner, *name;
    char shown[4 * ROWLOCK_NAME_MAX + 1]; /* the name in messages */
    const char *line;                     /* -c */
    char **command;
    char *shell[4];
    char inner[ROWLOCK_OWNER_MAX + 1]; /* owner, of a run inside another */
    cli_held held;                     /* once it is */
} cli_job;

#define CLI_JOB_INIT                                                               \
    {                                                                              \
        .ttl_ms = 30000, .wait_ms = ROWLOCK_FOREVER, .max_hold_ms = CLI_NOT_GIVEN, \
        .kill_after_ms = CLI_NOT_GIVEN, .busy_status = -1                          \
    }

#define CLI_JOB_OPTIONS(job)                                                                       \
    CLI_DB_OPTIONS((job).db), {'c', "command", CLI_TEXT, &(job).line},                             \
        {'E', "conflict-exit-code", CLI_NUMBER, &(job).busy_status},                               \
        {'q', "quiet", CLI_FLAG, &(job).busy_quiet}, {'v', "verbose", CLI_FLAG, &(job).verbose},   \
        {0, "kill-after", CLI_DURATION, &(job).kill_after_ms}, {0, "note", CLI_TEXT, &(job).note}, \
    {                                                                                              \
        0, "pass-db", CLI_FLAG, &(job).pass_db                                                     \
    }

/* Takes name and command from what is no option, and checks what the options said. CLI_GO_ON or
 * CLI_USAGE. */
int cli_job_check(cli_job *job, const cli_command *self, const cli_args *args);

/* Acquires, runs, releases. The exit status. */
int cli_job_run(cli_job *job);

/* ---- holding on (job_hold.c) ----------------------------------------------------------------- */

/* For how long the lock is kept whatever the command does. Milliseconds of cli_now_ms(). */
typedef struct cli_tail {
    int64_t until; /* 0: not beyond the command's end */
} cli_tail;

/* Sets it, right after the lock was acquired; `before` is cli_now_ms() from before. With every_ms
 * the lease is extended to the end of the period, so that it ends there even if we are killed.
 * CLI_GO_ON, or an exit status: the command must not be started. */
int cli_tail_start(cli_tail *tail, const cli_job *job, rowlock_lock *lock, int64_t before);

enum cli_tail_end {
    CLI_TAIL_RELEASE, /* it has been kept for long enough */
    CLI_TAIL_DETACH,  /* the lease keeps it for the rest of the time, or must because of a signal */
    CLI_TAIL_LOST     /* it was, meanwhile */
};

/* After the command, which ended with that status: returns when something is to be done. */
enum cli_tail_end cli_tail_wait(const cli_tail *tail, const cli_job *job, rowlock_lock *lock,
                                int status);

#endif
