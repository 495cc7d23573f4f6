/* SPDX-License-Identifier: MIT
 *
 * The binary form of the wire protocol: numbers in network order; an array is its number of
 * dimensions, a flag for NULLs, the element's type, its length and lower bound, then each item with
 * its length in front. */
#include "pg.h"

#include <string.h>

void pg_params_clear(pg_params *params)
{
    if (params->bytes.failed)
        rlk_text_free(&params->bytes);
    rlk_text_clear(&params->bytes);
    params->count = 0;
}

void pg_params_free(pg_params *params)
{
    rlk_text_free(&params->bytes);
    params->count = 0;
}

static void put_number(pg_params *params, uint64_t number, int width)
{
    char bytes[8];

    for (int i = 0; i < width; i++)
        bytes[i] = (char)(unsigned char)(number >> (8 * (width - 1 - i)));
    rlk_text_add(&params->bytes, bytes, (size_t)width);
}

void pg_param(pg_params *params)
{
    params->starts[params->count++] = params->bytes.length;
}

void pg_put_array(pg_params *params, uint32_t element_type, size_t n)
{
    put_number(params, 1, 4);
    put_number(params, 0, 4);
    put_number(params, element_type, 4);
    put_number(params, n, 4);
    put_number(params, 1, 4);
}

void pg_put_item(pg_params *params, const void *bytes, size_t n)
{
    put_number(params, n, 4);
    rlk_text_add(&params->bytes, bytes, n);
}

void pg_put_item_i64(pg_params *params, int64_t number)
{
    put_number(params, 8, 4);
    put_number(params, (uint64_t)number, 8);
}

void pg_put_bytes(pg_params *params, const void *bytes, size_t n)
{
    rlk_text_add(&params->bytes, bytes, n);
}

void pg_put_i64(pg_params *params, int64_t number)
{
    put_number(params, (uint64_t)number, 8);
}

void pg_put_bool(pg_params *params, int value)
{
    put_number(params, value != 0, 1);
}

int64_t pg_get_int(const PGresult *result, int row, int column)
{
    const unsigned char *bytes = (const unsigned char *)PQgetvalue(result, row, column);
    int width = PQgetlength(result, row, column);
    uint64_t number = 0;

    if (PQgetisnull(result, row, column))
        return 0;
    for (int i = 0; i < width; i++)
        number = number << 8 | bytes[i];
    return width == 4 ? (int64_t)(int32_t)(uint32_t)number : (int64_t)number;
}

int pg_get_bool(const PGresult *result, int row, int column)
{
    return pg_get_int(result, row, column) != 0;
}
