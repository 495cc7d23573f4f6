/* SPDX-License-Identifier: MIT */
#include "spin.h"

#include <unistd.h>

#include "clock.h"
#include "unit.h"

/* Spins on a pipe: for how long, in us. */
static int64_t spin_on(int has_data, uint32_t us)
{
    int ends[2];
    int64_t start;

    assert_int_equal(pipe(ends), 0);
    if (has_data)
        assert_int_equal(write(ends[1], "x", 1), 1);
    start = rlk_clock_us();
    rlk_spin(ends[0], us);
    start = rlk_clock_us() - start;
    close(ends[0]);
    close(ends[1]);
    return start;
}

static void test_answer_that_is_there_ends_it(void **state)
{
    (void)state;
    assert_true(spin_on(1, 60000000) < 30000000);
}

static void test_time_ends_it(void **state)
{
    (void)state;
    assert_true(spin_on(0, 2000) >= 2000);
}

static void test_no_time_is_no_look(void **state)
{
    (void)state;
    rlk_spin(-1, 0);
    assert_true(spin_on(0, 0) < 30000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_that_is_there_ends_it),
        cmocka_unit_test(test_time_ends_it),
        cmocka_unit_test(test_no_time_is_no_look),
    };

    return cmocka_run_group_tests_name("spin", tests, NULL, NULL);
}
