/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <string.h>

typedef struct state {
    const char *start; /* of the sqlstate; the first line that fits counts */
    pg_meaning meaning;
} state;

/* Each came as an ERROR, which rolls the transaction back: certainly nothing was done. (A FATAL
 * ends the connection and is never looked up here.) What is not in the table is not worth trying
 * again. */
static const state states[] = {
    {"55P03", PG_MEANS_LOCKED},    /* lock_not_available: lock_timeout */
    {"57014", PG_MEANS_SLOW},      /* query_canceled: statement_timeout, pg_cancel_backend() */
    {"22P02", PG_MEANS_RACED},     /* invalid_text_representation: see `acquire` in the SQL */
    {"42P01", PG_MEANS_MISSING},   /* undefined_table */
    {"42703", PG_MEANS_MISSING},   /* undefined_column: an older table */
    {"3F000", PG_MEANS_MISSING},   /* invalid_schema_name */
    {"25006", PG_MEANS_READ_ONLY}, /* read_only_sql_transaction: a standby now, a demoted primary */
    {"26000", PG_MEANS_UNPREPARED}, /* invalid_sql_statement_name: DISCARD ALL in between */
    {"42P05", PG_MEANS_UNPREPARED}, /* duplicate_prepared_statement: a pooler after all */
    {"0A000", PG_MEANS_UNPREPARED}, /* feature_not_supported: the cached plan's types changed */
    {"40", PG_MEANS_RETRY},         /* serialization failure, deadlock */
    {"23505", PG_MEANS_RETRY},      /* unique_violation: somebody was faster */
    {"55006", PG_MEANS_RETRY},      /* object_in_use */
    {"53", PG_MEANS_RETRY},         /* insufficient resources: disk, memory, connections */
    {"57", PG_MEANS_RETRY},         /* operator intervention: starting up, shutting down */
    {"58", PG_MEANS_RETRY},         /* system error: I/O */
    {"08", PG_MEANS_RETRY},         /* connection exception, from a pooler */
};

pg_meaning pg_meaning_of(const char *sqlstate)
{
    if (sqlstate == NULL)
        return PG_MEANS_OTHER;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (strncmp(sqlstate, states[i].start, strlen(states[i].start)) == 0)
            return states[i].meaning;
    }
    return PG_MEANS_OTHER;
}

int pg_refusal_is_passing(const char *sqlstate)
{
    return sqlstate[0] == '\0' || pg_meaning_of(sqlstate) == PG_MEANS_RETRY;
}
