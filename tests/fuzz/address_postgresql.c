/* SPDX-License-Identifier: MIT
 *
 * libpq parses the address; nothing is connected to. */
#include "address.h"
#include "pg.h"

PGconn *__wrap_PQconnectStartParams(const char *const *keys, const char *const *values, int expand);

static int is_secret;

/* What libpq would look up, and name in its messages. */
PGconn *__wrap_PQconnectStartParams(const char *const *keys, const char *const *values, int expand)
{
    (void)expand;
    for (; *keys != NULL; keys++, values++) {
        if (is_secret && strcmp(*keys, "password") != 0)
            MUST(strstr(*values, SECRET) == NULL);
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_address(data, size, "postgresql://", &is_secret);
    rowlock_error err = {0};
    PGconn *pg;

    MUST(pg_connect_start(&pg, text, 1000, &err) != ROWLOCK_OK);
    fuzz_check_refusal(err.message, is_secret);
    free(text);
    return 0;
}
