/* SPDX-License-Identifier: MIT
 *
 * In a transaction of the application's, on its connection. Everything stands between a SAVEPOINT
 * and its end, goes through libpq's pipeline, and leaves the connection as it was found. Two round
 * trips to lock: the savepoint may be kept only if all rows were had. One for the guard. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "pg.h"
#include "rowlock/postgresql.h"

/* Of the statements in a trip. */
enum { TRIP_SAVEPOINT, TRIP_PATH, TRIP_HERE, TRIP_LIMITS, TRIP_GUARD };

enum { LOCK_PERCENT = 75 }; /* of the call's time: the server gives up before we do */

enum { LIMITS_LOCK, LIMITS_STATEMENT };
enum {
    GUARD_IS_LOCKED,
    GUARD_IS_LIVE,
    GUARD_IS_SEEN,
    GUARD_IS_SEEN_LIVE,
    GUARD_SEEN_FENCE,
    GUARD_HAS_SNAPSHOT
};

/* ---- the connection */

static int check_transaction(const PGconn *pg, rowlock_error *err)
{
    switch (PQtransactionStatus(pg)) {
    case PQTRANS_INTRANS:
        return ROWLOCK_OK;
    case PQTRANS_IDLE:
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "no transaction is open on the connection: send BEGIN first");
    case PQTRANS_INERROR:
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the transaction on the connection has failed: send ROLLBACK first");
    case PQTRANS_ACTIVE:
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection has results that were not read: call PQgetResult() until "
                        "it returns NULL first (in a COPY, PQputCopyEnd() or PQgetCopyData() "
                        "before that)");
    case PQTRANS_UNKNOWN:
        break;
    }
    return rlk_fail(err, ROWLOCK_EINVAL,
                    "the connection is not open: connect first, or PQreset() it");
}

static int check(const PGconn *pg, rowlock_error *err)
{
    if (PQstatus(pg) != CONNECTION_OK)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection is not open: connect first, or PQreset() it");
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection is in pipeline mode: call PQexitPipelineMode() first");
    return check_transaction(pg, err);
}

static int gone(const PGconn *pg, int got, rowlock_error *err)
{
    if (got == 0)
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "no answer from the server in time: close the connection, its transaction "
                        "is undone");
    return rlk_fail(err, ROWLOCK_ECONNECT,
                    "the connection was lost, and its transaction with it: %s", PQerrorMessage(pg));
}

static int enter(PGconn *pg, rowlock_error *err)
{
    if (PQsetnonblocking(pg, 1) == 0 && PQenterPipelineMode(pg))
        return ROWLOCK_OK;
    return gone(pg, -1, err);
}

/* After ECONNECT there is nothing to be put back. */
static int leave(PGconn *pg, int was_nonblocking, int status, rowlock_error *err)
{
    if (status == ROWLOCK_ECONNECT)
        return status;
    if (!PQexitPipelineMode(pg) || PQsetnonblocking(pg, was_nonblocking) != 0)
        return gone(pg, -1, err);
    return status;
}

/* ---- what the server said */

static int ended(const PGresult *error, rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, PQresultErrorField(error, PG_DIAG_SQLSTATE), 0,
                           "the server ended the connection, and its transaction with it: %s",
                           PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY) == NULL
                               ? PQresultErrorMessage(error)
                               : PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY));
}

static int refused(const PGresult *error, rowlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);
    pg_meaning meaning = pg_meaning_of(state);

    if (state == NULL)
        state = "";
    if (text == NULL)
        text = PQresultErrorMessage(error);
    if (strncmp(state, "40", 2) == 0)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, 1,
                               "%s: roll the transaction back and begin again", text);
    if (meaning == PG_MEANS_MISSING)
        return rlk_fail_native(err, ROWLOCK_ESCHEMA, 0, state, 0,
                               "%s: run 'rowlock migrate up', or connect to the database that the "
                               "client is open on",
                               text);
    if (meaning == PG_MEANS_READ_ONLY)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, 0,
                               "the transaction is read-only: begin it with READ WRITE, on the "
                               "primary");
    if (strcmp(state, "42501") == 0)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, 0,
                               "%s: grant SELECT and UPDATE on it to the connection's user", text);
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, meaning != PG_MEANS_OTHER, "%s", text);
}

static int old_snapshot(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, "40001", 1,
                           "the transaction's snapshot is older than the lock: roll it back and "
                           "begin again, with the lock as its first statement");
}

/* A trip that must succeed, or the connection is gone. */
static int run_surely(pg_trip *trip, int64_t deadline, rowlock_error *err)
{
    int got = pg_trip_run(trip, deadline);

    if (trip->error != NULL && pg_is_fatal(trip->error))
        return ended(trip->error, err);
    return got <= 0 ? gone(trip->pg, got, err) : ROWLOCK_OK;
}

/* ---- the place */

typedef struct pg_place {
    const char *schema;
    pg_params identity; /* for PG_TX_HERE */
} pg_place;

/* "identity\nschema", as `locate` has written it. */
static pg_place place_of(const rowlock_target *target)
{
    size_t length = strcspn(target->place, "\n");
    pg_place place = {.schema = target->place + length + (target->place[length] != '\0')};

    pg_param(&place.identity);
    pg_put_bytes(&place.identity, target->place, length);
    return place;
}

/* Did PG_TX_HERE fail, by its own doing? */
static int is_elsewhere(const pg_trip *trip)
{
    return trip->error != NULL && trip->results[TRIP_SAVEPOINT] != NULL &&
           trip->results[TRIP_HERE] == NULL &&
           pg_meaning_of(PQresultErrorField(trip->error, PG_DIAG_SQLSTATE)) == PG_MEANS_RACED;
}

static int elsewhere(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EINVAL, ROWLOCK_NATIVE_ELSEWHERE, NULL, 0,
                           "the connection is on another server or database than the client");
}

/* ---- the savepoint */

enum { UNDO_LOOK = 2 };

/* Back to it; `look` (NULL: nothing) is asked then, under a search_path of ours, and a command
 * comes last: the portal of a SELECT would keep its snapshot until the application's next
 * statement. */
static int undo(pg_trip *trip, const char *look, const pg_params *params, int64_t deadline,
                rowlock_error *err)
{
    int status;

    pg_trip_add(trip, pg_text_of(PG_SAVEPOINT_UNDO), NULL);
    if (look != NULL) {
        pg_trip_add(trip, pg_text_of(PG_TX_PATH), NULL);
        pg_trip_add(trip, look, params);
        pg_trip_add(trip, pg_text_of(PG_SAVEPOINT_UNDO), NULL);
    }
    pg_trip_add(trip, pg_text_of(PG_SAVEPOINT_RELEASE), NULL);
    status = run_surely(trip, pg_deadline_after(deadline), err);
    if (status == ROWLOCK_OK && trip->error != NULL)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 0,
                               PQresultErrorField(trip->error, PG_DIAG_SQLSTATE), 0,
                               "the transaction has failed, send ROLLBACK: %s",
                               PQresultErrorField(trip->error, PG_DIAG_MESSAGE_PRIMARY));
    return status;
}

/* Undoes what the error of a trip has left, and answers with that. */
static int give_up(const pg_trip *failed, int64_t deadline, rowlock_error *err)
{
    pg_trip trip = {.pg = failed->pg};
    int status = undo(&trip, NULL, NULL, deadline, err);

    pg_trip_clear(&trip);
    if (status != ROWLOCK_OK)
        return status;
    return is_elsewhere(failed) ? elsewhere(err) : refused(failed->error, err);
}

/* ---- lock */

typedef struct texts {
    rlk_text lock, look;
} texts;

static void render(rlk_text *out, pg_statement statement, const rowlock_target *target,
                   const pg_place *place)
{
    rlk_sql_render(out, pg_text_of(statement), target->prefix, place->schema, '"');
}

static void add_setting(pg_params *params, const PGresult *limits, int column)
{
    pg_param(params);
    pg_put_bytes(params, PQgetvalue(limits, 0, column), (size_t)PQgetlength(limits, 0, column));
}

/* Keeps what was locked, and puts the timeouts back to what `limits` has found. */
static int keep(PGconn *pg, const PGresult *limits, int64_t deadline, rowlock_error *err)
{
    pg_trip trip = {.pg = pg};
    pg_params old = {0};
    int status;

    add_setting(&old, limits, LIMITS_LOCK);
    add_setting(&old, limits, LIMITS_STATEMENT);
    pg_trip_add(&trip, pg_text_of(PG_TX_RESTORE), &old);
    pg_trip_add(&trip, pg_text_of(PG_SAVEPOINT_RELEASE), NULL);
    status = run_surely(&trip, pg_deadline_after(deadline), err);
    if (status == ROWLOCK_OK && trip.error != NULL)
        status = give_up(&trip, deadline, err);
    pg_params_free(&old);
    pg_trip_clear(&trip);
    return status;
}

static int let_go(PGconn *pg, const pg_try *try, const char *look, rowlock_error *err)
{
    pg_trip trip = {.pg = pg};
    int status = undo(&trip, look, &try->look, try->deadline, err);

    if (status == ROWLOCK_OK && look != NULL)
        pg_try_read_look(try, trip.results[UNDO_LOOK]);
    pg_trip_clear(&trip);
    return status;
}

static int conclude(const pg_try *try, const texts *sql, const pg_trip *trip, rowlock_error *err)
{
    pg_verdict verdict = is_elsewhere(trip) ? PG_REFUSED : pg_try_judge(try, trip, TRIP_LIMITS);
    int status;

    if (verdict == PG_HAD)
        return keep(trip->pg, trip->results[TRIP_LIMITS], try->deadline, err);
    if (verdict == PG_REFUSED)
        return give_up(trip, try->deadline, err);
    status = let_go(trip->pg, try, verdict == PG_LEASED ? sql->look.data : NULL, err);
    if (status == ROWLOCK_OK && verdict == PG_OLD_SNAPSHOT)
        return old_snapshot(err);
    return status;
}

static int lock_rows(PGconn *pg, const pg_try *try, const pg_place *place, const texts *sql,
                     rowlock_error *err)
{
    pg_trip trip = {.pg = pg};
    int status;

    pg_trip_add(&trip, pg_text_of(PG_SAVEPOINT), NULL);
    pg_trip_add(&trip, pg_text_of(PG_TX_PATH), NULL);
    pg_trip_add(&trip, pg_text_of(PG_TX_HERE), &place->identity);
    pg_trip_add(&trip, pg_text_of(PG_TX_LIMITS), &try->limits);
    pg_trip_add(&trip, sql->lock.data, &try->lock);
    status = run_surely(&trip, try->deadline, err);
    if (status == ROWLOCK_OK)
        status = conclude(try, sql, &trip, err);
    pg_trip_clear(&trip);
    return status;
}

int pg_native_lock(const rowlock_target *target, pg_try *try, rowlock_error *err)
{
    PGconn *pg = target->native;
    texts sql = {{0}, {0}};
    pg_place place;
    int was_nonblocking = PQisnonblocking(pg);
    int status = check(pg, err);

    if (status != ROWLOCK_OK || try->n == 0)
        return status == ROWLOCK_OK ? rlk_ok(err) : status;
    place = place_of(target);
    render(&sql.lock, PG_TX_LOCK, target, &place);
    render(&sql.look, PG_TX_LOOK, target, &place);
    if (sql.lock.failed || sql.look.failed || place.identity.bytes.failed)
        status = rlk_fail_memory(err);
    else
        status = enter(pg, err);
    if (status == ROWLOCK_OK)
        status = leave(pg, was_nonblocking, lock_rows(pg, try, &place, &sql, err), err);
    pg_params_free(&place.identity);
    rlk_text_free(&sql.lock);
    rlk_text_free(&sql.look);
    return status == ROWLOCK_OK ? rlk_ok(err) : status;
}

/* ---- guard */

static void guard_params(pg_params *params, const rowlock_op *op)
{
    pg_param(params);
    pg_put_bytes(params, op->name, op->name_length);
    pg_param(params);
    pg_put_bytes(params, op->owner, strlen(op->owner));
    pg_param(params);
    pg_put_i64(params, (int64_t)op->fence);
}

/* A row that was not had although it matches is somebody else's at this moment. If its lease has
 * ended it is lost; but with a snapshot it may have been renewed since, which the next look shows.
 */
static int read_guard(rowlock_op *op, const PGresult *result, rowlock_error *err)
{
    int has_snapshot = pg_get_bool(result, 0, GUARD_HAS_SNAPSHOT);

    op->status = ROWLOCK_LOST;
    if (pg_get_bool(result, 0, GUARD_IS_LOCKED)) {
        if (pg_get_bool(result, 0, GUARD_IS_LIVE))
            op->status = ROWLOCK_OK;
    } else if (pg_get_bool(result, 0, GUARD_IS_SEEN)) {
        if (has_snapshot || pg_get_bool(result, 0, GUARD_IS_SEEN_LIVE))
            op->status = ROWLOCK_BUSY;
    } else if (has_snapshot && (uint64_t)pg_get_int(result, 0, GUARD_SEEN_FENCE) < op->fence) {
        return old_snapshot(err);
    }
    return ROWLOCK_OK;
}

typedef struct guarding {
    pg_place place;
    rlk_text sql;
    pg_params params, bound;
    int64_t deadline;
} guarding;

/* The row is locked by somebody, or the whole table is. */
static int undo_busy(const pg_trip *failed, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    pg_trip trip = {.pg = failed->pg};
    int status = undo(&trip, NULL, NULL, deadline, err);

    pg_trip_clear(&trip);
    op->status = ROWLOCK_BUSY;
    return status;
}

static int conclude_guard(const pg_trip *trip, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    if (trip->error == NULL)
        return read_guard(op, trip->results[TRIP_GUARD], err);
    if (pg_meaning_of(PQresultErrorField(trip->error, PG_DIAG_SQLSTATE)) == PG_MEANS_LOCKED)
        return undo_busy(trip, op, deadline, err);
    return give_up(trip, deadline, err);
}

static int guard_row(PGconn *pg, rowlock_op *op, const guarding *g, rowlock_error *err)
{
    pg_trip trip = {.pg = pg};
    int status;

    pg_trip_add(&trip, pg_text_of(PG_SAVEPOINT), NULL);
    pg_trip_add(&trip, pg_text_of(PG_TX_PATH), NULL);
    pg_trip_add(&trip, pg_text_of(PG_TX_HERE), &g->place.identity);
    pg_trip_add(&trip, pg_text_of(PG_TX_BOUND), &g->bound);
    pg_trip_add(&trip, g->sql.data, &g->params);
    pg_trip_add(&trip, pg_text_of(PG_TX_UNBOUND), NULL);
    pg_trip_add(&trip, pg_text_of(PG_SAVEPOINT_RELEASE), NULL);
    status = run_surely(&trip, g->deadline, err);
    if (status == ROWLOCK_OK)
        status = conclude_guard(&trip, op, g->deadline, err);
    pg_trip_clear(&trip);
    return status;
}

int pg_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    guarding g = {.deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000};
    PGconn *pg = target->native;
    int was_nonblocking = PQisnonblocking(pg);
    int status = check(pg, err);
    char bound[16];

    if (status != ROWLOCK_OK)
        return status;
    snprintf(bound, sizeof bound, "%u", timeout_ms / 100 * LOCK_PERCENT + 1);
    g.place = place_of(target);
    render(&g.sql, PG_TX_GUARD, target, &g.place);
    guard_params(&g.params, op);
    pg_param(&g.bound);
    pg_put_bytes(&g.bound, bound, strlen(bound));
    if (g.sql.failed || g.params.bytes.failed || g.bound.bytes.failed ||
        g.place.identity.bytes.failed)
        status = rlk_fail_memory(err);
    else
        status = enter(pg, err);
    if (status == ROWLOCK_OK)
        status = leave(pg, was_nonblocking, guard_row(pg, op, &g, err), err);
    pg_params_free(&g.place.identity);
    pg_params_free(&g.params);
    pg_params_free(&g.bound);
    rlk_text_free(&g.sql);
    return status == ROWLOCK_OK ? rlk_ok(err) : status;
}

/* ---- the functions of rowlock/postgresql.h */

int rowlock_postgresql_lock(uint64_t *fences, rowlock_client *client, PGconn *conn,
                            const char *const *names, size_t n, const rowlock_tx_options *options,
                            rowlock_error *err)
{
    return rowlock_native_lock(fences, client, rowlock_postgresql(), conn, names, n, options, err);
}

int rowlock_postgresql_guard(rowlock_lock *lock, PGconn *conn, rowlock_error *err)
{
    return rowlock_native_guard(lock, rowlock_postgresql(), conn, err);
}

PGconn *rowlock_postgresql_connection(rowlock_tx *tx)
{
    return rowlock_native_connection(tx, rowlock_postgresql());
}
