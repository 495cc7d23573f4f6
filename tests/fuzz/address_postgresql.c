/* SPDX-License-Identifier: MIT
 *
 * libpq parses the address; no name is looked up, and nothing is connected to. */
#include "address.h"
#include "pg.h"
#include "resolve.h"

const char *__wrap_rlk_resolve(rlk_addresses *out, const char *host, int64_t deadline);
PGconn *__wrap_PQconnectStartParams(const char *const *keys, const char *const *values, int expand);

static int is_secret;

const char *__wrap_rlk_resolve(rlk_addresses *out, const char *host, int64_t deadline)
{
    (void)deadline;
    MUST(!is_secret || strstr(host, SECRET) == NULL);
    *out = (rlk_addresses){.count = 1, .text = {"127.0.0.1"}};
    return strlen(host) % 2 == 0 ? NULL : "no such name";
}

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
