/* SPDX-License-Identifier: MIT
 *
 * A client needs random bytes, for its owners and requests: without any it is not opened. */
#include <errno.h>

#include "core_test.h"
#include "random.h"

static int calls_left; /* until there are none; -1: always */

int __real_rlk_random(void *out, size_t n);
int __wrap_rlk_random(void *out, size_t n);

int __wrap_rlk_random(void *out, size_t n)
{
    if (calls_left == 0)
        return EPERM;
    calls_left -= calls_left > 0;
    return __real_rlk_random(out, n);
}

static void test_open_fails_clearly_without_random_bytes(void **state)
{
    rowlock_client *client = NULL;
    rowlock_error err;

    (void)state;
    for (int calls = 0; calls < 2; calls++) {
        calls_left = calls;
        assert_status(ENOMEM, rowlock_open(&client, fake_driver(), "fake", NULL, &err));
        assert_null(client);
        assert_non_null(strstr(err.message, "random bytes"));
        assert_non_null(strstr(err.message, "/dev/urandom"));
    }
    calls_left = -1;
    client = open_client();
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open_fails_clearly_without_random_bytes, fresh),
    };

    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
