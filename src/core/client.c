/* SPDX-License-Identifier: MIT
 *
 * Opening, closing, and who may come in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"
#include "text.h"

#define DEFAULT_PREFIX             "rowlock_"
#define DEFAULT_TTL_MS             30000
#define DEFAULT_CALL_TIMEOUT_MS    5000
#define DEFAULT_CONNECT_TIMEOUT_MS 3000
#define DEFAULT_MAX_CONNECTIONS    5
#define DEFAULT_TICKET_MS          5000
#define DEFAULT_SPIN_US            500
#define SHORTEST_TICKET_MS         1000
#define LONGEST_TIMEOUT_MS         ((int64_t)86400000)

enum { MOST_VAIN = 100 }; /* batches in which every row had been changed by others */

int rlk_enter(rowlock_client *client, rowlock_error *err)
{
    int closed;

    if (client == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the client is NULL: closed, or never opened");
    if (client->pid != rlk_getpid())
        return rlk_fail(err, ROWLOCK_EFORK,
                        "the client was opened before fork(): open one in this process");
    rlk_mutex_lock(&client->mutex);
    closed = atomic_load(&client->closed);
    if (!closed)
        client->calls++;
    rlk_mutex_unlock(&client->mutex);
    if (closed)
        return rlk_fail(err, ROWLOCK_ECLOSED, "the client is closed");
    rlk_cancel_disable();
    return rlk_ok(err);
}

void rlk_leave(rowlock_client *client)
{
    rlk_mutex_lock(&client->mutex);
    client->calls--;
    /* Under the mutex: once it is free and calls is zero, close may free the client. */
    rlk_cond_broadcast(&client->changed);
    rlk_mutex_unlock(&client->mutex);
    rlk_cancel_enable();
}

static void wipe_and_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void destroy(rowlock_client *client)
{
    if (client->close_fd >= 0)
        rlk_event_free(client->close_fd);
    rlk_cond_destroy(&client->changed);
    rlk_mutex_destroy(&client->mutex);
    wipe_and_free(client->address);
    free(client->prefix);
    free(client->schema);
    free(client->place);
    free(client->owner);
    free(client->tenures.slots);
    rlk_combiners_free(client);
    rlk_watch_free(client);
    free(client);
}

void rlk_client_unref(rowlock_client *client)
{
    size_t left;

    rlk_mutex_lock(&client->mutex);
    left = --client->refs;
    rlk_mutex_unlock(&client->mutex);
    if (left == 0)
        destroy(client);
}

static int check_timeout(int64_t timeout_ms, const char *field, rowlock_error *err)
{
    if (timeout_ms < 1 || timeout_ms > LONGEST_TIMEOUT_MS)
        return rlk_fail(err, ROWLOCK_EINVAL, "%s of %lld is not possible: give 1 ms to 24 hours",
                        field, (long long)timeout_ms);
    return ROWLOCK_OK;
}

static int check_options(const rowlock_driver *driver, rowlock_options *options, rowlock_error *err)
{
    int rc = rlk_check_tables(driver, options, err);

    if (options->prefix == NULL)
        options->prefix = DEFAULT_PREFIX;
    if (options->ttl_ms == 0)
        options->ttl_ms = DEFAULT_TTL_MS;
    if (options->call_timeout_ms == 0)
        options->call_timeout_ms = DEFAULT_CALL_TIMEOUT_MS;
    if (options->connect_timeout_ms == 0)
        options->connect_timeout_ms = DEFAULT_CONNECT_TIMEOUT_MS;
    if (options->max_connections == 0)
        options->max_connections = DEFAULT_MAX_CONNECTIONS;
    if (options->spin_us == 0)
        options->spin_us = DEFAULT_SPIN_US;
    if (options->max_wait_connections == 0)
        options->max_wait_connections = DEFAULT_MAX_CONNECTIONS;
    if (options->ticket_ms == 0)
        options->ticket_ms = DEFAULT_TICKET_MS;
    if (rc == ROWLOCK_OK && options->owner != NULL)
        rc = rlk_check_owner(options->owner, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_check_ttl(options->ttl_ms, err);
    if (rc == ROWLOCK_OK)
        rc = check_timeout(options->call_timeout_ms, "call_timeout_ms", err);
    if (rc == ROWLOCK_OK)
        rc = check_timeout(options->connect_timeout_ms, "connect_timeout_ms", err);
    if (rc == ROWLOCK_OK &&
        (options->ticket_ms < SHORTEST_TICKET_MS || options->ticket_ms > LONGEST_TIMEOUT_MS))
        rc = rlk_fail(err, ROWLOCK_EINVAL,
                      "ticket_ms of %lld is not possible: give %d ms to 24 hours",
                      (long long)options->ticket_ms, SHORTEST_TICKET_MS);
    if (rc == ROWLOCK_OK && options->reap_interval_ms != 0)
        rc = check_timeout(options->reap_interval_ms, "reap_interval_ms", err);
    if (rc == ROWLOCK_OK)
        rc = rlk_check_retention(&options->reap_retention_ms, err);
    if (rc == ROWLOCK_OK && (options->schema_policy < ROWLOCK_SCHEMA_REQUIRE ||
                             options->schema_policy > ROWLOCK_SCHEMA_IGNORE))
        rc = rlk_fail(err, ROWLOCK_EINVAL, "schema_policy %d does not exist",
                      (int)options->schema_policy);
    if (rc == ROWLOCK_OK &&
        (options->durability < ROWLOCK_DURABLE || options->durability > ROWLOCK_RELAXED))
        rc =
            rlk_fail(err, ROWLOCK_EINVAL, "durability %d does not exist", (int)options->durability);
    if (rc == ROWLOCK_OK && options->spin_us > ROWLOCK_SPIN_MAX_US &&
        options->spin_us != ROWLOCK_SPIN_NEVER)
        rc = rlk_fail(err, ROWLOCK_EINVAL, "spin_us of %lu is too long: give %d or less",
                      (unsigned long)options->spin_us, ROWLOCK_SPIN_MAX_US);
    return rc;
}

/* strdup() that lets NULL through; *failed is set when memory is out. */
static char *copy_of(const char *string, int *failed)
{
    char *copy = string == NULL ? NULL : strdup(string);

    if (string != NULL && copy == NULL)
        *failed = 1;
    return copy;
}

static int create(rowlock_client **out, const rowlock_driver *driver, const char *address,
                  const rowlock_options *options, rowlock_error *err)
{
    rowlock_client *client = calloc(1, sizeof *client);
    int failed = 0, no_random, rc;

    if (client == NULL)
        return rlk_fail_memory(err);
    client->driver = *driver;
    client->pid = rlk_getpid();
    client->refs = 1;
    client->ttl_us = options->ttl_ms * 1000;
    client->call_timeout_us = options->call_timeout_ms * 1000;
    client->connect_timeout_us = options->connect_timeout_ms * 1000;
    client->ticket_us = options->ticket_ms * 1000;
    client->is_relaxed = options->durability == ROWLOCK_RELAXED;
    client->spin_us = options->spin_us != ROWLOCK_SPIN_NEVER ? options->spin_us : 0;
    client->max_connections[RLK_USE_CALL] = options->max_connections;
    client->max_connections[RLK_USE_TX] = options->max_connections;
    client->max_connections[RLK_USE_WAIT] = options->max_wait_connections;
    client->on_event = options->on_event;
    client->event_payload = options->event_payload;
    client->reap_interval_us = options->reap_interval_ms * 1000;
    client->reap_retention_us = options->reap_retention_ms * 1000;
    no_random = rlk_owner_head(client->owner_head, sizeof client->owner_head);
    if (no_random == 0)
        no_random = rlk_random(&client->attempt, sizeof client->attempt);
    rlk_mutex_init(&client->mutex);
    rlk_cond_init(&client->changed);
    client->address = copy_of(address, &failed);
    client->prefix = copy_of(options->prefix, &failed);
    client->schema = copy_of(options->schema, &failed);
    client->owner = copy_of(options->owner, &failed);
    client->close_fd = rlk_event_new();
    if (failed)
        rc = rlk_fail_memory(err);
    else if (no_random != 0)
        rc = rlk_fail(err, ROWLOCK_ENOMEM,
                      "cannot get random bytes from the kernel: %s: allow getrandom() or "
                      "/dev/urandom",
                      strerror(no_random));
    else if (client->close_fd < 0)
        rc = rlk_fail(err, ROWLOCK_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
    else
        rc = rlk_watch_init(client, err);
    if (rc == ROWLOCK_OK)
        *out = client;
    else
        destroy(client);
    return rc;
}

/* One attempt: a wrong address is told at once, not after retries. */
static int connect_once(rowlock_client *client, rowlock_error *err)
{
    rlk_conn *conn;
    int rc =
        rlk_pool_get(&conn, client, RLK_USE_CALL, rlk_clock_us() + client->connect_timeout_us, err);

    if (rc == ROWLOCK_OK)
        rlk_pool_put(client, conn);
    return rc;
}

/* All connections of a client use the same tables: where the first one has found them. */
static int keep_schema(rowlock_client *client, rowlock_error *err)
{
    const char *found;
    int failed = 0;

    if (client->schema != NULL || client->driver.schema_of == NULL || client->idle == NULL)
        return ROWLOCK_OK;
    found = client->driver.schema_of(client->idle->state);
    client->schema = copy_of(found, &failed);
    return failed ? rlk_fail_memory(err) : ROWLOCK_OK;
}

static int open_client(rowlock_client **out, const rowlock_driver *driver, const char *address,
                       const rowlock_options *options, rowlock_error *err)
{
    rowlock_client *client = NULL;
    rowlock_driver table;
    rowlock_options opts;
    int rc;

    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    if (address == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the address is NULL");
    rc = rlk_driver_check(&table, driver, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_options_copy(&opts, sizeof opts, options, "rowlock_options", err);
    if (rc == ROWLOCK_OK)
        rc = check_options(&table, &opts, err);
    if (rc == ROWLOCK_OK)
        rc = create(&client, &table, address, &opts, err);
    if (rc != ROWLOCK_OK)
        return rc;
    client->may_create = opts.schema_policy != ROWLOCK_SCHEMA_REQUIRE;
    rc = connect_once(client, err);
    client->may_create = 0;
    if (rc == ROWLOCK_OK)
        rc = rlk_schema_check(client, opts.schema_policy, err);
    if (rc == ROWLOCK_OK)
        rc = keep_schema(client, err);
    if (rc == ROWLOCK_OK && client->reap_interval_us > 0)
        rc = rlk_watch_start(client, err);
    if (rc != ROWLOCK_OK) {
        rlk_watch_end(client); /* one of two threads may have been started */
        rlk_pool_close_idle(client);
        rlk_client_unref(client);
        return rc;
    }
    *out = client;
    return rlk_ok(err);
}

int rowlock_open(rowlock_client **out, const rowlock_driver *driver, const char *address,
                 const rowlock_options *options, rowlock_error *err)
{
    int rc;

    rlk_cancel_disable();
    rc = open_client(out, driver, address, options, err);
    rlk_cancel_enable();
    return rc;
}

/* What a tenure has still to give back at close. */
typedef struct debt {
    rlk_tenure *tenure;
    uint32_t holds;
} debt;

typedef struct settlement {
    debt *debts; /* by name */
    size_t count;
    rowlock_op *ops; /* a batch, and which debt each op pays */
    size_t *debt_of;
} settlement;

/* One batch: no name twice, one hold each where other processes may hold in the same owner's name.
 */
static size_t next_batch(rowlock_client *client, settlement *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->count && n < ROWLOCK_BATCH_MAX; i++) {
        const rlk_tenure *tenure = s->debts[i].tenure;
        const rowlock_op *last = n == 0 ? NULL : &s->ops[n - 1];

        if (s->debts[i].holds == 0 || (last != NULL && last->name_length == tenure->name_length &&
                                       memcmp(last->name, tenure->name, tenure->name_length) == 0))
            continue;
        rlk_op_of(&s->ops[n], client, tenure);
        s->debt_of[n++] = i;
    }
    return n;
}

/* Notes what a batch has paid. Returns how much; BUSY is tried again with what was seen. */
static size_t settle(settlement *s, size_t n, const rlk_sent *sent)
{
    size_t paid = 0;

    for (size_t i = 0; i < n; i++) {
        debt *d = &s->debts[s->debt_of[i]];
        const rowlock_op *op = &s->ops[i];

        if (op->status == ROWLOCK_BUSY && !sent->repeated) {
            memcpy(d->tenure->seen, op->seen, sizeof op->seen);
            continue;
        }
        memcpy(d->tenure->seen, op->attempt, sizeof op->attempt);
        d->holds = op->status != ROWLOCK_OK ? 0 : d->holds - 1;
        paid++;
    }
    return paid;
}

/* Releases what is held. Whatever fails is left to its lease. */
static void release_all(rowlock_client *client)
{
    settlement s = {0};
    rlk_tenure **all = rlk_tenures_all(&client->tenures, &s.count);
    int vain = 0;
    size_t n;

    if (s.count > 0) {
        size_t room = s.count < ROWLOCK_BATCH_MAX ? s.count : ROWLOCK_BATCH_MAX;

        s.debts = calloc(s.count, sizeof *s.debts);
        s.ops = calloc(room, sizeof *s.ops);
        s.debt_of = calloc(room, sizeof *s.debt_of);
    }
    if (s.debts != NULL && s.ops != NULL && s.debt_of != NULL) {
        rlk_sent sent;

        qsort(all, s.count, sizeof(rlk_tenure *), rlk_tenure_by_name);
        for (size_t i = 0; i < s.count; i++)
            s.debts[i] = (debt){all[i], rlk_tenure_is_lost(all[i]) ? 0 : all[i]->handles};
        while (vain < MOST_VAIN && (n = next_batch(client, &s)) > 0 &&
               rlk_send_release(client, s.ops, n, client->call_timeout_us, &sent, NULL) ==
                   ROWLOCK_OK)
            vain += settle(&s, n, &sent) == 0;
    }
    free(s.debt_of);
    free(s.ops);
    free(s.debts);
    free(all);
}

static void close_client(rowlock_client *c)
{
    rlk_mutex_lock(&c->mutex);
    atomic_store(&c->closed, 1);
    rlk_event_set(c->close_fd);
    rlk_cond_broadcast(&c->changed);
    while (c->calls > 0)
        rlk_cond_wait(&c->changed, &c->mutex, RLK_NEVER);
    rlk_mutex_unlock(&c->mutex);
    rlk_watch_end(c);
    c->settling = 1;
    release_all(c);
    rlk_bells_drop(c);
    rlk_mutex_lock(&c->mutex);
    rlk_tenures_clear(&c->tenures);
    rlk_mutex_unlock(&c->mutex);
    rlk_pool_close_idle(c);
    rlk_client_unref(c);
}

void rowlock_close(rowlock_client **client)
{
    rowlock_client *c = client == NULL ? NULL : *client;

    if (c == NULL)
        return;
    *client = NULL;
    /* In a child process everything here is the parent's: sockets, file locks, a mutex in whatever
     * state it was. Nothing of it may be touched. */
    if (c->pid != rlk_getpid())
        return;
    rlk_cancel_disable();
    close_client(c);
    rlk_cancel_enable();
}
