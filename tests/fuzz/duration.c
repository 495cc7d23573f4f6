/* SPDX-License-Identifier: MIT
 *
 * Durations of the command: what is accepted is within bounds, and what is shown of it is read as
 * nearly the same again. */
#include "cli.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size), shown[32];
    int64_t ms = -1, again = -1;

    if (cli_duration(&ms, text) == 0) {
        MUST(ms >= 0 && ms <= (int64_t)3650 * 86400000);
        cli_duration_text(shown, ms);
        MUST(cli_duration(&again, shown) == 0);
        MUST(again <= ms && again >= ms - (ms < 60000 ? 100 : ms < 86400000 ? 60000 : 3600000));
    } else {
        MUST(ms == -1);
    }
    free(text);
    return 0;
}
