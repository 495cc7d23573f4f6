/* SPDX-License-Identifier: MIT
 *
 * The network and the server's sessions. Messages of a connection arrive in order; a connection is
 * lost as a whole. */
#include <string.h>

#include "error.h"
#include "model.h"

enum { MOST_BLOCKED = 300 };

static sim_session *sessions; /* that have not ended, at one of both ends */
static uint64_t last_session, last_request, incarnation;
static int64_t down_until_us;
static sim_request *blocked[MOST_BLOCKED];
static size_t blocked_count;

int64_t net_last_trouble_us;

static void retry_blocked(void);

void net_reset(void)
{
    sessions = NULL;
    last_session = last_request = incarnation = 0;
    down_until_us = 0;
    blocked_count = 0;
    net_last_trouble_us = 0;
}

void net_trouble(int64_t until_us)
{
    if (until_us > net_last_trouble_us)
        net_last_trouble_us = until_us;
}

int net_is_calm(int64_t since_us)
{
    return net_last_trouble_us < since_us;
}

/* ---- on the way ---- */

static int64_t trip(const sim_process *process)
{
    int64_t us = rng_between(&sim_network, sim.trip_us / 2, sim.trip_us * 2), at = sim_now + us;

    if (sim_fault(FAULT_DELAY, &sim_network)) {
        at += rng_between(&sim_network, 1000, 1000000);
        net_trouble(at);
    }
    if (at < process->partitioned_until_us)
        at = process->partitioned_until_us + us;
    return at;
}

static int64_t to_server(sim_session *s)
{
    int64_t at = trip(s->process);

    if (at <= s->to_server_us)
        at = s->to_server_us + 1;
    return s->to_server_us = at;
}

static int64_t to_client(sim_session *s)
{
    int64_t at = trip(s->process);

    if (at <= s->to_client_us)
        at = s->to_client_us + 1;
    return s->to_client_us = at;
}

/* ---- sessions ---- */

static void unblock_session(const sim_session *s)
{
    size_t n = 0;

    for (size_t i = 0; i < blocked_count; i++) {
        if (blocked[i]->session != s)
            blocked[n++] = blocked[i];
    }
    blocked_count = n;
}

/* The server has noticed that the client is gone. */
static void end_session(void *arg)
{
    sim_session *s = arg;

    if (s->is_ended)
        return;
    s->is_ended = 1;
    s->process->sessions--;
    unblock_session(s);
    model_end_session(s);
    retry_blocked();
}

void net_disconnect(sim_session *s)
{
    s->is_known_dead = 1;
    if (!s->is_ended)
        sched_at(to_server(s), end_session, s);
}

void net_kill(const sim_process *process)
{
    for (sim_session *s = sessions; s != NULL; s = s->next) {
        if (s->process == process && !s->is_known_dead)
            net_disconnect(s);
    }
}

size_t net_sessions(const sim_process *process)
{
    size_t n = 0;

    for (const sim_session *s = sessions; s != NULL; s = s->next)
        n += s->process == process && !s->is_known_dead;
    return n;
}

static int fail_connect(const char *why, rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot connect: %s", why);
}

sim_session *net_connect(uint32_t timeout_ms, rowlock_error *err)
{
    sim_process *process = sched_process();
    int64_t start = sim_now, deadline = start + (int64_t)timeout_ms * 1000, at = trip(process);
    sim_session *s;

    if (at > deadline) {
        rlk_sleep_until(process_clock(process) + (int64_t)timeout_ms * 1000, NULL, 0);
        fail_connect("no answer in time", err);
        return NULL;
    }
    at += at - start < sim.trip_us * 2 ? at - start : sim.trip_us;
    while (sim_now < at)
        sched_wait(NULL, NULL, 0, at);
    if (sim_now < down_until_us || sim_fault(FAULT_REFUSED, &sim_network)) {
        net_trouble(sim_now);
        fail_connect("refused", err);
        return NULL;
    }
    if (sim.limit != 0 && !process->is_stranger && process->sessions >= sim.limit) {
        sim_note_fault(FAULT_LIMIT);
        fail_connect("too many connections", err);
        return NULL;
    }
    s = sim_alloc(sizeof *s);
    s->id = ++last_session;
    s->process = process;
    s->next = sessions;
    sessions = s;
    process->sessions++;
    trace("%s connects: session %llu", sched_name(sched_self()), (unsigned long long)s->id);
    return s;
}

void net_crash(int64_t down_us)
{
    incarnation++;
    down_until_us = sim_now + down_us;
    net_trouble(down_until_us);
    model_lose();
    for (size_t i = 0; i < blocked_count; i++)
        blocked[i]->is_blocked = 0;
    blocked_count = 0;
    for (sim_session *s = sessions; s != NULL; s = s->next) {
        if (!s->is_ended) {
            s->is_ended = 1;
            s->process->sessions--;
            s->in_transaction = 0;
        }
    }
    trace("the server crashes, and is back in %lld us", (long long)down_us);
}

/* ---- requests ---- */

sim_request *net_request(sim_session *session, request_kind kind)
{
    sim_request *r = sim_alloc(sizeof *r);

    r->kind = kind;
    r->number = ++last_request;
    r->session = session;
    return r;
}

static const char *copy_bytes(const char *bytes, size_t n)
{
    char *copy = sim_alloc(n + 1);

    memcpy(copy, bytes, n);
    return copy;
}

static void copy_op(rowlock_op *to, const rowlock_op *from)
{
    *to = *from;
    to->name = copy_bytes(from->name, from->name_length);
    to->owner = from->owner == NULL ? "" : copy_bytes(from->owner, strlen(from->owner));
    to->note = from->note == NULL ? "" : copy_bytes(from->note, strlen(from->note));
}

void net_ops(sim_request *r, const rowlock_op *ops, size_t n, const rowlock_op *more, size_t m)
{
    r->ops = sim_alloc((n + m) * sizeof *r->ops);
    r->n = n;
    r->m = m;
    for (size_t i = 0; i < n; i++)
        copy_op(&r->ops[i], &ops[i]);
    for (size_t i = 0; i < m; i++)
        copy_op(&r->ops[n + i], &more[i]);
}

static const char *const kinds[ASKS] = {
    "acquire", "renew",   "release", "exchange", "force", "reap",    "list",
    "version", "apply",   "prepare", "locate",   "lock",  "guard",   "begin",
    "end",     "enqueue", "turn",    "leave",    "look",  "waiters", "diagnose"};

static void describe(const sim_request *r, const char *what)
{
    char text[400] = "";
    size_t at = 0;

    if (!sim_is_traced)
        return;
    for (size_t i = 0; i < r->n + r->m && at < sizeof text - 80; i++) {
        const rowlock_op *op = &r->ops[i];

        at += (size_t)snprintf(text + at, sizeof text - at, " %s%s:%d", i == r->n ? "+ " : "",
                               op->name, op->status);
        if (op->fence != 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "(f%llu c%u)",
                                   (unsigned long long)(op->fence % 1000000000000), op->hold_count);
        if (op->ticket != 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "(t%llu)",
                                   (unsigned long long)(op->ticket % 1000000000));
    }
    trace("  request %llu (%s, session %llu) %s%s", (unsigned long long)r->number, kinds[r->kind],
          (unsigned long long)r->session->id, what, text);
}

static void on_answer(void *arg)
{
    sim_request *r = arg;

    if (r->is_given_up || r->session->is_known_dead || r->session->process->is_dead)
        return;
    r->is_answered = 1;
    sched_wake(r, 1);
}

static void answer(sim_request *r)
{
    if (r->is_repeat)
        return;
    if (sim_fault(FAULT_DROP_ANSWER, &sim_network)) {
        describe(r, "loses its answer");
        net_trouble(sim_now + r->bound_us);
        return;
    }
    sched_at(to_client(r->session), on_answer, r);
}

static void on_disk(void *arg)
{
    sim_request *r = arg;

    if (r->incarnation != incarnation)
        return;
    model_flush();
    answer(r);
}

static int64_t disk_us(void)
{
    if (!sim_fault(FAULT_SLOW_DISK, &sim_network))
        return rng_between(&sim_network, 50, 1500);
    net_trouble(sim_now + INT64_C(1000000));
    return rng_between(&sim_network, 10000, 800000);
}

/* 1: it was carried out. */
static int carry_out(sim_request *r, int is_last)
{
    int is_durable = 0;

    if (r->refusal == FAULT_DEADLOCK)
        r->rc = rlk_fail_native(&r->err, ROWLOCK_EDRIVER, 1213, "40001", 1, "deadlock");
    else if (r->refusal == FAULT_ERROR)
        r->rc = rlk_fail_native(&r->err, ROWLOCK_EDRIVER, 1142, "42000", 0, "not allowed");
    else if (!model_execute(r, is_last, &is_durable))
        return 0;
    describe(r, r->rc == ROWLOCK_OK ? "is carried out:" : "is refused:");
    digest(r->number * 31 + (uint64_t)r->rc);
    if (is_durable)
        sched_at(sim_now + disk_us(), on_disk, r);
    else
        answer(r);
    return 1;
}

static void on_patience(void *arg)
{
    sim_request *r = arg;
    size_t i = 0;

    if (!r->is_blocked)
        return;
    while (i < blocked_count && blocked[i] != r)
        i++;
    if (i == blocked_count)
        return;
    blocked[i] = blocked[--blocked_count];
    r->is_blocked = 0;
    if (!carry_out(r, 1))
        sim_fail("model", "request %llu waits beyond its end", (unsigned long long)r->number);
    retry_blocked();
}

static void retry_blocked(void)
{
    for (size_t i = 0; i < blocked_count && sim_failed[0] == '\0';) {
        sim_request *r = blocked[i];

        if (carry_out(r, 0)) {
            r->is_blocked = 0;
            blocked[i] = blocked[--blocked_count];
            i = 0;
        } else {
            i++;
        }
    }
}

void net_retry(void)
{
    retry_blocked();
}

static void on_cut(void *arg)
{
    sim_request *r = arg;

    if (r->is_given_up || r->is_answered || r->session->process->is_dead)
        return;
    r->is_cut = 1;
    sched_wake(r, 1);
}

/* There is no such session: the server says so, as a rule. */
static void reset(sim_request *r)
{
    net_trouble(sim_now + r->bound_us);
    if (rng_below(&sim_network, 4) != 0)
        sched_at(to_client(r->session), on_cut, r);
}

static void on_arrival(void *arg)
{
    sim_request *r = arg;

    if (r->incarnation != incarnation || (r->session->is_ended && !r->is_repeat)) {
        if (!r->is_repeat)
            reset(r);
        return;
    }
    r->since_us = sim_now;
    if (carry_out(r, 0)) {
        retry_blocked();
    } else if (!r->is_repeat && blocked_count < MOST_BLOCKED) {
        blocked[blocked_count++] = r;
        r->is_blocked = 1;
        if (!r->wait_forever)
            sched_at(sim_now + r->wait_us, on_patience, r);
    }
}

static void on_cancel(void *arg)
{
    ((sim_request *)arg)->is_cancelled = 1;
    retry_blocked();
}

/* ---- the call ---- */

static int is_read(request_kind kind)
{
    return kind == ASK_LIST || kind == ASK_VERSION || kind == ASK_LOCATE || kind == ASK_LOCK ||
           kind == ASK_GUARD || kind == ASK_WAITERS || kind == ASK_DIAGNOSE || kind == ASK_BEGIN;
}

static int is_repeatable(request_kind kind)
{
    return kind == ASK_ACQUIRE || kind == ASK_RENEW || kind == ASK_RELEASE || kind == ASK_FORCE;
}

static void repeat(const sim_request *r, int64_t at_us)
{
    sim_request *again = net_request(r->session, r->kind);

    again->number = r->number;
    again->all = r->all;
    again->is_repeat = 1;
    again->incarnation = r->incarnation;
    net_ops(again, r->ops, r->n, NULL, 0);
    sched_at(at_us + rng_between(&sim_network, 100, 4000000), on_arrival, again);
}

static void send_request(sim_request *r, int64_t timeout_us)
{
    sim_session *s = r->session;
    int64_t at;

    if (sim_fault(FAULT_LATE, &sim_network)) {
        s->to_server_us = sim_now + timeout_us + rng_between(&sim_network, 1, 4000000);
        net_trouble(s->to_server_us);
    }
    at = to_server(s);
    if (r->kind <= ASK_REAP || r->kind >= ASK_ENQUEUE) {
        if (sim_fault(FAULT_DEADLOCK, &sim_network))
            r->refusal = FAULT_DEADLOCK;
        else if (sim_fault(FAULT_ERROR, &sim_network))
            r->refusal = FAULT_ERROR;
        if (r->refusal != FAULTS)
            net_trouble(sim_now + 1);
    }
    if (sim_fault(FAULT_DROP_REQUEST, &sim_network)) {
        describe(r, "is lost");
        net_trouble(sim_now + timeout_us);
        return;
    }
    sched_at(at, on_arrival, r);
    if (is_repeatable(r->kind) && sim_fault(FAULT_REPEAT, &sim_network))
        repeat(r, at);
}

/* Resets the connection, before the request is sent or at some moment behind that. 1: before. */
static int cut(sim_request *r)
{
    sim_session *s = r->session;

    if (!sim_fault(FAULT_CUT, &sim_network))
        return 0;
    net_trouble(sim_now + 2000000);
    if (rng_below(&sim_network, 3) == 0) {
        sched_at(sim_now + rng_between(&sim_network, 0, 2000000), end_session, s);
        return 1;
    }
    sched_at(sim_now + rng_between(&sim_network, 0, 4 * sim.trip_us), on_cut, r);
    return 0;
}

static int any_set(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0 && seam_is_set(fds[i]))
            return 1;
    }
    return 0;
}

static int gone(const sim_request *r, rowlock_error *err)
{
    return rlk_fail_native(err, is_read(r->kind) ? ROWLOCK_ECONNECT : ROWLOCK_EUNKNOWN, 0, NULL, 1,
                           "connection lost");
}

int net_call(sim_request *r, uint32_t timeout_ms, const int *fds, int n_fds, rowlock_error *err)
{
    sim_session *s = r->session;
    const sim_process *p = s->process;
    int64_t timeout_us = (timeout_ms == 0 ? 1 : (int64_t)timeout_ms) * 1000;
    int64_t until = process_true_time(p, process_clock(p) + timeout_us);
    int is_asked_back = 0;

    sched_yield_point();
    r->refusal = FAULTS;
    r->incarnation = incarnation;
    r->bound_us = timeout_us;
    if (r->wait_us == 0 && r->kind <= ASK_REAP)
        r->wait_us = timeout_us * 3 / 4;
    if (s->is_known_dead || cut(r)) {
        s->is_known_dead = 1;
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "the connection is gone");
    }
    describe(r, "is sent:");
    send_request(r, timeout_us);
    while (!r->is_answered && !r->is_cut && sim_now < until && sim_failed[0] == '\0') {
        if (n_fds > 0 && !is_asked_back && any_set(fds, n_fds)) {
            is_asked_back = 1;
            sched_at(to_server(s), on_cancel, r);
        }
        sched_wait(r, fds, is_asked_back ? 0 : n_fds, until);
    }
    r->is_given_up = 1;
    if (!r->is_answered) {
        s->is_known_dead = 1;
        describe(r, r->is_cut ? "is cut" : "has no answer in time");
        if (!s->is_ended)
            sched_at(to_server(s), end_session, s);
        return gone(r, err);
    }
    sched_yield_point();
    if (r->rc < 0 && err != NULL)
        *err = r->err;
    return r->rc < 0 || r->rc == ROWLOCK_BUSY ? r->rc : rlk_ok(err);
}
