/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "core.h"

const char *rowlock_strstatus(int status)
{
    switch (status) {
#define TEXT_OF(name, number, text) \
    case number:                    \
        return text;
        ROWLOCK_STATUS_MAP(TEXT_OF)
#undef TEXT_OF
    default:
        return "unknown status";
    }
}

void rowlock_free(void *memory)
{
    free(memory);
}
