/* SPDX-License-Identifier: MIT
 *
 * Servers that speak the protocol but do not lock like InnoDB. They are told by what they say of
 * themselves, and refused: a lock that does not exclude is worse than none. What is not in the
 * table is taken for MySQL or MariaDB; `diagnose` tries whether its locks exclude. */
#include <string.h>

#include "my.h"

#define NO_ROW_LOCKS  "it has no row locks"
#define MANY_SERVERS  "it is several servers, each with a clock and with named locks of its own"
#define NOT_AS_INNODB "it is not known to lock rows as InnoDB does"

/* One of the signs is enough; upper and lower case are the same. */
typedef struct product {
    const char *name, *why;
    const char *version; /* a part of the greeting's version, of VERSION() or of the comment */
    const char *comment; /* a part of @@version_comment alone; NULL: none */
} product;

static const product products[] = {
    {"TiDB", "its SKIP LOCKED and FOR SHARE take no locks", "TiDB", NULL},
    {"Vitess (PlanetScale)", MANY_SERVERS, "Vitess", "(Git revision "},
    {"SingleStore", NOT_AS_INNODB, "SingleStore", "MemSQL"},
    {"OceanBase", NOT_AS_INNODB, "OceanBase", NULL},
    {"PolarDB-X", MANY_SERVERS, "-TDDL-", "PolarDB-X"},
    {"MatrixOne", NOT_AS_INNODB, "MatrixOne", NULL},
    {"Dolt", "it takes no row locks, conflicts show at the commit", "-Dolt", "Dolt"},
    {"StarRocks", NO_ROW_LOCKS, "StarRocks", NULL},
    {"Apache Doris", NO_ROW_LOCKS, "doris-", "Doris"},
    {"ClickHouse", NO_ROW_LOCKS, "ClickHouse", NULL},
    {"Databend", NO_ROW_LOCKS, "(rust-", "Databend"},
};

static int has_part(const char *text, const char *part)
{
    return text != NULL && part != NULL && strcasestr(text, part) != NULL;
}

int my_check_product(const char *version, const char *comment, rowlock_error *err)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const product *p = &products[i];

        if (has_part(version, p->version) || has_part(comment, p->version) ||
            has_part(comment, p->comment))
            return rlk_fail(err, ROWLOCK_ECONNECT,
                            "the server is %s, not MySQL or MariaDB, and cannot be used for locks: "
                            "%s",
                            p->name, p->why);
    }
    return ROWLOCK_OK;
}
