/* SPDX-License-Identifier: MIT
 *
 * The command's options: arguments are separated by newlines. Whatever they are, the result is one
 * of three, and what was parsed are the arguments themselves. */
#include "cli.h"
#include "fuzz.h"

enum { MOST = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size), *argv[MOST + 1], *at = text, *word;
    const char *string = NULL, *secret = NULL;
    int argc = 0, flag = 0, number = 0, result;
    int64_t ms = 0;
    uint64_t fence = 0;
    cli_args args;
    const cli_option options[] = {
        {'f', "flag", CLI_FLAG, &flag},
        {'t', "text", CLI_TEXT, &string},
        {'n', "number", CLI_NUMBER, &number},
        {'d', "duration", CLI_DURATION, &ms},
        {0, "fence", CLI_FENCE, &fence},
        {'s', "secret-not-kept", CLI_TEXT, &secret},
        CLI_OPTION_END,
    };
    const cli_command command = {.name = "fuzz", .summary = "", .help = ""};

    while (argc < MOST && (word = strsep(&at, "\n")) != NULL)
        argv[argc++] = word;
    argv[argc] = NULL;
    result = cli_parse(&args, &command, options, argc, argv);
    if (result == CLI_GO_ON) {
        MUST(args.count >= 0 && args.count <= argc);
        MUST(flag == 0 || flag == 1);
        MUST(number >= 0 && ms >= 0 && fence <= INT64_MAX);
    } else {
        MUST(result == CLI_USAGE || result == CLI_OK);
    }
    free(text);
    return 0;
}
