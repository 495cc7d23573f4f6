/* SPDX-License-Identifier: MIT
 *
 * Random bytes where the system call is denied, as in a sandbox, and where nothing is left. */
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>

#include "unit.h"

static int is_call_denied, is_device_missing, interruptions;

ssize_t __real_getrandom(void *to, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    if (!is_call_denied)
        return __real_getrandom(to, n > 3 ? 3 : n, flags); /* in pieces */
    errno = EPERM;
    return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    if (!is_device_missing)
        return __real_open(path, flags);
    errno = ENOENT;
    return -1;
}

static int set_up(void **state)
{
    (void)state;
    is_call_denied = is_device_missing = interruptions = 0;
    return 0;
}

/* Sixteen bytes that are still zero are no chance. */
static void assert_fills(void)
{
    unsigned char bytes[16] = {0}, zero[16] = {0};

    assert_int_equal(rlk_random(bytes, sizeof bytes), 0);
    assert_memory_not_equal(bytes, zero, sizeof bytes);
    assert_memory_not_equal(bytes + 8, zero, 8);
}

static void test_random_goes_on_after_interruptions(void **state)
{
    (void)state;
    interruptions = 5;
    assert_fills();
    assert_int_equal(interruptions, 0);
}

static void test_random_falls_back_to_the_device(void **state)
{
    (void)state;
    is_call_denied = 1;
    assert_fills();
}

static void test_random_says_that_there_is_none(void **state)
{
    unsigned char bytes[4];

    (void)state;
    is_call_denied = is_device_missing = 1;
    assert_int_equal(rlk_random(bytes, sizeof bytes), ENOENT);
}

static void test_below_stays_below_without_a_source(void **state)
{
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        is_call_denied = is_device_missing = missing;
        for (int i = 0; i < 1000; i++) {
            int64_t value = rlk_random_below(7);

            assert_true(value >= 0 && value < 7);
        }
    }
    assert_int_equal(rlk_random_below(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_random_goes_on_after_interruptions, set_up),
        cmocka_unit_test_setup(test_random_falls_back_to_the_device, set_up),
        cmocka_unit_test_setup(test_random_says_that_there_is_none, set_up),
        cmocka_unit_test_setup(test_below_stays_below_without_a_source, set_up),
    };

    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
