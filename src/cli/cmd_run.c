/* SPDX-License-Identifier: MIT
 *
 * rowlock run: acquire, run a command, release. */
#include <string.h>

#include "job.h"

typedef struct busy {
    int nonblock;
    const char *policy; /* --on-busy */
} busy;

/* skip and fail try once, unless --wait says for how long. */
static int check_busy(cli_job *j, const busy *b)
{
    int skip = b->policy && strcmp(b->policy, "skip") == 0;
    int fail = b->policy && strcmp(b->policy, "fail") == 0;
    int wait = b->policy && strcmp(b->policy, "wait") == 0;

    if (b->policy && !skip && !fail && !wait)
        return cli_usage("--on-busy: '%.*s' is none of skip, wait and fail", cli_shown(b->policy),
                         b->policy);
    if (b->nonblock && j->wait_ms != ROWLOCK_FOREVER)
        return cli_usage("--nonblock and --wait exclude each other");
    if (b->nonblock && wait)
        return cli_usage("--nonblock and --on-busy wait exclude each other");
    if (skip && j->busy_status >= 0)
        return cli_usage("--conflict-exit-code and --on-busy skip exclude each other");
    if (b->nonblock || ((skip || fail) && j->wait_ms == ROWLOCK_FOREVER))
        j->wait_ms = 0;
    if (j->busy_status < 0)
        j->busy_status = skip ? CLI_OK : CLI_BUSY;
    if (skip && !j->verbose)
        j->busy_quiet = 1;
    return CLI_GO_ON;
}

static int cmd_run(const cli_command *self, int argc, char **argv)
{
    cli_job j = CLI_JOB_INIT;
    busy b = {.nonblock = 0};
    const cli_option options[] = {CLI_JOB_OPTIONS(j),
                                  {'t', "ttl", CLI_DURATION, &j.ttl_ms},
                                  {'n', "nonblock", CLI_FLAG, &b.nonblock},
                                  {'w', "wait", CLI_DURATION, &j.wait_ms},
                                  {0, "on-busy", CLI_TEXT, &b.policy},
                                  {0, "max-hold", CLI_DURATION, &j.max_hold_ms},
                                  {0, "hold-at-least", CLI_DURATION, &j.hold_at_least_ms},
                                  {0, "owner", CLI_TEXT, &j.owner},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON)
        result = cli_job_check(&j, self, &args);
    if (result == CLI_GO_ON)
        result = check_busy(&j, &b);
    return result == CLI_GO_ON ? cli_job_run(&j) : result;
}

const cli_command cli_run = {
    .name = "run",
    .summary = "run a command while holding a lock",
    .help = "usage: rowlock run [OPTION...] NAME -- COMMAND [ARG...]\n"
            "       rowlock run [OPTION...] NAME -c 'LINE FOR THE SHELL'\n"
            "\n"
            "Acquires the lock NAME, runs COMMAND, renews the lease meanwhile, and releases\n"
            "the lock. If it is lost COMMAND is ended before the lease: TERM, then KILL.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "  -t, --ttl DURATION   the lease: how long the lock outlives a crash (30s)\n"
            "  -n, --nonblock       give up at once if somebody else holds it\n"
            "  -w, --wait DURATION  give up after so long; default: wait for ever\n"
            "      --on-busy skip|wait|fail  skip: give up with status 0, silently; fail: -n\n"
            "  -E, --conflict-exit-code N    status when given up, instead of 75\n"
            "      --hold-at-least DURATION  keep it so long, even if COMMAND ends sooner\n"
            "      --max-hold DURATION       hold it no longer, and end COMMAND before\n"
            "      --kill-after DURATION     from TERM, or another signal, to KILL\n"
            "  -c, --command LINE   run /bin/sh -c LINE\n"
            "      --note TEXT      what is being done, shown by 'rowlock list'\n"
            "      --owner ID       hold it under this owner; the same owner may enter again\n"
            "      --pass-db        let COMMAND have the address as ROWLOCK_DB\n"
            "  -q, --quiet          say nothing when given up\n"
            "  -v, --verbose        say what happens\n"
            "      --prefix PREFIX, --schema SCHEMA   of the tables (rowlock_), and where\n"
            "\n"
            "Durations: 500ms, 30s, 5m, 1h30m; a bare number is seconds. COMMAND gets\n"
            "ROWLOCK_NAME, ROWLOCK_FENCE and ROWLOCK_OWNER; a run of NAME inside re-enters.\n"
            "Exit status: that of COMMAND, 128 + signal if it was killed; 64 usage;\n"
            "69 database not usable; 70 other error; 75 not acquired; 78 tables missing or\n"
            "of another version; 79 lock lost; 126 COMMAND cannot be run; 127 not found\n",
    .run = cmd_run,
};
