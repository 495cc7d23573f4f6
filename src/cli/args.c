/* SPDX-License-Identifier: MIT
 *
 * Options by table. getopt_long() is not used: it prints messages of its own shape, and it cannot
 * tell what stands before "--" from what stands after it. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct parser {
    const cli_command *command;
    const cli_option *options;
    char **argv;
    int argc, next; /* the argument to be read next */
} parser;

static int set_number(int *out, const char *shown, const char *value)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || number > INT_MAX)
        return cli_usage("%s: '%s' is not a number", shown, value);
    *out = (int)number;
    return CLI_GO_ON;
}

static int set_fence(uint64_t *out, const char *shown, const char *value)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || number < 1 || number > INT64_MAX)
        return cli_usage("%s: '%s' is not a fence", shown, value);
    *out = number;
    return CLI_GO_ON;
}

/* Everybody on the machine can see the arguments of a process. An address that may have a password
 * in it is copied, and of the original only its scheme is left. The copy lives as long as we do. */
static const char *hidden(char *value)
{
    static char *copies[8];
    static size_t count;
    char *copy;

    if (!strchr(value, '@') && !strstr(value, "pass"))
        return value;
    copy = count < sizeof(copies) / sizeof(copies[0]) ? strdup(value) : NULL;
    if (!copy)
        return value;
    copies[count++] = copy;
    for (char *c = value + strcspn(value, ":= "); *c; c++)
        *c = *c == ':' || *c == '/' ? *c : 'x';
    return copy;
}

static int set(const cli_option *option, const char *shown, char *value)
{
    switch (option->kind) {
    case CLI_FLAG:
        *(int *)option->value = 1;
        return CLI_GO_ON;
    case CLI_TEXT:
        *(const char **)option->value = value;
        return CLI_GO_ON;
    case CLI_SECRET:
        *(const char **)option->value = hidden(value);
        return CLI_GO_ON;
    case CLI_NUMBER:
        return set_number(option->value, shown, value);
    case CLI_FENCE:
        return set_fence(option->value, shown, value);
    case CLI_DURATION:
        if (cli_duration(option->value, value) != 0)
            return cli_usage("%s: '%s' is not a duration like 500ms, 30s, 5m or 1h30m", shown,
                             value);
        return CLI_GO_ON;
    }
    return CLI_OTHER;
}

/* The value that follows as an argument of its own. */
static int set_from_next(parser *p, const cli_option *option, const char *shown)
{
    if (p->next == p->argc)
        return cli_usage("%s needs a value", shown);
    return set(option, shown, p->argv[p->next++]);
}

/* `shown` has its dashes. The start of a name is as near as it can be. */
static int unknown(const parser *p, const char *shown)
{
    const char *nearest = NULL;
    int n = shown[1] == '-' ? (int)strlen(shown + 2) : 0;
    int best = n < 3 ? n : 3;

    for (const cli_option *option = p->options; option->name && n > 0; option++) {
        int starts = strncmp(option->name, shown + 2, (size_t)n) == 0;
        int d = starts ? 0 : cli_distance(shown + 2, option->name);

        if (d < best) {
            best = d;
            nearest = option->name;
        }
    }
    if (nearest)
        return cli_usage("unknown option %s; did you mean '--%s'?", shown, nearest);
    return cli_usage("unknown option %s; see 'rowlock %s --help'", shown, p->command->name);
}

/* "--ttl 5s", "--ttl=5s", "--nonblock" */
static int parse_long(parser *p, char *argument)
{
    char *value = strchr(argument, '=');
    const cli_option *option = p->options;

    if (value)
        *value++ = '\0';
    while (option->name && strcmp(option->name, argument + 2) != 0)
        option++;
    if (!option->name)
        return unknown(p, argument);
    if (option->kind == CLI_FLAG && value)
        return cli_usage("%s takes no value", argument);
    if (option->kind == CLI_FLAG || value)
        return set(option, argument, value);
    return set_from_next(p, option, argument);
}

/* "-t 5s", "-t5s", "-n", "-nt5s" */
static int parse_letters(parser *p, char *argument)
{
    int result = CLI_GO_ON;

    for (char *letter = argument + 1; *letter && result == CLI_GO_ON; letter++) {
        const char shown[3] = {'-', *letter, '\0'};
        const cli_option *option = p->options;

        while (option->name && option->letter != *letter)
            option++;
        if (!option->name)
            return unknown(p, shown);
        if (option->kind != CLI_FLAG)
            return letter[1] ? set(option, shown, letter + 1) : set_from_next(p, option, shown);
        result = set(option, shown, NULL);
    }
    return result;
}

/* Set while somebody wants to know the options. */
static struct {
    cli_describe_fn fn;
    void *payload;
} listener;

void cli_describe(const cli_command *command, cli_describe_fn fn, void *payload)
{
    listener.fn = fn;
    listener.payload = payload;
    command->run(command, 0, NULL);
    listener.fn = NULL;
}

int cli_parse(cli_args *out, const cli_command *command, const cli_option *options, int argc,
              char **argv)
{
    parser p = {command, options, argv, argc, 0};
    int result = CLI_GO_ON;

    *out = (cli_args){.words = argv};
    if (listener.fn) {
        listener.fn(command, options, listener.payload);
        return CLI_OK;
    }
    while (p.next < argc && result == CLI_GO_ON) {
        char *argument = argv[p.next++];

        if (strcmp(argument, "--") == 0) {
            out->command = argv + p.next;
            break;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            fputs(command->help, stdout);
            return CLI_OK;
        }
        if (argument[0] != '-' || argument[1] == '\0')
            out->words[out->count++] = argument;
        else
            result = argument[1] == '-' ? parse_long(&p, argument) : parse_letters(&p, argument);
    }
    return result;
}

int cli_name_check(const char **out, const cli_command *command, const cli_args *args)
{
    size_t n;

    if (args->count == 0)
        return cli_usage("no lock name given; see 'rowlock %s --help'", command->name);
    if (args->count > 1)
        return cli_usage("'%.*s' is one word too many; see 'rowlock %s --help'",
                         cli_shown(args->words[1]), args->words[1], command->name);
    *out = args->words[0];
    n = strlen(*out);
    if (n < 1 || n > ROWLOCK_NAME_MAX)
        return cli_usage("a lock name has 1 to %d bytes, not %zu", ROWLOCK_NAME_MAX, n);
    return CLI_GO_ON;
}
