/* SPDX-License-Identifier: MIT
 *
 * rowlock: the subcommands and what stands around them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const cli_command *const cli_commands[] = {
    &cli_run,    &cli_once,    &cli_acquire, &cli_renew,      &cli_release, &cli_list,
    &cli_show,   &cli_waiters, &cli_top,     &cli_metrics,    &cli_reap,    &cli_migrate,
    &cli_doctor, &cli_fence,   &cli_bench,   &cli_completion, NULL};

static int print_help(void)
{
    fputs("rowlock: locks across processes and machines, kept in a table of your database\n"
          "\n"
          "usage: rowlock COMMAND [OPTION...]\n"
          "\n",
          stdout);
    for (int i = 0; cli_commands[i]; i++)
        printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("  help       help on a command: rowlock help run\n"
          "\n"
          "  rowlock --version    rowlock --help\n"
          "\n"
          "The database: --db ADDRESS or the environment's ROWLOCK_DB, one of\n"
          "  postgresql://user@host:5432/db   or   'host=db dbname=shop'\n"
          "  mysql://user@host:3306/db        (MariaDB, too)\n"
          "  sqlite:path                      or   path\n"
          "  local, the same as --local       a file for this user on this host alone\n"
          "\n"
          "Exit status: 0 done; 64 usage; 69 database not usable; 70 other error; 75 lock\n"
          "not acquired; 78 tables missing or of another version; 79 lock lost.\n",
          stdout);
    return CLI_OK;
}

static const cli_command *find(const char *name)
{
    for (int i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *nearest = NULL;
    int best = 3;

    for (int i = 0; cli_commands[i]; i++) {
        int d = cli_distance(name, cli_commands[i]->name);

        if (d < best) {
            best = d;
            nearest = cli_commands[i]->name;
        }
    }
    if (nearest)
        return cli_usage("unknown command '%s'; did you mean '%s'?", name, nearest);
    return cli_usage("unknown command '%.*s'; see 'rowlock --help'", cli_shown(name), name);
}

static int unknown_option(const char *option)
{
    if (cli_distance(option, "--version") < 3)
        return cli_usage("unknown option %s; did you mean '--version'?", option);
    if (cli_distance(option, "--help") < 3)
        return cli_usage("unknown option %s; did you mean '--help'?", option);
    return cli_usage("unknown option %.*s; options go after the command, see 'rowlock --help'",
                     option[1] == '-' ? cli_shown(option) : 2, option);
}

static int help_on(const char *name)
{
    const cli_command *command = find(name);

    if (!command)
        return unknown_command(name);
    fputs(command->help, stdout);
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    const cli_command *command;

    if (argc < 2)
        return cli_usage("no command given; see 'rowlock --help'");
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("rowlock %d.%d.%d\n", ROWLOCK_VERSION_MAJOR, ROWLOCK_VERSION_MINOR,
               ROWLOCK_VERSION_PATCH);
        return CLI_OK;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2)
        return help_on(argv[2]);
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0)
        return print_help();
    if (argv[1][0] == '-')
        return unknown_option(argv[1]);
    command = find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    return command->run(command, argc - 2, argv + 2);
}

/* The number of a standard stream that is closed would be that of the next connection, and messages
 * would be written into it. What is put there fails as a closed one does, and commands find it
 * closed. */
static void take_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    int status;

    take_closed_streams();
    status = dispatch(argc, argv);

    if (fflush(stdout) != 0 || ferror(stdout)) {
        cli_message("cannot write the output: %s", strerror(errno));
        return status == CLI_OK ? CLI_OTHER : status;
    }
    return status;
}
