/* SPDX-License-Identifier: MIT
 *
 * rowlock once: a command at most once in each period, on whichever host comes first. */
#include "job.h"

#define EVERY_MIN_MS ((int64_t)100)

/* The lease of a command that outlives its period. While it is in it, the lease lasts as long as
 * the period does. A longer one than the period costs nothing but a process that waits. */
static int64_t lease_of(int64_t every_ms)
{
    return every_ms < 5000 ? 5000 : every_ms > 30000 ? 30000 : every_ms;
}

static int check_every(cli_job *j)
{
    if (j->every_ms == 0)
        return cli_usage("give --every, like --every 1h");
    if (j->every_ms < EVERY_MIN_MS || j->every_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--every must be between 100ms and 31d");
    j->ttl_ms = lease_of(j->every_ms);
    j->wait_ms = 0;
    if (j->busy_status < 0) {
        j->busy_status = CLI_OK;
        j->busy_quiet |= !j->verbose;
    }
    return CLI_GO_ON;
}

static int cmd_once(const cli_command *self, int argc, char **argv)
{
    cli_job j = CLI_JOB_INIT;
    const cli_option options[] = {CLI_JOB_OPTIONS(j),
                                  {0, "every", CLI_DURATION, &j.every_ms},
                                  {0, "retry", CLI_FLAG, &j.retry},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON)
        result = cli_job_check(&j, self, &args);
    if (result == CLI_GO_ON)
        result = check_every(&j);
    return result == CLI_GO_ON ? cli_job_run(&j) : result;
}

const cli_command cli_once = {
    .name = "once",
    .summary = "run a command at most once per period on all hosts together",
    .help = "usage: rowlock once --every PERIOD [OPTION...] NAME -- COMMAND [ARG...]\n"
            "       rowlock once --every PERIOD [OPTION...] NAME -c 'LINE FOR THE SHELL'\n"
            "\n"
            "Runs COMMAND if it has not been run yet under this NAME in this period, by\n"
            "anybody; else does nothing, with status 0 and no word. Periods are counted by\n"
            "the clock of the database from 1970-01-01 00:00 UTC on: with --every 1h one\n"
            "begins at each full hour, UTC.\n"
            "\n"
            "A command that fails, or is killed, has been run, also if its host dies (but\n"
            "see --retry). One that does not start (126, 127) has not. One that outlives its\n"
            "period is alone: calls do nothing until it ends, and the next one after that\n"
            "runs it for the period which that call is in.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --every PERIOD   100ms to 31d; all calls with one NAME give the same\n"
            "      --retry          a command that fails does not use its period up\n"
            "  -E, --conflict-exit-code N  status when there was nothing to do, instead of 0\n"
            "      --kill-after DURATION   from TERM, or another signal, to KILL\n"
            "  -c, --command LINE   run /bin/sh -c LINE\n"
            "      --note TEXT      what is being done, shown by 'rowlock list'\n"
            "      --pass-db        let COMMAND have the address as ROWLOCK_DB\n"
            "  -q, --quiet          no word with -E, either\n"
            "  -v, --verbose        say what happens\n"
            "      --prefix PREFIX, --schema SCHEMA   of the tables (rowlock_), and where\n"
            "\n"
            "In a crontab on every host:\n"
            "  5 * * * *  rowlock once --every 1h report -- make-report\n"
            "Exit status: as of 'rowlock run'.\n",
    .run = cmd_once,
};
