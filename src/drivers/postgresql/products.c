/* SPDX-License-Identifier: MIT
 *
 * Servers that speak PostgreSQL's protocol but do not lock like PostgreSQL. They are told by what
 * they say of themselves, and refused: a lock that does not exclude is worse than none. What is not
 * in the table is taken for PostgreSQL; `diagnose` tries whether its locks exclude. */
#include "pg.h"

#include <string.h>

enum { OLDEST_VERSION = 120000 };

#define NO_ROW_LOCKS    "it has no row locks"
#define NO_TRANSACTIONS "it has no transactions"
#define MANY_CLOCKS     "each of its nodes has a clock of its own, and leases live by one"

/* One of the signs is enough; those that are NULL are none. */
typedef struct product {
    const char *name, *why;
    const char *version;           /* a part of version() */
    const char *parameter, *value; /* reported at the start; without a value: reported at all */
    const char *host;              /* a part of the host's name, which ends with `domain` */
    const char *domain;
    int has_dsql_version; /* sys.dsql_major_version() */
} product;

static const product products[] = {
    {"CockroachDB", "its advisory locks do nothing, and " MANY_CLOCKS, .version = "CockroachDB",
     .parameter = "crdb_version"},
    {"YugabyteDB", MANY_CLOCKS, .version = "-YB-"},
    {"Amazon Redshift", NO_ROW_LOCKS, .version = "Redshift"},
    {"Aurora DSQL", "it takes no locks, conflicts show at the commit", .host = ".dsql",
     .domain = ".on.aws", .has_dsql_version = 1},
    {"Spanner", "it has neither SKIP LOCKED nor advisory locks",
     .parameter = "session_authorization", .value = "PGAdapter"},
    {"Materialize", NO_ROW_LOCKS, .version = "(Materialize "},
    {"RisingWave", NO_TRANSACTIONS, .version = "RisingWave"},
    {"QuestDB", NO_ROW_LOCKS, .version = "QuestDB"},
    {"CrateDB", NO_TRANSACTIONS, .version = "CrateDB"},
    {"GreptimeDB", NO_TRANSACTIONS, .version = "GreptimeDB"},
    {"DuckDB", NO_ROW_LOCKS, .version = "DuckDB"},
    {"Greenplum", MANY_CLOCKS, .version = "(Greenplum "},
    {"Cloudberry", MANY_CLOCKS, .version = "Cloudberry"},
};

static int has_part(const char *text, const char *part)
{
    return text != NULL && part != NULL && strstr(text, part) != NULL;
}

static int has_end(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static int reports(const PGconn *pg, const product *p)
{
    const char *value = p->parameter == NULL ? NULL : PQparameterStatus(pg, p->parameter);

    return value != NULL && (p->value == NULL || strcmp(value, p->value) == 0);
}

static int is_it(const product *p, const PGconn *pg, const char *version, int has_dsql_version)
{
    const char *host = PQhost(pg);

    return has_part(version, p->version) ||
           has_part(PQparameterStatus(pg, "server_version"), p->version) || reports(pg, p) ||
           (has_part(host, p->host) && has_end(host, p->domain)) ||
           (p->has_dsql_version && has_dsql_version);
}

int pg_check_product(const PGconn *pg, const char *version, int has_dsql_version,
                     rowlock_error *err)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (is_it(&products[i], pg, version, has_dsql_version))
            return rlk_fail(err, ROWLOCK_ECONNECT,
                            "the server is %s, not PostgreSQL, and cannot be used for locks: %s",
                            products[i].name, products[i].why);
    }
    return ROWLOCK_OK;
}

int pg_check_age(const PGconn *pg, rowlock_error *err)
{
    const char *version = PQparameterStatus(pg, "server_version");

    if (PQserverVersion(pg) == 0 || PQserverVersion(pg) >= OLDEST_VERSION)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_ECONNECT,
                    "the server has version %.60s: PostgreSQL 12 or later is needed",
                    version == NULL ? "unknown" : version);
}
