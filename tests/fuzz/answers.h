/* SPDX-License-Identifier: MIT
 *
 * Answers of a server, made of the input: every slot of a driver reads them, and must neither break
 * nor say what is none of the contract's answers. */
#ifndef ROWLOCK_FUZZ_ANSWERS_H
#define ROWLOCK_FUZZ_ANSWERS_H

#include "fuzz.h"
#include "rowlock/driver.h"

enum { FUZZ_OPS = 3, FUZZ_COLUMNS = 24, FUZZ_ROWS = 6, FUZZ_TIMEOUT_MS = 1000, FUZZ_CALLS = 40 };

/* What is left of the input. */
static const uint8_t *fuzz_at;
static size_t fuzz_left;
static int fuzz_answers; /* that were given since the input began */

static inline uint8_t fuzz_byte(void)
{
    if (fuzz_left == 0)
        return 0;
    fuzz_left--;
    return *fuzz_at++;
}

/* A field of an answer: one of our own names, a number, some bytes, or NULL (*size is -1). Valid
 * until the next input. */
static inline const uint8_t *fuzz_field(int *size)
{
    static const char *const names[FUZZ_OPS] = {"a", "bb", "ccc"};
    const uint8_t *field;
    uint8_t kind = fuzz_byte();

    if (kind % 8 == 0) {
        *size = -1;
        return NULL;
    }
    if (kind % 8 == 1) {
        field = (const uint8_t *)names[kind / 8 % FUZZ_OPS];
        *size = (int)strlen((const char *)field);
        return field;
    }
    *size = kind % 8 == 2 ? 8 : kind % 8 == 3 ? 1 : kind % 8 == 4 ? 16 : kind / 8 * 20;
    if ((size_t)*size > fuzz_left)
        *size = (int)fuzz_left;
    field = fuzz_at;
    fuzz_at += *size;
    fuzz_left -= (size_t)*size;
    return field;
}

static inline rowlock_op fuzz_op(size_t i)
{
    static const char *const names[FUZZ_OPS] = {"a", "bb", "ccc"};

    return (rowlock_op){.name = names[i],
                        .name_length = i + 1,
                        .owner = "me",
                        .note = "",
                        .ttl_us = 1000000,
                        .attempt = {1, 2, 3},
                        .fence = 7};
}

static inline void fuzz_check_ops(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        MUST(ops[i].status == ROWLOCK_OK || ops[i].status == ROWLOCK_BUSY ||
             ops[i].status == ROWLOCK_LOST);
        MUST(memchr(ops[i].holder, '\0', sizeof ops[i].holder) != NULL);
    }
}

static inline int fuzz_row(const rowlock_row *row, void *payload)
{
    (void)payload;
    MUST(row->name_length <= ROWLOCK_NAME_MAX);
    MUST(strlen(row->owner) <= ROWLOCK_OWNER_MAX && strlen(row->note) <= ROWLOCK_NOTE_MAX);
    return fuzz_answers > FUZZ_CALLS;
}

static inline int fuzz_waiter(const rowlock_waiter *waiter, void *payload)
{
    (void)payload;
    MUST(waiter->name_length <= ROWLOCK_NAME_MAX && strlen(waiter->owner) <= ROWLOCK_OWNER_MAX);
    MUST(waiter->holder == NULL || strlen(waiter->holder) <= ROWLOCK_OWNER_MAX);
    return fuzz_answers > FUZZ_CALLS;
}

/* One call of one slot. */
static inline void fuzz_call(const rowlock_driver *driver, void *conn)
{
    rowlock_list_query query = {.size = sizeof query, .expired = 1};
    rowlock_target target = {.size = sizeof target, .conn = conn};
    rowlock_mark mark = {0};
    rowlock_op ops[FUZZ_OPS], more[FUZZ_OPS];
    rowlock_error err = {0};
    char place[ROWLOCK_PLACE_MAX];
    uint64_t count;
    uint8_t choice = fuzz_byte();
    size_t n = 1 + choice / 16 % FUZZ_OPS, m = 1 + choice / 64 % FUZZ_OPS;
    int version, rc = ROWLOCK_EDRIVER;

    for (size_t i = 0; i < FUZZ_OPS; i++) {
        ops[i] = fuzz_op(i);
        more[i] = fuzz_op(i);
    }
    switch (choice % 16) {
    case 0:
        rc = driver->acquire(conn, ops, n, choice / 128, FUZZ_TIMEOUT_MS, &err);
        break;
    case 1:
        rc = driver->renew(conn, ops, n, FUZZ_TIMEOUT_MS, &err);
        break;
    case 2:
        rc = driver->release(conn, ops, n, FUZZ_TIMEOUT_MS, &err);
        break;
    case 3:
        n = 1;
        rc = driver->force_release(conn, ops, FUZZ_TIMEOUT_MS, &err);
        break;
    case 4:
        if (driver->reap(conn, &count, &mark, 1, 10, FUZZ_TIMEOUT_MS, &err) == ROWLOCK_OK)
            MUST(mark.length <= ROWLOCK_NAME_MAX);
        break;
    case 5:
        driver->list(conn, &query, fuzz_row, NULL, FUZZ_TIMEOUT_MS, &err);
        break;
    case 6:
        driver->waiters(conn, &query, fuzz_waiter, NULL, FUZZ_TIMEOUT_MS, &err);
        break;
    case 7:
        driver->schema_version(conn, &version, FUZZ_TIMEOUT_MS, &err);
        break;
    case 8:
        rc = driver->prepare(conn, ops, n, FUZZ_TIMEOUT_MS, &err);
        break;
    case 9:
        if (driver->locate(conn, place, sizeof place, FUZZ_TIMEOUT_MS, &err) == ROWLOCK_OK)
            MUST(memchr(place, '\0', sizeof place) != NULL);
        break;
    case 10:
        rc = driver->lock(&target, ops, n, 0, 0, FUZZ_TIMEOUT_MS, &err);
        break;
    case 11:
        rc = driver->enqueue(conn, ops, n, 1000000, n == 1, FUZZ_TIMEOUT_MS, &err);
        break;
    case 12:
        n = 1;
        ops[0].ticket = 5;
        rc = driver->turn(conn, ops, 0, NULL, 0, FUZZ_TIMEOUT_MS, &err);
        break;
    case 13:
        rc = driver->leave(conn, ops, n, FUZZ_TIMEOUT_MS, &err);
        break;
    case 14:
        rc = driver->look(conn, ops, n, 0, FUZZ_TIMEOUT_MS, &err);
        break;
    default:
        rc = driver->exchange(conn, more, m, ops, n, FUZZ_TIMEOUT_MS, &err);
        if (rc == ROWLOCK_OK)
            fuzz_check_ops(more, m);
    }
    if (rc == ROWLOCK_OK)
        fuzz_check_ops(ops, n);
}

#endif
