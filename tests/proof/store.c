/* SPDX-License-Identifier: MIT */
#include "store.h"

#include "control.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE PROOF_PREFIX "counter"

/* A session that has failed is not used again: whatever it had open is undone. */
__attribute__((format(printf, 4, 5))) static int run(struct store *store, char *out, size_t size,
                                                     const char *format, ...)
{
    char sql[512];
    va_list arguments;

    if (store_connect(store) != 0)
        return -1;
    va_start(arguments, format);
    vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    if (store->kind->sql_run(store->session, sql, out, size) == 0)
        return 0;
    store_disconnect(store);
    return -1;
}

int store_connect(struct store *store)
{
    if (store->session == NULL)
        store->session = store->kind->sql_open(store->address);
    return store->session != NULL ? 0 : -1;
}

void store_disconnect(struct store *store)
{
    if (store->session != NULL)
        store->kind->sql_close(store->session);
    store->session = NULL;
}

int store_create(const struct backend_kind *kind, const char *address)
{
    struct store store = {kind, address, NULL};
    int failed =
        run(&store, NULL, 0,
            "CREATE TABLE " TABLE " (kind INTEGER NOT NULL, name INTEGER NOT NULL, version "
            "BIGINT NOT NULL, fence BIGINT NOT NULL, PRIMARY KEY (kind, name))");

    failed |= store_begin(&store);
    for (int name = 0; name < PROOF_WRITTEN && !failed; name++)
        failed = run(&store, NULL, 0, "INSERT INTO " TABLE " VALUES (%d, %d, 0, 0), (%d, %d, 0, 0)",
                     HISTORY_GUARDED, name, HISTORY_FENCED, name);
    failed |= store_commit(&store);
    store_disconnect(&store);
    return failed ? -1 : 0;
}

int store_begin(struct store *store)
{
    int sqlite = strcmp(store->kind->name, "sqlite") == 0;

    return run(store, NULL, 0, "%s", sqlite ? "BEGIN IMMEDIATE" : "BEGIN");
}

void store_rollback(struct store *store)
{
    run(store, NULL, 0, "ROLLBACK");
}

int store_commit(struct store *store)
{
    return run(store, NULL, 0, "COMMIT");
}

int store_read(uint64_t *version, uint64_t *fence, struct store *store, int kind, uint32_t name)
{
    char out[128], *at;

    if (run(store, out, sizeof(out),
            "SELECT version, fence FROM " TABLE " WHERE kind = %d AND name = %u", kind, name) != 0)
        return -1;
    *version = strtoull(out, &at, 10);
    if (at == out || *at != '|')
        return -1;
    *fence = strtoull(at + 1, NULL, 10);
    return 0;
}

int store_write(struct store *store, int kind, uint32_t name, uint64_t version, uint64_t fence)
{
    char refuse[64] = "";

    if (kind == HISTORY_FENCED)
        snprintf(refuse, sizeof(refuse), " AND fence <= %llu", (unsigned long long)fence);
    return run(store, NULL, 0,
               "UPDATE " TABLE " SET version = %llu, fence = %llu WHERE kind = %d AND name = %u%s",
               (unsigned long long)version, (unsigned long long)fence, kind, name, refuse);
}

int store_claim(struct store *store, uint32_t name, uint64_t fence)
{
    return run(store, NULL, 0,
               "UPDATE " TABLE " SET fence = %llu WHERE kind = %d AND name = %u AND fence < %llu",
               (unsigned long long)fence, HISTORY_FENCED, name, (unsigned long long)fence);
}
