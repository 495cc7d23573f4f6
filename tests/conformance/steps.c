/* SPDX-License-Identifier: MIT
 *
 * Interleavings: two or three sessions, each with a short script, stepped through ALL orders on
 * connections of their own. After every step a small model says what must be true:
 *
 *   - a lock that is certainly live is granted to nobody else, and is in the table as the model has
 * it
 *   - every new grant of a name carries a higher fence than all before
 *   - renew and release work for the tenure that is the newest and live, and for no other
 *
 * Leases end by the database's clock, which the model does not see. It keeps the earliest and the
 * latest time at which a lease can end, by the local clock; in between it accepts both answers. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

/* One letter for each step: A acquire, a acquire with the short lease, R renew, L release, F force,
 * P reap, X wait until the current lease has certainly ended. */
struct script {
    const char *sessions[3];
};

enum life { DEAD, MAYBE, LIVE };

struct session {
    void *conn;
    char owner[16];
    uint64_t fence; /* of the last grant it had */
};

struct world {
    struct fixture *f;
    const struct script *script;
    struct session sessions[3];
    int count;      /* of sessions */
    int runs;       /* orders tried */
    char trace[64]; /* the steps so far: "1A 2A 1L" */
    char name[32];  /* a fresh one for each order */
    int holder;     /* of the newest tenure; -1: never acquired, or certainly over */
    uint64_t fence; /* of the newest tenure, or of the force that ended it */
    uint32_t hold_count;
    int64_t ttl_us, earliest_end, latest_end;
    int64_t before, after; /* around the last call */
};

static void check_at(struct world *w, int good, const char *claim, int line)
{
    if (good)
        return;
    print_error("after steps %s: %s\n", w->trace, claim);
    _fail(__FILE__, line);
}
#define check(w, good, claim) check_at(w, good, claim, __LINE__)

/* Was the newest tenure live during the last call? */
static enum life life_of(const struct world *w)
{
    if (w->holder < 0 || w->before > w->latest_end)
        return DEAD;
    return w->after < w->earliest_end ? LIVE : MAYBE;
}

static int holds(const struct world *w, int who)
{
    return w->holder == who && w->sessions[who].fence == w->fence;
}

static void extend(struct world *w, int64_t ttl_us)
{
    if (w->before + ttl_us > w->earliest_end)
        w->earliest_end = w->before + ttl_us;
    if (w->after + ttl_us > w->latest_end)
        w->latest_end = w->after + ttl_us;
}

static void start_tenure(struct world *w, int who, const rowlock_op *op)
{
    check(w, op->fence > w->fence, "a new grant must have a higher fence");
    check(w, op->hold_count == 1, "a new grant must have the count 1");
    w->holder = who;
    w->hold_count = 1;
    w->fence = w->sessions[who].fence = op->fence;
    w->ttl_us = op->ttl_us;
    w->earliest_end = w->before + op->ttl_us;
    w->latest_end = w->after + op->ttl_us;
}

static void step_acquire(struct world *w, int who, int64_t ttl_us)
{
    struct session *s = &w->sessions[who];
    rowlock_op op = op_new(w->name, s->owner);
    op.ttl_us = ttl_us;
    w->before = now_us();
    int status = try_acquire(w->f, s->conn, &op);
    w->after = now_us();
    enum life life = life_of(w);
    if (life == LIVE && w->holder != who) {
        check(w, status == ROWLOCK_BUSY, "a live lock of another's must be busy");
        check(w, op.holder_fence == w->fence, "busy must tell the holder's fence");
        return;
    }
    check(w, status == ROWLOCK_OK || life == MAYBE, "a free or own lock must be granted");
    if (status != ROWLOCK_OK)
        return;
    int again = life != DEAD && w->holder == who && op.fence == w->fence;
    check(w, again || life != LIVE, "re-entry must keep the fence");
    if (!again) {
        start_tenure(w, who, &op);
        return;
    }
    check(w, op.hold_count == ++w->hold_count, "re-entry must count once");
    s->fence = op.fence;
    extend(w, ttl_us);
}

/* What renew and release have in common: may they succeed, must they? */
static void check_match(struct world *w, int who, int status)
{
    enum life life = holds(w, who) ? life_of(w) : DEAD;
    check(w, status == ROWLOCK_OK || status == ROWLOCK_LOST, "the answer must be OK or LOST");
    check(w, status == ROWLOCK_OK || life != LIVE, "the live holder must not be refused");
    check(w, status == ROWLOCK_LOST || life != DEAD, "who does not hold it must be refused");
    if (status == ROWLOCK_LOST && life == MAYBE)
        w->holder = -1;
}

/* A session that was never granted the lock tries with the fence of the one that was. */
static rowlock_op tenure_of(const struct world *w, int who)
{
    rowlock_op op = op_new(w->name, w->sessions[who].owner);
    op.fence = w->sessions[who].fence != 0 ? w->sessions[who].fence : w->fence;
    op.ttl_us = w->ttl_us != 0 ? w->ttl_us : LONG_US;
    return op;
}

static void step_renew(struct world *w, int who)
{
    rowlock_op op = tenure_of(w, who);
    w->before = now_us();
    int status = try_renew(w->f, w->sessions[who].conn, &op);
    w->after = now_us();
    check_match(w, who, status);
    if (status == ROWLOCK_OK)
        extend(w, op.ttl_us);
}

static void step_release(struct world *w, int who)
{
    rowlock_op op = tenure_of(w, who);
    w->before = now_us();
    int status = try_release(w->f, w->sessions[who].conn, &op);
    w->after = now_us();
    check_match(w, who, status);
    if (status != ROWLOCK_OK)
        return;
    check(w, op.hold_count == --w->hold_count, "release must take one hold");
    if (w->hold_count == 0)
        w->holder = -1;
}

static void step_force(struct world *w, int who)
{
    rowlock_op op = op_new(w->name, "");
    w->before = now_us();
    int status = try_force(w->f, w->sessions[who].conn, &op);
    w->after = now_us();
    enum life life = life_of(w);
    check(w, status == ROWLOCK_OK || life != LIVE, "a live lock must give way to force");
    check(w, status == ROWLOCK_LOST || life != DEAD, "there is nothing to force");
    if (status == ROWLOCK_OK) {
        struct row row = row_of(w->f, w->name);
        check(w, row.fence > w->fence, "force must raise the fence");
        w->fence = row.fence;
        w->holder = -1;
    }
}

static void step_reap(struct world *w, int who)
{
    uint64_t count = 0;
    rowlock_mark mark = {0};
    int status =
        w->f->driver->reap(w->sessions[who].conn, &count, &mark, 0, 1000, CALL_MS, &w->f->err);
    expect_ok(status, &w->f->err);
}

static void step_expire(struct world *w)
{
    if (w->holder >= 0 && w->ttl_us <= SHORT_US)
        sleep_us(w->latest_end + 1000 - now_us());
}

/* The table against the model. */
static void check_table(struct world *w)
{
    w->before = now_us();
    struct rows rows = rows_query(w->f, w->name, strlen(w->name), 0);
    w->after = now_us();
    enum life life = life_of(w);
    size_t count = rows.count;
    struct row row = {.fence = 0};
    if (count > 0)
        row = rows.items[0];
    rows_free(&rows);
    check(w, count <= 1, "there must be one row for one name");
    check(w, count == 1 || life != LIVE, "a live lock must be in the table");
    check(w, count == 0 || life != DEAD, "nobody may hold a lock that is over");
    if (count == 1) {
        check(w, row.fence == w->fence, "the row must have the fence of the newest grant");
        check(w, strcmp(row.owner, w->sessions[w->holder].owner) == 0, "the owner must be right");
        check(w, row.hold_count == w->hold_count, "the count must be right");
    }
}

static void take_step(struct world *w, int who, char step)
{
    size_t length = strlen(w->trace);
    snprintf(w->trace + length, sizeof(w->trace) - length, "%s%d%c", length > 0 ? " " : "", who + 1,
             step);
    switch (step) {
    case 'A':
        step_acquire(w, who, LONG_US);
        break;
    case 'a':
        step_acquire(w, who, SHORT_US);
        break;
    case 'R':
        step_renew(w, who);
        break;
    case 'L':
        step_release(w, who);
        break;
    case 'F':
        step_force(w, who);
        break;
    case 'P':
        step_reap(w, who);
        break;
    case 'X':
        step_expire(w);
        break;
    default:
        fail_msg("unknown step %c", step);
    }
    check_table(w);
}

/* Runs one order, given as the numbers of the sessions whose turn it is. */
static void run_order(struct world *w, const int *order, int n)
{
    size_t at[3] = {0, 0, 0};
    snprintf(w->name, sizeof(w->name), "steps/%05d", w->runs++);
    w->trace[0] = '\0';
    w->holder = -1;
    w->fence = 0;
    w->hold_count = 0;
    w->ttl_us = 0;
    for (int i = 0; i < w->count; i++)
        w->sessions[i].fence = 0;
    for (int i = 0; i < n; i++)
        take_step(w, order[i], w->script->sessions[order[i]][at[order[i]]++]);
}

/* All orders of the steps that are left, each session's own in their order. */
static void run_orders(struct world *w, int *order, int n, size_t *left)
{
    int done = 1;
    for (int i = 0; i < w->count; i++) {
        if (left[i] == 0)
            continue;
        done = 0;
        left[i]--;
        order[n] = i;
        run_orders(w, order, n + 1, left);
        left[i]++;
    }
    if (done)
        run_order(w, order, n);
}

static void run_script(struct fixture *f, const struct script *script, int expected_runs)
{
    struct world w = {.f = f, .script = script};
    int order[16];
    size_t left[3] = {0, 0, 0};
    for (; w.count < 3 && script->sessions[w.count] != NULL; w.count++) {
        struct session *s = &w.sessions[w.count];
        s->conn = another(f);
        snprintf(s->owner, sizeof(s->owner), "s%d", w.count + 1);
        left[w.count] = strlen(script->sessions[w.count]);
    }
    run_orders(&w, order, 0, left);
    assert_int_equal(w.runs, expected_runs);
}

static void test_two_sessions_renewing_never_hold_together(void **state)
{
    run_script(*state, &(struct script){{"ARL", "ARL"}}, 20);
}

static void test_two_sessions_reentering_never_hold_together(void **state)
{
    run_script(*state, &(struct script){{"AALL", "AL"}}, 15);
}

static void test_three_sessions_never_hold_together(void **state)
{
    run_script(*state, &(struct script){{"AL", "AL", "AL"}}, 90);
}

static void test_forced_sessions_never_hold_together(void **state)
{
    run_script(*state, &(struct script){{"ARL", "AL", "F"}}, 60);
}

static void test_forced_reentrant_sessions_never_hold_together(void **state)
{
    run_script(*state, &(struct script){{"AARL", "FAL"}}, 35);
}

static void test_reaping_between_sessions_never_lowers_the_fence(void **state)
{
    run_script(*state, &(struct script){{"ALA", "AL", "P"}}, 60);
}

static void test_expired_sessions_never_come_back(void **state)
{
    run_script(*state, &(struct script){{"aXRL", "aL"}}, 15);
}

static void test_expired_and_reaped_sessions_never_come_back(void **state)
{
    run_script(*state, &(struct script){{"aXL", "aRL", "P"}}, 140);
}

static const struct test_case cases[] = {
    CASE(test_two_sessions_renewing_never_hold_together),
    CASE(test_two_sessions_reentering_never_hold_together),
    CASE(test_three_sessions_never_hold_together),
    CASE(test_forced_sessions_never_hold_together),
    CASE(test_forced_reentrant_sessions_never_hold_together),
    CASE(test_reaping_between_sessions_never_lowers_the_fence),
    CASE(test_expired_sessions_never_come_back),
    CASE(test_expired_and_reaped_sessions_never_come_back),
};

const struct suite steps_suite = SUITE("steps", cases);
