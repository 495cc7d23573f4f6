/* SPDX-License-Identifier: MIT
 *
 * MySQL's rows: result sets of the input's making, in place of those that the client library would
 * have received, in the text form that they have there. The linker leads the driver's calls here.
 */
#include "answers.h"
#include "my.h"
#include "rowlock/mysql.h"

typedef struct fake_set {
    size_t rows, next;
    char *fields[FUZZ_ROWS][FUZZ_COLUMNS];
    unsigned long lengths[FUZZ_ROWS][FUZZ_COLUMNS];
} fake_set;

int __wrap_my_run(my_conn *conn, int64_t deadline, MYSQL_RES **out, rowlock_error *err);
int __wrap_my_run_sets(my_conn *conn, int64_t deadline, MYSQL_RES **sets, size_t n,
                       rowlock_error *err);
MYSQL_ROW __wrap_mysql_fetch_row(MYSQL_RES *result);
unsigned long *__wrap_mysql_fetch_lengths(MYSQL_RES *result);
my_ulonglong __wrap_mysql_num_rows(MYSQL_RES *result);
void __wrap_mysql_free_result(MYSQL_RES *result);
const char *__wrap_mysql_get_server_info(MYSQL *mysql);
int __wrap_rlk_sleep_until(int64_t until_us, const int *fds, int n);

/* Numbers are digits there; other fields are bytes, with a NUL behind them. */
static char *make_field(unsigned long *length)
{
    int size, is_number = fuzz_byte() % 2;
    const uint8_t *field = fuzz_field(&size);
    char *text;

    *length = 0;
    if (size < 0)
        return NULL;
    text = calloc(1, (size_t)size + 24);
    MUST(text != NULL);
    if (is_number) {
        int64_t number = 0;

        memcpy(&number, field, size < 8 ? (size_t)size : 8);
        *length = (unsigned long)snprintf(text, 24, "%lld", (long long)number);
    } else if (size > 0) {
        memcpy(text, field, (size_t)size);
        *length = (unsigned long)size;
    }
    return text;
}

static MYSQL_RES *make_set(void)
{
    fake_set *set = calloc(1, sizeof *set);

    MUST(set != NULL);
    set->rows = fuzz_byte() % (FUZZ_ROWS + 1);
    for (size_t row = 0; row < set->rows; row++) {
        for (size_t column = 0; column < FUZZ_COLUMNS; column++)
            set->fields[row][column] = make_field(&set->lengths[row][column]);
    }
    return (MYSQL_RES *)set;
}

int __wrap_my_run_sets(my_conn *conn, int64_t deadline, MYSQL_RES **sets, size_t n,
                       rowlock_error *err)
{
    static const int errors[] = {ROWLOCK_ECONNECT, ROWLOCK_EUNKNOWN, ROWLOCK_EDRIVER,
                                 ROWLOCK_ESCHEMA};
    uint8_t kind = fuzz_byte();

    (void)deadline;
    memset(sets, 0, n * sizeof *sets);
    conn->told_count = 0;
    if (++fuzz_answers > FUZZ_CALLS || kind >= 252)
        return rlk_fail_native(err, errors[kind % 4], 1205, "HY000", 1, "fuzzed");
    for (size_t i = kind % 4; i > 0; i--)
        conn->told[conn->told_count++] = (my_told){fuzz_byte() % 3, fuzz_byte()};
    for (size_t i = 0; i < n; i++)
        sets[i] = make_set();
    return ROWLOCK_OK;
}

int __wrap_my_run(my_conn *conn, int64_t deadline, MYSQL_RES **out, rowlock_error *err)
{
    MYSQL_RES *set = NULL;
    int status = __wrap_my_run_sets(conn, deadline, &set, 1, err);

    if (out != NULL)
        *out = set;
    else
        __wrap_mysql_free_result(set);
    return status;
}

MYSQL_ROW __wrap_mysql_fetch_row(MYSQL_RES *result)
{
    fake_set *set = (fake_set *)result;

    return set == NULL || set->next == set->rows ? NULL : set->fields[set->next++];
}

unsigned long *__wrap_mysql_fetch_lengths(MYSQL_RES *result)
{
    fake_set *set = (fake_set *)result;

    return set->next == 0 ? NULL : set->lengths[set->next - 1];
}

my_ulonglong __wrap_mysql_num_rows(MYSQL_RES *result)
{
    return result == NULL ? 0 : ((fake_set *)result)->rows;
}

void __wrap_mysql_free_result(MYSQL_RES *result)
{
    fake_set *set = (fake_set *)result;

    for (size_t row = 0; set != NULL && row < set->rows; row++) {
        for (size_t column = 0; column < FUZZ_COLUMNS; column++)
            free(set->fields[row][column]);
    }
    free(set);
}

const char *__wrap_mysql_get_server_info(MYSQL *mysql)
{
    (void)mysql;
    return fuzz_answers % 2 == 0 ? "10.11.0-MariaDB" : "8.4.0";
}

/* Nobody has to be waited for. */
int __wrap_rlk_sleep_until(int64_t until_us, const int *fds, int n)
{
    (void)until_us;
    (void)fds;
    (void)n;
    return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const rowlock_driver *driver = rowlock_mysql();
    my_conn *conn = calloc(1, driver->conn_size);

    MUST(conn != NULL);
    fuzz_at = data;
    fuzz_left = size;
    fuzz_answers = 0;
    conn->mysql = mysql_init(NULL);
    conn->prefix = strdup("rowlock_");
    conn->schema = strdup("shop");
    conn->database = strdup("shop");
    conn->packet_max = 1 << 24;
    for (int i = 0; i < 4 && fuzz_left > 0; i++)
        fuzz_call(driver, conn);
    driver->close(conn);
    free(conn);
    return 0;
}
