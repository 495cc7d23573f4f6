/* SPDX-License-Identifier: MIT
 *
 * rowlock completion: what a shell needs to complete our words, made of the very tables by which
 * arguments are read, so that it cannot fall behind them. */
#include <string.h>

#include "cli.h"

/* Values that can be listed. Others are free, or files. */
static const struct choice {
    const char *option, *words;
} choices[] = {
    {"on-busy", "skip wait fail"},
    {"dialect", "postgresql mysql sqlite"},
    {"format", "plain golang-migrate flyway dbmate goose"},
};

/* Words that are no options, of the commands that have a list of them. */
static const struct choice words[] = {
    {"migrate", "up down status print"},
    {"completion", "bash zsh fish"},
};

static const char *find(const struct choice *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].option, name) == 0)
            return list[i].words;
    return NULL;
}

static const char *words_of(const cli_command *command)
{
    return find(words, sizeof(words) / sizeof(words[0]), command->name);
}

static const char *choices_of(const cli_option *option)
{
    return find(choices, sizeof(choices) / sizeof(choices[0]), option->name);
}

/* All options of a command, with their dashes, between blanks. */
static void put_options(const cli_command *command, const cli_option *options, void *payload)
{
    (void)command;
    (void)payload;
    for (const cli_option *o = options; o->name; o++) {
        printf(" --%s", o->name);
        if (o->letter)
            printf(" -%c", o->letter);
    }
    fputs(" --help", stdout);
}

static void put_names(const char *between)
{
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf("%s%s", c == cli_commands ? "" : between, (*c)->name);
}

/* ---- bash and zsh ---------------------------------------------------------------------------- */

/* "    run) VARIABLE='...' ;;" for each command. */
static void put_cases(const char *variable)
{
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const char *more = words_of(*c);

        printf("    %s) %s='%s", (*c)->name, variable, more ? more : "");
        cli_describe(*c, put_options, NULL);
        puts("' ;;");
    }
    printf("    help) %s='", variable);
    put_names(" ");
    puts("' ;;");
}

/* "    --on-busy) BEFORE skip wait fail AFTER" for each option that has a list of values. */
static void put_choices(const char *before, const char *after)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        printf("    --%s) %s%s%s\n", choices[i].option, before, choices[i].words, after);
}

static void put_bash(void)
{
    puts("# bash completion for rowlock\n"
         "_rowlock() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words i\n"
         "    COMPREPLY=()\n"
         "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
         "            if ((i + 1 == COMP_CWORD)); then\n"
         "                COMPREPLY=($(compgen -c -- \"$cur\"))\n"
         "            else\n"
         "                COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "            fi\n"
         "            return\n"
         "        fi\n"
         "    done\n"
         "    case $prev in");
    put_choices("COMPREPLY=($(compgen -W '", "' -- \"$cur\")); return ;;");
    puts("    -d | --db | -o | --output)\n"
         "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "        return\n"
         "        ;;\n"
         "    esac\n"
         "    if ((COMP_CWORD == 1)); then");
    fputs("        COMPREPLY=($(compgen -W '", stdout);
    put_names(" ");
    puts(" help --help --version' -- \"$cur\"))\n"
         "        return\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    put_cases("words");
    puts("    esac\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -F _rowlock rowlock");
}

static void put_zsh(void)
{
    puts("#compdef rowlock\n"
         "_rowlock() {\n"
         "    local list end words_before=(${words[2,CURRENT-1]})\n"
         "    end=${words_before[(ie)--]}\n"
         "    if (( end <= $#words_before )); then\n"
         "        shift $end words\n"
         "        shift words\n"
         "        (( CURRENT -= end + 1 ))\n"
         "        _normal\n"
         "        return\n"
         "    fi\n"
         "    case ${words[CURRENT-1]} in");
    put_choices("compadd -- ", "; return ;;");
    puts("    -d|--db|-o|--output) _files; return ;;\n"
         "    esac\n"
         "    if (( CURRENT == 2 )); then");
    fputs("        compadd -- ", stdout);
    put_names(" ");
    puts(" help --help --version\n"
         "        return\n"
         "    fi\n"
         "    case ${words[2]} in");
    put_cases("list");
    puts("    esac\n"
         "    compadd -- ${=list}\n"
         "}\n"
         "_rowlock \"$@\"");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void put_fish_option(const cli_command *command, const cli_option *options, void *payload)
{
    (void)payload;
    for (const cli_option *o = options; o->name; o++) {
        const char *list = choices_of(o);

        printf("complete -c rowlock -n '__rowlock_in %s' -l %s", command->name, o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        if (list)
            printf(" -x -a '%s'", list);
        else if (o->kind == CLI_SECRET || strcmp(o->name, "output") == 0)
            fputs(" -rF", stdout);
        else if (o->kind != CLI_FLAG)
            fputs(" -x", stdout);
        putchar('\n');
    }
    printf("complete -c rowlock -n '__rowlock_in %s' -l help\n", command->name);
}

/* The command is the first word, and no other that looks like one: locks may have such names.
 * Behind "--" it is as if the line began there. */
static void put_fish(void)
{
    puts("# fish completion for rowlock\n"
         "function __rowlock_in\n"
         "    set -l words (commandline -opc)\n"
         "    test \"$words[2]\" = $argv[1]; and not contains -- -- $words\n"
         "end\n"
         "function __rowlock_behind\n"
         "    contains -- -- (commandline -opc)\n"
         "end\n"
         "function __rowlock_rest\n"
         "    set -l words (commandline -opc)\n"
         "    set -e words[1..(contains -i -- -- $words)]\n"
         "    set words (string escape -- $words) (commandline -ct)\n"
         "    complete --do-complete=\"$words\"\n"
         "end\n"
         "complete -c rowlock -f\n"
         "complete -c rowlock -n __rowlock_behind -a '(__rowlock_rest)'");
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf("complete -c rowlock -n '__rowlock_in \"\"' -a %s -d \"%s\"\n", (*c)->name,
               (*c)->summary);
    puts("complete -c rowlock -n '__rowlock_in \"\"' -a help -d \"help on a command\"\n"
         "complete -c rowlock -n '__rowlock_in \"\"' -l help\n"
         "complete -c rowlock -n '__rowlock_in \"\"' -l version");
    fputs("complete -c rowlock -n '__rowlock_in help' -a '", stdout);
    put_names(" ");
    puts("'");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        if (words_of(*c))
            printf("complete -c rowlock -n '__rowlock_in %s' -a '%s'\n", (*c)->name, words_of(*c));
        cli_describe(*c, put_fish_option, NULL);
    }
}

/* ---- the subcommand -------------------------------------------------------------------------- */

static int cmd_completion(const cli_command *self, int argc, char **argv)
{
    const cli_option options[] = {CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result != CLI_GO_ON)
        return result;
    if (args.count != 1 || args.command)
        return cli_usage("give one of bash, zsh and fish; see 'rowlock completion --help'");
    if (strcmp(args.words[0], "bash") == 0)
        put_bash();
    else if (strcmp(args.words[0], "zsh") == 0)
        put_zsh();
    else if (strcmp(args.words[0], "fish") == 0)
        put_fish();
    else
        return cli_usage("unknown shell '%.*s'; known are bash, zsh and fish",
                         cli_shown(args.words[0]), args.words[0]);
    return CLI_OK;
}

const cli_command cli_completion = {
    .name = "completion",
    .summary = "print what bash, zsh or fish needs to complete words",
    .help = "usage: rowlock completion bash|zsh|fish\n"
            "\n"
            "Prints a script by which the shell completes commands and options. It is\n"
            "installed together with rowlock; where that has not been done, for one shell:\n"
            "\n"
            "  bash   source <(rowlock completion bash)\n"
            "  zsh    rowlock completion zsh >~/.zfunc/_rowlock    (a folder of $fpath)\n"
            "  fish   rowlock completion fish | source\n",
    .run = cmd_completion,
};
