/* SPDX-License-Identifier: MIT */
#include "spin.h"

#include <unistd.h>

#include "clock.h"
#include "unit.h"

/* Spins on a pipe: for how long, in us. */
static int64_t spin_on(rlk_spin *spin, int has_data)
{
    int ends[2];
    int64_t start;

    assert_int_equal(pipe(ends), 0);
    if (has_data)
        assert_int_equal(write(ends[1], "x", 1), 1);
    start = rlk_clock_us();
    rlk_spin_on(spin, ends[0]);
    start = rlk_clock_us() - start;
    close(ends[0]);
    close(ends[1]);
    return start;
}

static void test_answer_that_is_there_ends_it(void **state)
{
    rlk_spin spin = {.most_us = 60000000};

    (void)state;
    assert_true(spin_on(&spin, 1) < 30000000);
    assert_int_equal(spin.passes, 0);
}

/* Or somebody else who wants the processor does. */
static void test_time_ends_it(void **state)
{
    rlk_spin spin = {.most_us = 2000};

    (void)state;
    assert_true(spin_on(&spin, 0) < 30000000);
    assert_int_equal(spin.passes, 1);
}

static void test_no_time_is_no_look(void **state)
{
    rlk_spin spin = {0};

    (void)state;
    rlk_spin_on(&spin, -1);
    assert_int_equal(spin.passes, 0);
}

static void test_more_and_more_are_passed_over(void **state)
{
    rlk_spin spin = {.most_us = 20};

    (void)state;
    for (int most = 1; most <= RLK_SPIN_PASSES; most = 2 * most + 1) {
        spin_on(&spin, 0);
        for (int left = most; left > 0; left--) {
            assert_int_equal(spin.passes, left);
            rlk_spin_on(&spin, -1);
        }
    }
    spin_on(&spin, 0);
    assert_int_equal(spin.passes, RLK_SPIN_PASSES);
}

static void test_answer_is_looked_for_again(void **state)
{
    rlk_spin spin = {.most_us = 60000000, .doubled = RLK_SPIN_PASSES};

    (void)state;
    for (int i = 0; i < 8; i++)
        spin_on(&spin, 1);
    assert_int_equal(spin.doubled, 0);
    assert_int_equal(spin.passes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_that_is_there_ends_it),
        cmocka_unit_test(test_time_ends_it),
        cmocka_unit_test(test_no_time_is_no_look),
        cmocka_unit_test(test_more_and_more_are_passed_over),
        cmocka_unit_test(test_answer_is_looked_for_again),
    };

    return cmocka_run_group_tests_name("spin", tests, NULL, NULL);
}
