/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "queue.h"

uint64_t my_hash(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 1099511628211ULL;
    return hash;
}

void my_bell_name(char *out, const my_conn *conn, const rowlock_op *op, uint64_t ticket)
{
    const char *place = conn->schema != NULL ? conn->schema : conn->database;
    uint64_t hash = MY_HASH_START;
    char number[24] = "";

    for (; *place != '\0'; place++) {
        char lower = (char)tolower((unsigned char)*place);

        hash = my_hash(hash, &lower, 1);
    }
    hash = my_hash(hash, "", 1);
    hash = my_hash(hash, conn->prefix, strlen(conn->prefix) + 1);
    hash = my_hash(hash, op->name, op->name_length);
    if (ticket != 0)
        snprintf(number, sizeof number, "%" PRIu64, ticket);
    snprintf(out, MY_BELL_SIZE, "rowlock:%016" PRIx64 ":%s", hash, number);
}

int my_has_bell(const my_conn *conn, const rowlock_op *op)
{
    char name[MY_BELL_SIZE];

    if (conn->bell[0] == '\0' || op->ticket == 0)
        return 0;
    my_bell_name(name, conn, op, op->ticket);
    return strcmp(name, conn->bell) == 0;
}

void my_leave_behind(my_conn *conn, const rowlock_op *op)
{
    my_bell_name(conn->left_in, conn, op, 0);
    conn->left = op->ticket;
}

uint64_t my_left_behind(const my_conn *conn, const rowlock_op *op)
{
    char name[MY_BELL_SIZE];

    if (conn->left == 0)
        return 0;
    my_bell_name(name, conn, op, 0);
    return strcmp(name, conn->left_in) == 0 ? conn->left : 0;
}

my_value my_bell_value(const char *name)
{
    return (my_value){.bytes = name, .length = strlen(name)};
}

const char *my_name_literal(rlk_text *out, const char *name)
{
    return my_bytes(out, name, strlen(name));
}

int my_rings(const my_conn *conn, const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (my_has_bell(conn, &ops[i]))
            return 1;
    }
    return 0;
}

const char *my_bell_literal(const my_conn *conn, const rowlock_op *ops, size_t n, rlk_text *out)
{
    return my_rings(conn, ops, n) ? my_name_literal(out, conn->bell) : NULL;
}
