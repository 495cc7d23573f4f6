/* SPDX-License-Identifier: MIT
 *
 * Servers that speak MySQL's protocol and are something else are refused by name, whether they say
 * it in the greeting or only when asked, and whether they take our first statements or not. MySQL
 * and MariaDB, and what is built from them, are not. */
#include <stdio.h>
#include <string.h>

#include "refused.h"
#include "rogue.h"

struct product {
    const char *name, *version, *comment;
};

/* As the products themselves answer. */
static const struct product products[] = {
    {"TiDB", "8.0.11-TiDB-v8.5.0",
     "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible"},
    {"TiDB", "8.0.36", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible"},
    {"Vitess", "8.0.30-Vitess", "MySQL Community Server (GPL)"},
    {"Vitess", "8.4.6", "Version: 23.0.0 (Git revision 122ee758 branch 'main') built on Friday"},
    {"SingleStore", "5.7.32",
     "SingleStoreDB source distribution (compatible; MySQL Enterprise & MySQL Commercial)"},
    {"SingleStore", "5.5.8",
     "MemSQL source distribution (compatible; MySQL Enterprise & MySQL Commercial)"},
    {"OceanBase", "5.7.25-OceanBase_CE-v4.2.1.2", "OceanBase_CE 4.2.1.2"},
    {"OceanBase", "8.0.28", "OceanBase_CE 4.2.1.2"},
    {"PolarDB-X", "5.7.25-TDDL-5.4.19-20251031", "PolarDB-X"},
    {"MatrixOne", "8.0.30-MatrixOne-v1.1.1", "MatrixOne"},
    {"Dolt", "8.0.33-Dolt", "Dolt"},
    {"Dolt", "8.0.31", "Dolt"},
    {"StarRocks", "8.0.33", "StarRocks version 3.2.6"},
    {"Doris", "5.7.99", "doris version doris-4.1.3-rc02-7126cf65d96"},
    {"ClickHouse", "20.2.1.1-ClickHouse", ""},
    {"Databend", "8.0.90-v1.2.720-nightly-2280cc9480(rust-1.85.0-nightly-2025-04-08)", "0"},
};

static const struct product originals[] = {
    {"MySQL", "8.0.36", "MySQL Community Server - GPL"},
    {"MySQL", "9.7.4-2", "(Debian)"},
    {"Percona", "8.0.35-27", "Percona Server (GPL), Release 27, Revision 2f8eeab2"},
    {"Aurora", "8.0.32", "Source distribution"},
    {"MariaDB", "10.11.19-MariaDB-0+deb12u1", "Debian 12"},
    {"MariaDB", "5.5.5-11.4.2-MariaDB-ubu2404", "mariadb.org binary distribution"},
};

enum { PRODUCTS = sizeof(products) / sizeof(products[0]) };
enum { ORIGINALS = sizeof(originals) / sizeof(originals[0]) };

static void open_on(const struct product *product, int does_all, rowlock_error *err)
{
    const rogue_plan plan = {
        .version = product->version, .comment = product->comment, .does_all = does_all};
    rogue *fake = rogue_start(&plan);
    rowlock_client *client = NULL;
    char address[128];

    assert_non_null(fake);
    snprintf(address, sizeof(address), "mysql://u:p@127.0.0.1:%d/db", (int)rogue_port(fake));
    fault_try_open(&client, address, NULL, err);
    assert_null(client);
    rogue_stop(fake);
    print_message("%s\n", err->message);
}

static void imitators_are_refused(void **state)
{
    rowlock_error err;

    (void)state;
    for (int i = 0; i < 2 * PRODUCTS; i++) {
        open_on(&products[i / 2], i % 2, &err);
        assert_int_equal(ROWLOCK_ECONNECT, err.status);
        assert_int_equal(0, err.retryable);
        assert_non_null(strstr(err.message, products[i / 2].name));
        assert_non_null(strstr(err.message, "not MySQL"));
        assert_null(strstr(err.message, "://"));
    }
}

/* The fake goes no further, and that is the error. */
static void originals_are_not(void **state)
{
    rowlock_error err;

    (void)state;
    for (int i = 0; i < 2 * ORIGINALS; i++) {
        open_on(&originals[i / 2], i % 2, &err);
        assert_non_null(strstr(err.message, ROGUE_ERROR));
    }
}

static void this_one_is_not(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);

    (void)state;
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(imitators_are_refused),
        cmocka_unit_test(originals_are_not),
        cmocka_unit_test(this_one_is_not),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
