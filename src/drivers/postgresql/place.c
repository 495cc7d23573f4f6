/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <stdio.h>
#include <string.h>

enum { PLACE_SCHEMA, PLACE_FOUND, PLACE_ODD };
enum { TRIP_STATEMENT = 2 };

static int gone(const PGconn *pg, int got, rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                           got == 0 ? "no answer from the server in time%s"
                                    : "the connection was lost: %s",
                           got == 0 ? "" : PQerrorMessage(pg));
}

int pg_call_on_path(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                    rowlock_error *err)
{
    pg_trip trip = {.pg = conn->pg};
    int got, status;

    *out = NULL;
    if (pg_sql(conn, statement) == NULL || conn->params.bytes.failed)
        return rlk_fail_memory(err);
    status = pg_check_idle(conn->pg, err);
    if (status != ROWLOCK_OK)
        return status;
    pg_trip_add(&trip, pg_text_of(PG_BEGIN), NULL);
    pg_trip_add(&trip, pg_text_of(PG_PATH_GIVEN), NULL);
    pg_trip_add(&trip, conn->sql[statement].data, &conn->params);
    pg_trip_sync(&trip);
    pg_trip_add(&trip, pg_text_of(PG_ROLLBACK), NULL);
    got = pg_trip_run(&trip, deadline);
    if (trip.error != NULL)
        status = pg_said_no(conn, trip.error, err);
    else if (got <= 0)
        status = gone(conn->pg, got, err);
    if (status == ROWLOCK_OK) {
        *out = trip.results[TRIP_STATEMENT];
        trip.results[TRIP_STATEMENT] = NULL;
    }
    pg_trip_clear(&trip);
    return status;
}

static void add_table(pg_link *conn, const char *table)
{
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, conn->prefix, strlen(conn->prefix));
    pg_put_bytes(&conn->params, table, strlen(table));
}

/* What was rendered names the schema that it was before. */
static void move_to(pg_link *conn, const char *schema)
{
    if (strcmp(conn->schema, schema) == 0)
        return;
    snprintf(conn->schema, sizeof conn->schema, "%s", schema);
    for (int i = 0; i < PG_STATEMENT_COUNT; i++)
        rlk_text_free(&conn->sql[i]);
    memset(conn->is_prepared, 0, sizeof conn->is_prepared);
    conn->generation++;
}

static int is_ambiguous(const pg_link *conn, const char *one, const char *other, rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_ESCHEMA,
                    "the schemas %s and %s of the search_path both have %slocks or %sschema: say "
                    "which one it is with the option `schema`",
                    one, other, conn->prefix, conn->prefix);
}

/* The row of the schema that has the tables; -1: none has. Two that have them are refused: whoever
 * may create in one of them could make some clients use other tables than the rest. */
static int choose(const pg_link *conn, int *out, const PGresult *result, rowlock_error *err)
{
    *out = -1;
    for (int row = 0; row < PQntuples(result); row++) {
        if (pg_get_int(result, row, PLACE_FOUND) == 0)
            continue;
        if (*out >= 0)
            return is_ambiguous(conn, PQgetvalue(result, *out, PLACE_SCHEMA),
                                PQgetvalue(result, row, PLACE_SCHEMA), err);
        *out = row;
    }
    return ROWLOCK_OK;
}

/* The name also stands between single quotes. */
static int check_place(const pg_link *conn, const PGresult *result, int row, rowlock_error *err)
{
    const char *schema = PQgetvalue(result, row, PLACE_SCHEMA);

    if (strpbrk(schema, "'\\") != NULL)
        return rlk_fail(err, ROWLOCK_ESCHEMA,
                        "the schema of the tables has a quote or a backslash in its name: move "
                        "them to another one");
    if (pg_get_int(result, row, PLACE_ODD) > 0)
        return rlk_fail(err, ROWLOCK_ESCHEMA,
                        "%slocks or %sschema in the schema %s is not a table: drop it, or say "
                        "where the tables are with the option `schema`",
                        conn->prefix, conn->prefix, schema);
    return ROWLOCK_OK;
}

static int take_place(pg_link *conn, const PGresult *result, rowlock_error *err)
{
    int row, status = choose(conn, &row, result, err);

    if (status != ROWLOCK_OK)
        return status;
    conn->is_placed = row >= 0;
    if (row < 0 && PQntuples(result) > 0)
        row = 0;
    if (row >= 0)
        status = check_place(conn, result, row, err);
    if (status != ROWLOCK_OK)
        conn->is_placed = 0;
    else
        move_to(conn, row < 0 ? PG_NOWHERE : PQgetvalue(result, row, PLACE_SCHEMA));
    return status;
}

static int look(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status;

    pg_params_clear(&conn->params);
    add_table(conn, "locks");
    add_table(conn, "schema");
    status = pg_call_on_path(conn, PG_PLACE, &result, deadline, err);
    if (status == ROWLOCK_OK)
        status = take_place(conn, result, err);
    PQclear(result);
    return status == ROWLOCK_OK ? status : pg_unchanged(status, err);
}

const char *pg_schema_of(const void *memory)
{
    const pg_link *conn = memory;

    return conn->is_placed ? conn->schema : NULL;
}

/* The parameters of the call for which it is looked stay as they are. */
int pg_find_place(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    pg_params kept = conn->params;
    int status;

    if (conn->is_placed)
        return ROWLOCK_OK;
    conn->params = (pg_params){0};
    status = look(conn, deadline, err);
    pg_params_free(&conn->params);
    conn->params = kept;
    return status;
}
