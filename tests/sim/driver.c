/* SPDX-License-Identifier: MIT
 *
 * The driver's slots: each becomes a request. */
#include <string.h>

#include "error.h"
#include "invariants.h"
#include "model.h"

#define PIECE_US INT64_C(3000000) /* of a wait for rows that is not in line */

typedef struct conn {
    sim_session *session;
} conn;

static sim_session *session_of(void *c)
{
    return ((conn *)c)->session;
}

static int drv_open(void *c, const rowlock_config *config, uint32_t timeout_ms, rowlock_error *err)
{
    rowlock_error local = {0};

    (void)config;
    ((conn *)c)->session = net_connect(timeout_ms, &local);
    if (((conn *)c)->session != NULL)
        return rlk_ok(err);
    if (err != NULL)
        *err = local;
    return ROWLOCK_ECONNECT;
}

static void drv_close(void *c)
{
    sim_session *s = session_of(c);

    if (s == NULL)
        return;
    if (!s->is_known_dead)
        net_disconnect(s);
    ((conn *)c)->session = NULL;
}

/* The answer, with the caller's own pointers. */
static void copy_back(rowlock_op *to, const rowlock_op *from)
{
    const char *name = to->name, *owner = to->owner, *note = to->note;

    *to = *from;
    to->name = name;
    to->owner = owner;
    to->note = note;
}

static void check_order(const rowlock_op *ops, size_t n, int may_be_twice)
{
    for (size_t i = 1; i < n; i++) {
        size_t a = ops[i - 1].name_length, b = ops[i].name_length;
        int order = memcmp(ops[i - 1].name, ops[i].name, a < b ? a : b);

        if (order > 0 || (order == 0 && (a > b || (a == b && !may_be_twice))))
            sim_fail("order", "operations are not in byte order, or one is there twice: %s, %s",
                     ops[i - 1].name, ops[i].name);
    }
}

static int send_ops(sim_request *r, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                    rowlock_error *err)
{
    int rc;

    check_order(ops, n, r->kind == ASK_LOOK);
    net_ops(r, ops, n, NULL, 0);
    rc = net_call(r, timeout_ms, NULL, 0, err);
    for (size_t i = 0; rc == ROWLOCK_OK && i < n; i++)
        copy_back(&ops[i], &r->ops[i]);
    return rc;
}

static int drv_acquire(void *c, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                       rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_ACQUIRE);

    r->all = all;
    return send_ops(r, ops, n, timeout_ms, err);
}

static int drv_renew(void *c, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    int rc = send_ops(net_request(session_of(c), ASK_RENEW), ops, n, timeout_ms, err);

    for (size_t i = 0; rc == ROWLOCK_OK && i < n; i++) {
        if (ops[i].status == ROWLOCK_LOST)
            invariants_told_lost(&ops[i]);
    }
    return rc;
}

static int drv_release(void *c, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    return send_ops(net_request(session_of(c), ASK_RELEASE), ops, n, timeout_ms, err);
}

static int drv_force(void *c, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    return send_ops(net_request(session_of(c), ASK_FORCE), op, 1, timeout_ms, err);
}

static int drv_exchange(void *c, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                        uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_EXCHANGE);
    int rc;

    check_order(releases, n, 0);
    check_order(acquires, m, 0);
    net_ops(r, releases, n, acquires, m);
    rc = net_call(r, timeout_ms, NULL, 0, err);
    for (size_t i = 0; rc == ROWLOCK_OK && i < n + m; i++)
        copy_back(i < n ? &releases[i] : &acquires[i - n], &r->ops[i]);
    return rc;
}

static int drv_reap(void *c, uint64_t *out, rowlock_mark *mark, int64_t retention_us,
                    uint32_t limit, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_REAP);
    int rc;

    r->mark = *mark;
    r->retention_us = retention_us;
    r->limit = limit;
    rc = net_call(r, timeout_ms, NULL, 0, err);
    *out = r->count;
    *mark = r->mark;
    return rc;
}

static int drv_list(void *c, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
                    uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_LIST);
    int rc;

    if (query->after != NULL)
        memcpy(r->mark.name, query->after, query->after_length);
    r->mark.length = query->after == NULL ? 0 : query->after_length;
    rc = net_call(r, timeout_ms, NULL, 0, err);
    for (size_t i = 0; rc == ROWLOCK_OK && i < r->row_count; i++) {
        const sim_row *f = &r->rows[i];
        int is_live = model_is_live(f);
        rowlock_row row = {.size = sizeof row,
                           .name = f->name,
                           .name_length = f->name_length,
                           .owner = f->owner,
                           .note = f->note,
                           .fence = f->fence,
                           .hold_count = f->hold_count,
                           .held_ms = (model_now() - f->acquire_time) / 1000,
                           .remaining_ms = (f->expire_time - model_now()) / 1000};

        if ((is_live || query->expired) && f->name_length >= query->starts_with_length &&
            (query->starts_with == NULL ||
             memcmp(f->name, query->starts_with, query->starts_with_length) == 0) &&
            fn(&row, payload) != 0)
            break;
    }
    return rc;
}

static int drv_version(void *c, int *out, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_VERSION);
    int rc = net_call(r, timeout_ms, NULL, 0, err);

    *out = r->version;
    return rc;
}

static int drv_apply(void *c, int from, int to, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_APPLY);

    r->from = from;
    r->to = to;
    return net_call(r, timeout_ms, NULL, 0, err);
}

/* ---- transactions ---- */

static int drv_prepare(void *c, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    return send_ops(net_request(session_of(c), ASK_PREPARE), ops, n, timeout_ms, err);
}

static int drv_locate(void *c, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err)
{
    int rc = net_call(net_request(session_of(c), ASK_LOCATE), timeout_ms, NULL, 0, err);

    snprintf(out, size, "here");
    return rc;
}

static sim_session *target_of(const rowlock_target *target)
{
    return target->conn != NULL ? session_of(target->conn) : target->native;
}

static int is_fit(const rowlock_target *target, rowlock_error *err)
{
    const sim_session *s = target_of(target);

    if (target->conn != NULL)
        return 1;
    if (s->is_known_dead) {
        rlk_fail(err, ROWLOCK_EINVAL, "the connection is gone");
        return 0;
    }
    if (!s->is_native)
        sim_fail("native", "a native call on a connection that is none");
    return 1;
}

static int drv_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
                    int in_line, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(target_of(target), ASK_LOCK);
    int64_t bound_us = (int64_t)timeout_ms * 1000;

    if (!is_fit(target, err))
        return ROWLOCK_EINVAL;
    if (n == 0)
        return rlk_ok(err);
    r->wait_forever = in_line && wait_ms == ROWLOCK_WAIT_FOREVER;
    r->wait_us = (int64_t)wait_ms * 1000;
    if (!in_line && r->wait_us > PIECE_US)
        r->wait_us = PIECE_US;
    if (r->wait_forever)
        r->wait_us = INT64_C(1000000000);
    bound_us += r->wait_us;
    return send_ops(r, ops, n, (uint32_t)(bound_us / 1000), err);
}

static int drv_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
                     rowlock_error *err)
{
    int rc;

    if (!is_fit(target, err))
        return ROWLOCK_EINVAL;
    rc = send_ops(net_request(target_of(target), ASK_GUARD), op, 1, timeout_ms, err);
    if (rc == ROWLOCK_OK && op->status == ROWLOCK_LOST)
        invariants_told_lost(op);
    return rc;
}

static int drv_end(void *c, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_END);

    r->commit = commit;
    return net_call(r, timeout_ms, NULL, 0, err);
}

static void *drv_native(void *c)
{
    session_of(c)->is_native = 1;
    return session_of(c);
}

/* ---- the queue ---- */

static int drv_enqueue(void *c, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                       uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_ENQUEUE);

    r->life_us = life_us;
    r->with_bell = with_bell;
    r->wait_us = with_bell ? (int64_t)ops[0].wait_ms * 1000 : 0;
    for (size_t i = 0; i < n; i++)
        ops[i].ticket = 0;
    return send_ops(r, ops, n, timeout_ms + (uint32_t)(r->wait_us / 1000), err);
}

static int drv_turn(void *c, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                    uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_TURN);
    int rc;

    r->wait_us = (int64_t)wait_ms * 1000;
    net_ops(r, op, 1, NULL, 0);
    rc = net_call(r, timeout_ms + wait_ms, fds, n_fds, err);
    if (rc == ROWLOCK_OK)
        copy_back(op, r->ops);
    return rc;
}

static int drv_leave(void *c, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    return send_ops(net_request(session_of(c), ASK_LEAVE), ops, n, timeout_ms, err);
}

static int drv_look(void *c, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
                    rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_LOOK);

    r->life_us = life_us;
    return send_ops(r, ops, n, timeout_ms, err);
}

static int drv_waiters(void *c, const rowlock_list_query *query, rowlock_waiter_fn fn,
                       void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    sim_request *r = net_request(session_of(c), ASK_WAITERS);
    int rc = net_call(r, timeout_ms, NULL, 0, err);

    (void)query;
    for (size_t i = 0; rc == ROWLOCK_OK && i < r->ticket_count; i++) {
        const sim_ticket *t = &r->tickets[i];
        rowlock_waiter waiter = {.size = sizeof waiter,
                                 .name = t->name,
                                 .name_length = t->name_length,
                                 .owner = t->owner,
                                 .ticket = t->number,
                                 .waited_ms = (model_now() - t->since_time) / 1000,
                                 .remaining_ms = (t->expire_time - model_now()) / 1000};

        if (fn(&waiter, payload) != 0)
            break;
    }
    return rc;
}

static int drv_diagnose(void *c, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                        rowlock_error *err)
{
    const rowlock_finding finding = {.size = sizeof finding,
                                     .grade = ROWLOCK_GRADE_GOOD,
                                     .subject = "server",
                                     .message = "a model"};
    int rc = net_call(net_request(session_of(c), ASK_DIAGNOSE), timeout_ms, NULL, 0, err);

    if (rc == ROWLOCK_OK)
        fn(&finding, payload);
    return rc;
}

const rowlock_driver *sim_driver(void)
{
    static const rowlock_migration steps[] = {
        {.version = 1, .name = "locks", .up = "CREATE\n", .down = "DROP\n"}};
    static rowlock_driver driver;

    driver = (rowlock_driver){.size = sizeof driver,
                              .name = "sim",
                              .conn_size = sizeof(conn),
                              .quote = '"',
                              .has_schemas = 1,
                              .migration_count = 1,
                              .migrations = steps,
                              .open = drv_open,
                              .close = drv_close,
                              .acquire = drv_acquire,
                              .renew = drv_renew,
                              .release = drv_release,
                              .force_release = drv_force,
                              .reap = drv_reap,
                              .list = drv_list,
                              .schema_version = drv_version,
                              .schema_apply = drv_apply,
                              .diagnose = drv_diagnose,
                              .has_one_writer = (uint8_t)sim.has_one_writer};
    if (sim.has_tx) {
        driver.prepare = drv_prepare;
        driver.locate = drv_locate;
        driver.lock = drv_lock;
        driver.guard = drv_guard;
        driver.end = drv_end;
        driver.native = drv_native;
    }
    if (sim.has_queue) {
        driver.enqueue = drv_enqueue;
        driver.turn = drv_turn;
        driver.leave = drv_leave;
        driver.look = drv_look;
        driver.waiters = drv_waiters;
    }
    if (sim.has_exchange)
        driver.exchange = drv_exchange;
    return &driver;
}

/* ---- the application's own connections ---- */

enum { NATIVE_MS = 5000 };

sim_session *native_open(rowlock_error *err)
{
    sim_session *s = net_connect(NATIVE_MS, err);

    if (s != NULL)
        s->is_native = 1;
    return s;
}

int native_begin(sim_session *session, rowlock_error *err)
{
    return net_call(net_request(session, ASK_BEGIN), NATIVE_MS, NULL, 0, err);
}

int native_end(sim_session *session, int commit, rowlock_error *err)
{
    sim_request *r = net_request(session, ASK_END);

    r->commit = commit;
    return net_call(r, NATIVE_MS, NULL, 0, err);
}

void native_close(sim_session *session)
{
    if (!session->is_known_dead)
        net_disconnect(session);
}
