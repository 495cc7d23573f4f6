/* SPDX-License-Identifier: MIT */
#include "fuzz.h"
#include "lite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    rowlock_error err = {0};
    const char *path;

    if (lite_address(&path, text, &err) == ROWLOCK_OK)
        MUST(path[0] != '\0' && strlen(path) < LITE_PATH_MAX && path >= text);
    else
        fuzz_check_message(err.message);
    free(text);
    return 0;
}
