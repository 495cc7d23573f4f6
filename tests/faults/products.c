/* SPDX-License-Identifier: MIT
 *
 * Products that speak PostgreSQL's protocol and do not lock like PostgreSQL: each is refused by its
 * name, by whatever it says of itself; PostgreSQL, in all its packages, is not. On a fake server.
 */
#include "fake_postgresql.h"
#include "refused.h"

#include <stdio.h>
#include <string.h>

struct product {
    const char *name;    /* in the message; NULL: it is PostgreSQL */
    const char *version; /* what version() says */
    const char *const *parameters;
    int is_dsql; /* it has DSQL's function */
};

#define REPORTS(...) ((const char *const[]){"client_encoding", "UTF8", __VA_ARGS__, NULL})

/* As the products themselves answer. */
static const struct product products[] = {
    {"CockroachDB", "CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/04, go1.23.7)",
     REPORTS("server_version", "13.0.0", "crdb_version", "CockroachDB CCL v25.2.1"), 0},
    {"CockroachDB", "CockroachDB OSS v22.1.0 (x86_64-pc-linux-gnu, built 2022/05/23, go1.17.6)",
     REPORTS("server_version", "13.0.0"), 0},
    {"YugabyteDB",
     "PostgreSQL 15.12-YB-2.25.2.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 19.1.0, "
     "64-bit",
     REPORTS("server_version", "15.12-YB-2.25.2.0-b0"), 0},
    {"YugabyteDB", "PostgreSQL 11.2-YB-2.18.1.0-b0 on x86_64-pc-linux-gnu, 64-bit",
     REPORTS("server_version", "11.2"), 0},
    {"Amazon Redshift",
     "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat "
     "3.4.2-6.fc3), Redshift 1.0.75008",
     REPORTS("server_version", "8.0.2"), 0},
    {"Aurora DSQL", "PostgreSQL 16.15", REPORTS("server_version", "16.15"), 1},
    {"Spanner", "PostgreSQL 14.1",
     REPORTS("server_version", "14.1", "application_name", "PGAdapter", "session_authorization",
             "PGAdapter"),
     0},
    {"Materialize", "PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize 26.36.0)",
     REPORTS("server_version", "9.5.0"), 0},
    {"RisingWave", "PostgreSQL 13.14.0-RisingWave-3.0.2 (391c3a16ef26)",
     REPORTS("server_version", "13.14.0"), 0},
    {"QuestDB", "PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB",
     REPORTS("server_version", "11.3"), 0},
    {"CrateDB", "CrateDB 5.10.0 (built a33862e/2025-02-09, Linux amd64, OpenJDK 64-Bit Server VM)",
     REPORTS("server_version", "14.0"), 0},
    {"GreptimeDB", "PostgreSQL 16.3 GreptimeDB 1.2.1", REPORTS("server_version", "16.3"), 0},
    {"DuckDB", "PostgreSQL 15.0 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit (Duckgres/DuckDB)",
     REPORTS("server_version", "15.0"), 0},
    {"Greenplum",
     "PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f) on x86_64-pc-linux-gnu",
     REPORTS("server_version", "12.12"), 0},
    {"Cloudberry",
     "PostgreSQL 14.4 (Apache Cloudberry 2.0.0-incubating build 1) on aarch64-unknown-linux-gnu",
     REPORTS("server_version", "14.4"), 0},
};

/* What its packagers and vendors call it. */
static const struct product originals[] = {
    {NULL, "PostgreSQL 17.2 (Debian 17.2-1.pgdg120+1) on x86_64-pc-linux-gnu, 64-bit",
     REPORTS("server_version", "17.2 (Debian 17.2-1.pgdg120+1)"), 0},
    {NULL, "PostgreSQL 12.22 on x86_64-pc-linux-musl, compiled by gcc (Alpine), 64-bit",
     REPORTS("server_version", "12.22"), 0},
    {NULL, "PostgreSQL 18.0 on x86_64-windows, compiled by msvc-19.44.35215, 64-bit",
     REPORTS("server_version", "18.0", "session_authorization", "pgadapter"), 0},
    {NULL, "PostgreSQL 16.4 (EnterpriseDB Advanced Server 16.4.1) on x86_64-pc-linux-gnu",
     REPORTS("server_version", "16.4.1"), 0},
    {NULL, "PostgreSQL 19beta1 on aarch64-unknown-linux-gnu", REPORTS("server_version", "19beta1"),
     0},
};

enum { PRODUCTS = sizeof(products) / sizeof(products[0]) };
enum { ORIGINALS = sizeof(originals) / sizeof(originals[0]) };

/* Opens a client on a server that says so; `does_all`: it also answers our first statement as
 * PostgreSQL does, and not with an error. */
static void open_on(const struct product *product, int does_all, rowlock_error *err)
{
    const uint8_t pid[] = {0, 0, FAKE_POSTGRESQL_PID >> 8, FAKE_POSTGRESQL_PID & 255};
    const uint8_t no = 0, is_dsql = (uint8_t)product->is_dsql;
    size_t length = strlen(product->version);
    const fake_answer answers[] = {
        {.to = "pg_is_in_recovery",
         .n = does_all ? 5 : 0,
         .fields = {{pid, 4}, {&no, 1}, {&no, 1}, {product->version, length}, {&is_dsql, 1}}},
        {.to = "version()", .n = 1, .fields = {{product->version, length}}},
        {.to = NULL},
    };
    const fake_plan plan = {.parameters = product->parameters, .answers = answers};
    fake_postgresql *fake = fake_postgresql_start(&plan);
    rowlock_client *client = NULL;
    char address[128];

    assert_non_null(fake);
    snprintf(address, sizeof(address), "postgresql://u@127.0.0.1:%d/db",
             (int)fake_postgresql_port(fake));
    fault_try_open(&client, address, NULL, err);
    assert_null(client);
    fake_postgresql_stop(fake);
}

static void assert_named(const struct product *product, const rowlock_error *err)
{
    print_message("%s\n", err->message);
    assert_int_equal(ROWLOCK_ECONNECT, err->status);
    assert_int_equal(0, err->retryable);
    assert_non_null(strstr(err->message, product->name));
    assert_non_null(strstr(err->message, "not PostgreSQL"));
    assert_null(strstr(err->message, "://"));
}

static void imitators_are_refused(void **state)
{
    rowlock_error err;

    (void)state;
    for (int i = 0; i < PRODUCTS; i++) {
        open_on(&products[i], 1, &err);
        assert_named(&products[i], &err);
        if (products[i].is_dsql)
            continue;
        open_on(&products[i], 0, &err);
        assert_named(&products[i], &err);
    }
}

/* The fake goes no further, and that is the error. */
static void postgresql_is_not(void **state)
{
    rowlock_error err;

    (void)state;
    for (int i = 0; i < 2 * ORIGINALS; i++) {
        open_on(&originals[i / 2], i % 2, &err);
        print_message("%s\n", err.message);
        assert_non_null(strstr(err.message, FAKE_POSTGRESQL_ERROR));
    }
}

/* DSQL does not do our first statement; it is known by its host name as well. */
static void dsql_by_its_host(void **state)
{
    static const char *const hosts[] = {"abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws",
                                        "abcdefghijklmnopqrstuvwxyz.dsql-a1b2.eu-west-2.on.aws"};
    const struct product product = {"Aurora DSQL", "PostgreSQL 16.15",
                                    REPORTS("server_version", "16.15"), 0};
    const fake_plan plan = {.parameters = product.parameters};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fake_postgresql *fake = fake_postgresql_start(&plan);
        rowlock_client *client = NULL;
        rowlock_error err;
        char address[256];

        assert_non_null(fake);
        snprintf(address, sizeof(address), "host=%s hostaddr=127.0.0.1 port=%d user=u dbname=db",
                 hosts[i], (int)fake_postgresql_port(fake));
        fault_try_open(&client, address, NULL, &err);
        assert_null(client);
        fake_postgresql_stop(fake);
        assert_named(&product, &err);
    }
}

static void old_versions_are_refused(void **state)
{
    const struct product olds[] = {
        {NULL, "PostgreSQL 11.22 on x86_64-pc-linux-gnu", REPORTS("server_version", "11.22"), 0},
        {NULL, "(openGauss 5.0.0 build a07d57c3)", REPORTS("server_version", "9.2.4"), 0},
    };
    rowlock_error err;

    (void)state;
    for (int i = 0; i < 4; i++) {
        open_on(&olds[i / 2], i % 2, &err);
        print_message("%s\n", err.message);
        assert_int_equal(ROWLOCK_ECONNECT, err.status);
        assert_int_equal(0, err.retryable);
        assert_non_null(strstr(err.message, "PostgreSQL 12"));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(imitators_are_refused),
        cmocka_unit_test(postgresql_is_not),
        cmocka_unit_test(dsql_by_its_host),
        cmocka_unit_test(old_versions_are_refused),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
