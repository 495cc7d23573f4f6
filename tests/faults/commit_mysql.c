/* SPDX-License-Identifier: MIT
 *
 * Errors in a packet of several statements: before its COMMIT nothing was done, behind it
 * everything was, whatever the error says. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#include "my.h"

enum { TIMEOUT_MS = 5000 };

static my_conn *conn;

static int set_up(void **state)
{
    const rowlock_config config = {
        .size = sizeof config, .address = fault.backend.address, .prefix = fault.prefix};
    rowlock_error err;

    (void)state;
    conn = calloc(1, fault.backend.driver->conn_size);
    assert_non_null(conn);
    assert_status(ROWLOCK_OK, fault.backend.driver->open(conn, &config, TIMEOUT_MS, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fault.backend.driver->close(conn);
    free(conn);
    return 0;
}

static int run(const char *sql, rowlock_error *err)
{
    MYSQL_RES *sets[1];
    int status;

    my_start(conn);
    rlk_text_str(&conn->packet, sql);
    status = my_run_sets(conn, rlk_clock_us() + (int64_t)TIMEOUT_MS * 1000, sets, 1, err);
    mysql_free_result(sets[0]);
    return status;
}

static const struct {
    const char *sql;
    int status, dead;
} examples[] = {
    {"START TRANSACTION; SELECT 1 FROM nowhere; COMMIT", ROWLOCK_ESCHEMA, 0},
    {"START TRANSACTION; SIGNAL SQLSTATE '45000'; COMMIT", ROWLOCK_EDRIVER, 0},
    {"START TRANSACTION; COMMIT; SELECT 1 FROM nowhere", ROWLOCK_EUNKNOWN, 1},
    {"START TRANSACTION; COMMIT; SIGNAL SQLSTATE '45000'", ROWLOCK_EUNKNOWN, 1},
    {"START TRANSACTION; COMMIT; DO 1; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
     ROWLOCK_EUNKNOWN, 1},
    {"START TRANSACTION; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; COMMIT", ROWLOCK_EDRIVER,
     0},
    /* the COMMIT itself */
    {"START TRANSACTION; SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1180", ROWLOCK_EUNKNOWN, 1},
    /* the server, or somebody, ends the session */
    {"START TRANSACTION; SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1053", ROWLOCK_EUNKNOWN, 1},
    {"START TRANSACTION; SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1927", ROWLOCK_EUNKNOWN, 1},
};

static void error_behind_the_commit_is_unknown(void **state)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        rowlock_error err;

        set_up(state);
        assert_status(examples[i].status, run(examples[i].sql, &err), &err);
        assert_int_equal(conn->dead != 0, examples[i].dead);
        tear_down(state);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(error_behind_the_commit_is_unknown),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
