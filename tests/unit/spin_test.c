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

/* Spins in vain until the time has passed: where others want the processor it ends before that. */
static void spin_in_vain(rlk_spin *spin)
{
    enum { TRIES = 100000 };
    int before = spin->doubled;

    for (int i = 0; i < TRIES && spin->passes == 0; i++)
        spin_on(spin, 0);
    assert_int_equal(spin->passes, before * 2 + 1 < RLK_SPIN_PASSES ? before * 2 + 1 : 63);
}

static void test_answer_that_is_there_ends_it(void **state)
{
    rlk_spin spin = {.most_us = 60000000};

    (void)state;
    assert_true(spin_on(&spin, 1) < 30000000);
    assert_int_equal(spin.passes, 0);
}

static void test_time_ends_it(void **state)
{
    rlk_spin spin = {.most_us = 50};
    int64_t took = 0;

    (void)state;
    for (int i = 0; i < 100000 && spin.passes == 0; i++)
        took = spin_on(&spin, 0);
    assert_int_equal(spin.passes, 1);
    assert_true(took >= 50);
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
    for (int i = 0; i < 10; i++) {
        spin_in_vain(&spin);
        for (int left = spin.passes; left > 0; left--) {
            assert_int_equal(spin.passes, left);
            rlk_spin_on(&spin, -1);
        }
    }
    assert_int_equal(spin.doubled, RLK_SPIN_PASSES);
}

static void test_answer_is_looked_for_again(void **state)
{
    rlk_spin spin = {.most_us = 60000000, .doubled = RLK_SPIN_PASSES};

    (void)state;
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
