/* SPDX-License-Identifier: MIT
 *
 * Option files are made for other programs: what they say of packets, rows, character sets and
 * connections must not change what locks do. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "rowlock/mysql.h"

static const char options[] = "[client]\n"
                              "max-allowed-packet=2048\n"
                              "return-found-rows=1\n"
                              "default-character-set=latin1\n"
                              "reconnect=1\n"
                              "connect-timeout=1\n"
                              "compress=1\n"
                              "protocol=socket\n"
                              "socket=/nonexistent\n";

static char home[] = "/tmp/rowlock-option.XXXXXX", path[64];

static int count(const rowlock_row *row, void *payload)
{
    (void)row;
    ++*(int *)payload;
    return 0;
}

static void large_answers(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    struct fault_batch batch;
    rowlock_error err;
    int rows = 0;

    (void)state;
    fault_batch_init(&batch, "a name that takes some room in an answer");
    assert_status(ROWLOCK_OK,
                  rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err),
                  &err);
    assert_status(ROWLOCK_OK, rowlock_list(client, NULL, count, &rows, &err), &err);
    assert_int_equal(FAULT_BATCH, rows);
    for (int i = 0; i < FAULT_BATCH; i++)
        fault_release(&batch.locks[i]);
    rowlock_close(&client);
}

/* The handle as it is inside, by way of a transaction. */
static void options_of_the_handle(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    const char *name = fault_name("handle");
    rowlock_tx *tx = NULL;
    rowlock_error err;
    MYSQL *mysql;

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    mysql = rowlock_mysql_connection(tx);
    assert_non_null(mysql);
    assert_int_equal(0, mysql->client_flag & CLIENT_FOUND_ROWS);
    assert_string_equal("utf8mb4", mysql_character_set_name(mysql));
#ifdef LIBMARIADB
    assert_int_equal(0, mysql->options.reconnect);
#endif
    assert_status(ROWLOCK_OK, rowlock_tx_rollback(&tx, &err), &err);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(large_answers),
        cmocka_unit_test(options_of_the_handle),
    };
    FILE *file;
    int status;

    if (mkdtemp(home) == NULL || setenv("HOME", home, 1) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/.my.cnf", home);
    file = fopen(path, "w");
    if (file == NULL || fputs(options, file) < 0 || fclose(file) != 0)
        return 1;
    status = FAULT_MAIN(argc, argv, 0, cases);
    unlink(path);
    rmdir(home);
    return status;
}
