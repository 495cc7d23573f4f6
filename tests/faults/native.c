/* SPDX-License-Identifier: MIT */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct native_kind native_postgresql, native_mysql, native_sqlite;

static const struct native_kind *const kinds[] = {
#ifdef ROWLOCK_HAVE_POSTGRESQL
    &native_postgresql,
#endif
#ifdef ROWLOCK_HAVE_MYSQL
    &native_mysql,
#endif
#ifdef ROWLOCK_HAVE_SQLITE
    &native_sqlite,
#endif
};

static const struct native_kind *kind(void)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (fault_is(kinds[i]->name))
            return kinds[i];
    abort();
}

int native_open(struct native *out, const char *address, unsigned flags)
{
    memset(out, 0, sizeof(*out));
    out->conn = kind()->open(address, flags);
    return out->conn != NULL ? 0 : -1;
}

void native_close(struct native *native)
{
    if (native->conn != NULL)
        kind()->close(native->conn);
    native->conn = NULL;
}

__attribute__((format(printf, 2, 0))) static int run(struct native *native, const char *format,
                                                     va_list arguments)
{
    char sql[2048];

    native->out[0] = '\0';
    vsnprintf(sql, sizeof(sql), format, arguments);
    return kind()->run(native, sql);
}

int native_run(struct native *native, const char *format, ...)
{
    va_list arguments;
    int failed;

    va_start(arguments, format);
    failed = run(native, format, arguments);
    va_end(arguments);
    return failed;
}

long long native_number(struct native *native, const char *format, ...)
{
    va_list arguments;
    char *field;
    int failed;

    va_start(arguments, format);
    failed = run(native, format, arguments);
    va_end(arguments);
    native->out[strcspn(native->out, "\n")] = '\0';
    if (failed || native->out[0] == '\0')
        return -1;
    native->out[strlen(native->out) - 1] = '\0';
    field = strrchr(native->out, '|');
    return strtoll(field != NULL ? field + 1 : native->out, NULL, 10);
}

int native_commit(struct native *native)
{
    return kind()->commit(native);
}

int native_lock(uint64_t *fences, rowlock_client *client, struct native *native,
                const char *const *names, size_t n, const rowlock_tx_options *options,
                rowlock_error *err)
{
    return kind()->lock(fences, client, native->conn, names, n, options, err);
}

int native_guard(rowlock_lock *lock, struct native *native, rowlock_error *err)
{
    return kind()->guard(lock, native->conn, err);
}

void native_borrow(struct native *out, rowlock_tx *tx)
{
    memset(out, 0, sizeof(*out));
    out->conn = kind()->connection(tx);
}

int native_drop(const char *table)
{
    struct native native;
    int failed = native_open(&native, fault.backend.address, 0);

    if (failed == 0 && fault_is("postgresql"))
        failed = native_run(&native, "SET lock_timeout = 5000");
    if (failed == 0 && fault_is("mysql"))
        failed = native_run(&native, "SET SESSION lock_wait_timeout = 5");
    if (failed == 0)
        failed = native_run(&native, "DROP TABLE %s%s", fault.prefix, table);
    native_close(&native);
    return failed;
}

/* Is the server's side of connection `id` still there? */
static int lives(struct native *by, long long id)
{
    if (fault_is("postgresql"))
        return native_number(by, "SELECT count(*) FROM pg_stat_activity WHERE pid = %lld", id) != 0;
    return native_number(by, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %lld",
                         id) != 0;
}

int native_kill(struct native *victim, struct native *by)
{
    int pg = fault_is("postgresql");
    long long id = pg ? native_number(victim, "SELECT pg_backend_pid()")
                      : native_number(victim, "SELECT CONNECTION_ID()");
    int failed;

    if (id <= 0)
        return -1;
    failed = pg ? native_run(by, "SELECT pg_terminate_backend(%lld)", id)
                : native_run(by, "KILL %lld", id);
    for (int i = 0; i < 5000 && !failed; i++) {
        if (!lives(by, id))
            return 0;
        process_sleep_ms(1);
    }
    return -1;
}
