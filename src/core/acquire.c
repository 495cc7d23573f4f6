/* SPDX-License-Identifier: MIT
 *
 * Acquiring: one lock or many, at once or after a wait. All memory is had before the first request
 * goes out, so that a grant is never lost for want of it. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "text.h"

/* To give back what came too late, when the call's time is up. */
#define LEAST_UNDO_US INT64_C(30000)

/* To look who is in the way, when the wait is over. */
#define LEAST_LOOK_US INT64_C(10000)

/* One acquire or adopt call. Slot i of ops, tenures and locks is the i-th name in byte order;
 * order[i] is its place in the caller's array. The ops' names and owner are in the tenures, to
 * which the call has references of its own: others read them as long as it is in a queue. */
typedef struct acquisition {
    rowlock_client *client;
    rowlock_acquire_options options;
    const char *owner;
    int is_adopted; /* the hold is another's: it is not undone */
    int is_counted; /* among the client's acquiring calls; under the mutex */
    int64_t since_us;
    rlk_wait wait;
    size_t n;
    rowlock_op *ops;
    rlk_tenure **tenures;
    rowlock_lock **locks;
    size_t *order;
    rowlock_lock **out; /* of a call that waits in line */
    int is_granted;     /* there; it may have been too late */
    int is_late;        /* it was: there may be a hold, whose lease has ended here */
    int was_late;       /* one of the answers was */
    int has_remnant;    /* of the owner's own, which the last try found: see remnant.c */
    rowlock_op busy;    /* who was in the way of the last try; no name: none was made */
    rlk_conn *bell;     /* of a lock that was waited for, until its tenure has it; or NULL */
    char owner_buffer[ROWLOCK_OWNER_MAX + 1];
} acquisition;

static int is_watched(const rowlock_acquire_options *options)
{
    return options->renew || options->on_lost != NULL;
}

static int check(acquisition *a, rowlock_error *err)
{
    rowlock_acquire_options *options = &a->options;

    if (options->ttl_ms == 0)
        options->ttl_ms = a->client->ttl_us / 1000;
    if (options->note == NULL)
        options->note = "";
    if (rlk_check_reserved(options->reserved, "rowlock_acquire_options", err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    if (options->owner != NULL && rlk_check_owner(options->owner, err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    if (rlk_check_wait(options->wait_ms, err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    if (!rlk_is_printable(options->note, 0, ROWLOCK_NOTE_MAX))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the note is not at most %d bytes of UTF-8 without control characters",
                        ROWLOCK_NOTE_MAX);
    a->owner = options->owner != NULL ? options->owner : rlk_owner(a->client, a->owner_buffer);
    if (options->max_hold_ms != 0 && options->max_hold_ms < ROWLOCK_TTL_MIN_MS)
        return rlk_fail(err, ROWLOCK_EINVAL, "max_hold_ms of %lld is too short: give %lld or more",
                        (long long)options->max_hold_ms, (long long)ROWLOCK_TTL_MIN_MS);
    if (rlk_check_ttl(options->ttl_ms, err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    return is_watched(options) ? rlk_watch_start(a->client, err) : ROWLOCK_OK;
}

/* Under the mutex. */
static void count_acquiring(acquisition *a, int is_counted)
{
    a->client->acquiring += (uint32_t)(is_counted - a->is_counted);
    a->is_counted = is_counted;
}

static void discard(acquisition *a)
{
    rlk_mutex_lock(&a->client->mutex);
    count_acquiring(a, 0);
    for (size_t i = 0; i < a->n; i++) {
        if (a->tenures != NULL && a->tenures[i] != NULL)
            rlk_tenure_unref(a->tenures[i]);
        if (a->locks != NULL)
            free(a->locks[i]);
    }
    rlk_mutex_unlock(&a->client->mutex);
    free(a->ops);
    free(a->tenures);
    free(a->locks);
    free(a->order);
}

static int reserve(acquisition *a)
{
    int room;

    a->ops = calloc(a->n, sizeof *a->ops);
    a->tenures = calloc(a->n, sizeof(rlk_tenure *));
    a->locks = calloc(a->n, sizeof(rowlock_lock *));
    a->order = calloc(a->n, sizeof *a->order);
    if (a->ops == NULL || a->tenures == NULL || a->locks == NULL || a->order == NULL)
        return 0;
    rlk_mutex_lock(&a->client->mutex);
    room = rlk_tenures_reserve(&a->client->tenures, a->n);
    count_acquiring(a, 1);
    rlk_mutex_unlock(&a->client->mutex);
    return room;
}

/* Fills slot i. Memory for it has been had or is had here. */
static int prepare(acquisition *a, size_t i, const rlk_name *name, uint64_t fence)
{
    const rowlock_acquire_options *options = &a->options;
    rowlock_op *op = &a->ops[i];
    rlk_tenure *tenure = rlk_tenure_new(name->name, name->length, a->owner);

    a->tenures[i] = tenure;
    a->locks[i] = calloc(1, sizeof(rowlock_lock));
    if (tenure == NULL || a->locks[i] == NULL)
        return 0;
    tenure->ttl_us = a->options.ttl_ms * 1000;
    tenure->fence = fence;
    tenure->is_adopted = a->is_adopted != 0;
    a->locks[i]->on_lost = options->on_lost;
    a->locks[i]->lost_payload = options->lost_payload;
    a->locks[i]->renew = options->renew != 0;
    atomic_store(&a->locks[i]->lost_fd, -1);
    rlk_op_of(op, a->client, tenure);
    op->note = options->note;
    op->barge = options->barge != 0;
    if (options->max_hold_ms != 0 && options->max_hold_ms < options->ttl_ms)
        op->ttl_us = options->max_hold_ms * 1000;
    a->order[i] = name->number;
    return 1;
}

static int prepare_all(acquisition *a, const char *const *names, const size_t *lengths,
                       uint64_t fence, rowlock_error *err)
{
    rlk_name *sorted;
    int rc = rlk_names_sorted(&sorted, names, lengths, a->n, err);

    if (rc == ROWLOCK_OK && !reserve(a))
        rc = rlk_fail_memory(err);
    for (size_t i = 0; i < a->n && rc == ROWLOCK_OK; i++) {
        if (!prepare(a, i, &sorted[i], fence))
            rc = rlk_fail_memory(err);
    }
    free(sorted);
    return rc;
}

static int do_acquire(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    acquisition *a = arg;

    return rlk_send_acquire(client, conn, a->ops, a->n, 1, timeout_ms, err);
}

/* The lease never ends later than this. */
static void bound_hold(rlk_tenure *tenure, const rlk_sent *sent, int64_t max_hold_ms)
{
    if (max_hold_ms < (RLK_NEVER - sent->at_us) / 1000)
        atomic_store(&tenure->hold_until_us, sent->at_us + max_hold_ms * 1000);
    if (max_hold_ms <= tenure->ttl_us / 1000)
        atomic_store(&tenure->is_last, 1);
}

/* Under the mutex: the bell stays with the tenure until that is released. */
static void take_bell(acquisition *a, rlk_tenure *tenure)
{
    if (a->bell == NULL || tenure->bell != NULL)
        return;
    tenure->bell = a->bell;
    tenure->ticket = a->ops[0].ticket;
    a->bell = NULL;
}

/* The answer came when its lease had ended, so that it is no grant. */
static int too_late(acquisition *a, rowlock_error *err)
{
    a->is_late = a->was_late = 1;
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                           "the database took so long that the lease of %lld ms had ended",
                           (long long)a->options.ttl_ms);
}

/* Under the mutex: a tenure was re-entered that was lost here while the request was in flight. Lost
 * is for ever, so that this is no grant; what the answer says of the row is true. */
static int enters_a_lost_one(acquisition *a)
{
    int found = 0;

    for (size_t i = 0; i < a->n && !a->is_adopted; i++) {
        rlk_tenure *lost = rlk_tenures_lost(&a->client->tenures, a->tenures[i]);

        if (lost != NULL)
            rlk_tenure_outlives(lost, a->ops[i].remaining_us);
        found |= lost != NULL;
    }
    return found;
}

/* All granted: hand the handles out, unless the answer came so late that the lease is over. */
static int hand_out(acquisition *a, const rlk_sent *sent, rowlock_lock **out, rowlock_error *err)
{
    int64_t now = rlk_clock_us();

    for (size_t i = 0; i < a->n; i++) {
        memcpy(a->ops[i].seen, a->ops[i].attempt, sizeof a->ops[i].seen);
        memcpy(a->tenures[i]->seen, a->ops[i].attempt, sizeof a->tenures[i]->seen);
    }
    for (size_t i = 0; i < a->n; i++) {
        int64_t deadline = rlk_deadline(sent, a->ops[i].remaining_us, a->ops[i].ttl_us);

        if (now >= deadline)
            return too_late(a, err);
        a->tenures[i]->fence = a->ops[i].fence;
        a->tenures[i]->is_unknown = 0;
        a->tenures[i]->acquired_us = now;
        rlk_tenure_outlives(a->tenures[i], a->ops[i].remaining_us);
        if (a->options.max_hold_ms != 0)
            bound_hold(a->tenures[i], sent, a->options.max_hold_ms);
        rlk_tenure_prolong(a->tenures[i], deadline);
    }
    rlk_mutex_lock(&a->client->mutex);
    if (enters_a_lost_one(a)) {
        rlk_mutex_unlock(&a->client->mutex);
        return too_late(a, err);
    }
    for (size_t i = 0; i < a->n; i++) {
        a->locks[i]->client = a->client;
        a->locks[i]->tenure = rlk_tenures_attach(&a->client->tenures, a->tenures[i]);
        a->client->refs++;
        a->client->handles++;
        out[a->order[i]] = a->locks[i];
        take_bell(a, a->locks[i]->tenure);
        a->locks[i] = NULL;
    }
    rlk_watch_planned(a->client); /* another handle's tenure may have changed, or be over */
    rlk_mutex_unlock(&a->client->mutex);
    rlk_count(&a->client->counters.acquired, a->n);
    for (size_t i = 0; i < a->n; i++)
        rlk_emit_tenure(a->client, ROWLOCK_EVENT_ACQUIRED, out[i]->tenure, now - a->since_us);
    return rlk_ok(err);
}

static void count_outcome(const acquisition *a, int rc)
{
    rlk_counters *counters = &a->client->counters;

    rlk_count_time(counters->wait_buckets, rlk_clock_us() - a->since_us);
    if (rc == ROWLOCK_BUSY)
        rlk_count(&counters->busy, 1);
    else if (rc == ROWLOCK_TIMEOUT)
        rlk_count(&counters->timed_out, 1);
    else if (rc == ROWLOCK_CANCELLED)
        rlk_count(&counters->cancelled, 1);
}

/* One try. OK: handed out. BUSY is reported as such, or with another status. */
static int try_once(acquisition *a, int busy_as, rowlock_lock **out, rowlock_error *err)
{
    const rowlock_op *busy;
    rlk_sent sent;
    int64_t bound = rlk_wait_bound(&a->wait);
    int rc = rlk_remnants_look(&a->has_remnant, a->client, a->tenures, a->ops, a->n, bound, err);

    bound = rlk_wait_bound(&a->wait);
    if (rc == ROWLOCK_OK && !a->has_remnant)
        rc = a->n == 1 ? rlk_combine(a->client, RLK_ACQUIRE, a->ops, bound, &sent, err)
                       : rlk_call(a->client, bound, do_acquire, a, &sent, err);
    if (rc != ROWLOCK_OK)
        return rc;
    busy = rlk_obstacle(a->ops, a->n);
    if (busy == NULL)
        return hand_out(a, &sent, out, err);
    a->busy = *busy;
    return rlk_report_busy(a->options.holder, busy_as, busy, err);
}

/* BUSY with oneself as the live holder: somebody keeps the row locked for a moment, or a lease that
 * is lost here has not ended there. */
static int is_own(const acquisition *a)
{
    if (a->has_remnant)
        return 1;
    return a->n == 1 && a->busy.name != NULL && a->busy.remaining_us > 0 &&
           strcmp(a->busy.holder, a->owner) == 0;
}

/* Tries again and again, with no place in a queue. BUSY: it is time for one, `is_queue`. */
static int acquire_by_trying(acquisition *a, int is_queue, rowlock_lock **out, rowlock_error *err)
{
    int rc;

    do {
        const rowlock_op *busy = rlk_obstacle(a->ops, a->n);

        rc = rlk_wait_next(&a->wait, busy->remaining_us, err);
        if (rc == ROWLOCK_TIMEOUT)
            return rlk_report_busy(a->options.holder, ROWLOCK_TIMEOUT, busy, err);
        if (rc == ROWLOCK_OK)
            rc = try_once(a, ROWLOCK_BUSY, out, err);
    } while (rc == ROWLOCK_BUSY && (!is_queue || is_own(a)));
    return rc;
}

/* Tells who is in the way, by the last that is known; who stood behind others has not seen it, and
 * looks, unless the answer would hardly come in time: that would be unknown, and cost a connection.
 */
static int time_is_up(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    const rowlock_op *busy = rlk_obstacle(a->ops, a->n);

    if (busy == NULL && a->busy.name == NULL) {
        if (rlk_wait_bound(&a->wait) >= LEAST_LOOK_US)
            return try_once(a, ROWLOCK_TIMEOUT, out, err);
        a->ops[0].is_queue = 1;
        busy = &a->ops[0];
    }
    return rlk_report_busy(a->options.holder, ROWLOCK_TIMEOUT, busy != NULL ? busy : &a->busy, err);
}

static int was_granted(void *arg, rlk_conn *bell, const rlk_sent *sent, rowlock_error *err)
{
    acquisition *a = arg;
    int rc;

    a->is_granted = 1;
    a->bell = bell;
    rc = hand_out(a, sent, a->out, err);
    if (a->bell != NULL)
        rlk_pool_lose(a->client, RLK_USE_WAIT, a->bell);
    a->bell = NULL;
    return rc;
}

static int acquire_in_line(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    int rc;

    a->out = out;
    if (!a->options.renew) { /* it is released on the connection that it waits on */
        rlk_mutex_lock(&a->client->mutex);
        count_acquiring(a, 0);
        rlk_mutex_unlock(&a->client->mutex);
    }
    rc = rlk_queue_acquire(a->client, a->ops, a->n, &a->wait, was_granted, a, err);
    return rc == ROWLOCK_TIMEOUT && !a->is_granted ? time_is_up(a, out, err) : rc;
}

/* Now, or a moment ago. */
static int is_held(const acquisition *a)
{
    int yes;

    rlk_mutex_lock(&a->client->mutex);
    yes = rlk_tenures_has(&a->client->tenures, a->tenures[0]) ||
          rlk_tenures_remnant(&a->client->tenures, a->tenures[0]) != NULL;
    rlk_mutex_unlock(&a->client->mutex);
    return yes;
}

/* Does it have to stand behind others of this process, without a try? Not an owner that may hold
 * the lock already: that one re-enters. */
static int stands_behind(const acquisition *a)
{
    const rowlock_op *op = &a->ops[0];

    return a->n == 1 && a->owner == a->owner_buffer &&
           (rlk_line_exists(a->client, op->name, op->name_length) ||
            rlk_hand_exists(a->client, op)) &&
           !is_held(a);
}

/* `again`: after an answer that came too late; there may be a hold, so it is asked for at once. */
static int acquire_within(acquisition *a, int again, rowlock_lock **out, rowlock_error *err)
{
    int is_queue =
        a->client->driver.enqueue != NULL && a->options.wait_ms != 0 && !a->options.barge;
    int rc = ROWLOCK_BUSY;

    if (!is_queue || again || !stands_behind(a))
        rc = try_once(a, ROWLOCK_BUSY, out, err);
    if (rc != ROWLOCK_BUSY || a->options.wait_ms == 0)
        return rc;
    if (rlk_clock_us() >= a->wait.until_us)
        return time_is_up(a, out, err);
    if (!is_queue || is_own(a)) /* whoever re-enters must not stand behind those who wait for him */
        rc = acquire_by_trying(a, is_queue, out, err);
    return rc == ROWLOCK_BUSY ? acquire_in_line(a, out, err) : rc;
}

/* After an answer that came too late: is there time to ask again? With the same attempts, so that a
 * hold that was granted is not counted twice, and its lease begins anew. */
static int may_go_on(acquisition *a)
{
    if (!a->is_late || a->options.wait_ms == 0 || rlk_wait_look(&a->wait, NULL) != ROWLOCK_OK)
        return 0;
    a->is_late = a->is_granted = 0;
    for (size_t i = 0; i < a->n; i++)
        a->ops[i].ticket = 0; /* it was used */
    return 1;
}

/* Gives back what came too late. If that is why the call ends: says so, or why there was no time to
 * ask again. */
static int give_up(acquisition *a, int rc, rowlock_error *err)
{
    long long ttl_ms = (long long)a->options.ttl_ms;
    int64_t bound = rlk_wait_bound(&a->wait);

    if (a->is_late && a->options.wait_ms != 0)
        rc = rlk_wait_look(&a->wait, err);
    if (rlk_undo(a->client, a->ops, a->n, bound < LEAST_UNDO_US ? LEAST_UNDO_US : bound) !=
        ROWLOCK_OK)
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                               "the database took so long that the lease of %lld ms had ended, and "
                               "the hold could not be given back",
                               ttl_ms);
    if (a->is_late && rc == ROWLOCK_TIMEOUT)
        return rlk_fail_native(err, rc, 0, NULL, 1,
                               "the wait ended, and the database took so long that the lease of "
                               "%lld ms had ended",
                               ttl_ms);
    return rc;
}

/* A wait whose last request could not be sent in time, after the lock was seen to be held. */
static int is_over(const acquisition *a, int rc, const rowlock_error *err)
{
    return (rc == ROWLOCK_ECONNECT || rc == ROWLOCK_EDRIVER) &&
           err->native_code == ROWLOCK_NATIVE_NO_TIME && a->options.wait_ms != 0 &&
           a->busy.name != NULL && rlk_clock_us() >= a->wait.until_us;
}

/* An earlier call of this owner had no answer: with its attempt, what it may have got is not
 * counted twice. */
static void take_unknown_attempts(acquisition *a)
{
    rlk_mutex_lock(&a->client->mutex);
    for (size_t i = 0; i < a->n; i++) {
        rlk_tenure *left = rlk_tenures_take_unknown(&a->client->tenures, a->tenures[i]);

        if (left == NULL)
            continue;
        memcpy(a->ops[i].attempt, left->seen, sizeof left->seen);
        a->tenures[i]->is_unknown = 1;
        a->tenures[i]->row_until_us = left->row_until_us;
        rlk_tenure_unref(left);
    }
    rlk_mutex_unlock(&a->client->mutex);
}

/* It had no answer, either, or has not asked: the next call of this owner is to know. */
static void keep_unknown_attempts(acquisition *a, int rc)
{
    rlk_mutex_lock(&a->client->mutex);
    for (size_t i = 0; i < a->n; i++) {
        rlk_tenure *tenure = a->tenures[i];

        if (rc == ROWLOCK_EUNKNOWN) {
            tenure->is_unknown = 1;
            rlk_tenure_outlives(tenure, a->ops[i].ttl_us);
        }
        memcpy(tenure->seen, a->ops[i].attempt, sizeof tenure->seen);
        if (tenure->is_unknown)
            rlk_tenures_leave_behind(&a->client->tenures, tenure);
    }
    rlk_mutex_unlock(&a->client->mutex);
}

static int acquire(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    take_unknown_attempts(a);
    rc = acquire_within(a, 0, out, err);
    while (may_go_on(a))
        rc = acquire_within(a, 1, out, err);
    if (is_over(a, rc, err))
        rc = rlk_report_busy(a->options.holder, ROWLOCK_TIMEOUT, &a->busy, err);
    if (rc != ROWLOCK_OK && a->was_late)
        return give_up(a, rc, err);
    if (rc != ROWLOCK_OK)
        keep_unknown_attempts(a, rc);
    return rc;
}

static int do_adopt(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    rlk_sent sent;
    int rc = rlk_send_renew(a->client, a->ops, &sent, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (a->ops[0].status != ROWLOCK_OK)
        return rlk_fail(err, ROWLOCK_LOST, "no live lock of this name, owner and fence");
    return hand_out(a, &sent, out, err);
}

/* The last thing of all: from here on a handle may be reported lost, and released. */
static void watch_all(rowlock_client *client, rowlock_lock **out, size_t n)
{
    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++)
        rlk_watch_add(client, out[i]);
    rlk_watch_planned(client);
    rlk_mutex_unlock(&client->mutex);
}

/* What the three public functions share: come in, check, run, clean up, leave. */
static int run(rowlock_lock **out, rowlock_client *client, const char *const *names, size_t n,
               int many, uint64_t fence, const rowlock_acquire_options *options,
               int (*fn)(acquisition *a, rowlock_lock **out, rowlock_error *err),
               rowlock_error *err)
{
    acquisition a = {.client = client, .n = n, .is_adopted = fence != 0};
    int rc =
        rlk_options_copy(&a.options, sizeof a.options, options, "rowlock_acquire_options", err);

    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (a.options.holder != NULL)
        memset(a.options.holder, 0, sizeof *a.options.holder);
    rc = check(&a, err);
    if (rc == ROWLOCK_OK)
        rc = prepare_all(&a, names, many ? a.options.name_lengths : &a.options.name_length, fence,
                         err);
    rlk_wait_begin(&a.wait, client, a.options.wait_ms, a.options.cancel);
    a.since_us = a.wait.since_us;
    if (rc == ROWLOCK_OK) {
        rc = fn(&a, out, err);
        count_outcome(&a, rc);
    }
    discard(&a);
    if (rc == ROWLOCK_OK && is_watched(&a.options))
        watch_all(client, out, n);
    rlk_leave(client);
    return rc;
}

int rowlock_acquire(rowlock_lock **out, rowlock_client *client, const char *name,
                    const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    return run(out, client, &name, 1, 0, 0, options, acquire, err);
}

int rowlock_acquire_many(rowlock_lock **out, rowlock_client *client, const char *const *names,
                         size_t n, const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    for (size_t i = 0; i < n; i++)
        out[i] = NULL;
    if (rlk_check_names(names, n, err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    return run(out, client, names, n, 1, 0, options, acquire, err);
}

int rowlock_adopt(rowlock_lock **out, rowlock_client *client, const char *name, uint64_t fence,
                  const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    if (fence < 1 || fence > INT64_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "the fence is not one that rowlock gave");
    return run(out, client, &name, 1, 0, fence, options, do_adopt, err);
}

int rowlock_with(int *out, rowlock_client *client, const char *name,
                 const rowlock_acquire_options *options,
                 int (*fn)(rowlock_lock *lock, void *payload), void *payload, rowlock_error *err)
{
    rowlock_lock *lock = NULL;
    int result;
    int rc = fn == NULL ? rlk_fail(err, ROWLOCK_EINVAL, "fn is NULL")
                        : rowlock_acquire(&lock, client, name, options, err);

    if (rc != ROWLOCK_OK)
        return rc;
    result = fn(lock, payload);
    if (out != NULL)
        *out = result;
    return rowlock_release(&lock, err);
}
