/* SPDX-License-Identifier: MIT
 *
 * The checker and the recorder: forged histories, clean ones and one for each kind of violation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"

#define MS 1000000ULL

/* ---- forging --------------------------------------------------------------------------------- */

static struct history_record made[64];
static size_t count;

static struct history_record *put(uint32_t process, uint8_t kind, uint64_t at_ms, uint64_t fence)
{
    struct history_record *r = &made[count++];

    *r = (struct history_record){.process = process, .kind = kind, .at_ns = at_ms * MS};
    r->fence = fence;
    r->name = 7;
    return r;
}

static void grant(uint32_t process, uint64_t at_ms, uint64_t fence, uint32_t left_ms)
{
    struct history_record *r = put(process, HISTORY_GRANT, at_ms, fence);

    r->value = r->at_ns - MS;
    r->left_ms = left_ms;
}

static void checked(uint32_t process, uint64_t at_ms, uint64_t fence, uint32_t left_ms)
{
    put(process, HISTORY_CHECK, at_ms, fence)->left_ms = left_ms;
}

static void release(uint32_t process, uint64_t at_ms, uint64_t fence)
{
    put(process, HISTORY_RELEASE, at_ms, fence);
}

static void intend(uint32_t process, uint8_t kind, uint64_t at_ms, uint64_t fence, uint64_t version)
{
    put(process, kind, at_ms, fence)->value = version;
}

static void end(uint32_t process, uint8_t kind, uint64_t at_ms, uint64_t fence, uint64_t version,
                int8_t stage)
{
    struct history_record *r = put(process, kind, at_ms, fence);

    r->value = version;
    r->status = stage;
}

static void done(uint32_t process, uint8_t kind, uint64_t at_ms, uint64_t fence, uint64_t version)
{
    intend(process, kind, at_ms, fence, version);
    end(process, kind, at_ms + 1, fence, version, HISTORY_DONE);
}

static void final(uint8_t kind, uint64_t version)
{
    put(0, kind, 1000, 0)->value = version;
}

/* The records of each process are a file of their own. */
static struct check_report judge(void)
{
    struct check *check = check_new();
    struct check_report report;

    for (uint32_t process = 0; process < 4; process++) {
        struct history_record own[64];
        size_t n = 0;

        for (size_t i = 0; i < count; i++)
            if (made[i].process == process)
                own[n++] = made[i];
        assert_int_equal(0, check_add(check, own, n));
    }
    check_finish(&report, check);
    check_free(check);
    count = 0;
    return report;
}

static void assert_clean(void)
{
    struct check_report report = judge();

    if (report.violated > 0)
        print_error("%s\n", report.messages[0]);
    assert_int_equal(0, report.violated);
}

static void assert_only(enum check_violation kind)
{
    struct check_report report = judge();

    for (int i = 0; i < CHECK_KINDS; i++) {
        if (report.violations[i] != (i == (int)kind))
            print_error("%llu of: %s\n", (unsigned long long)report.violations[i], check_text(i));
        assert_int_equal(i == (int)kind, report.violations[i]);
    }
    assert_int_equal(1, report.violated);
    assert_true(report.messages[0][0] != '\0');
}

/* ---- clean ----------------------------------------------------------------------------------- */

static void nothing_is_clean(void **state)
{
    (void)state;
    assert_clean();
}

static void one_after_the_other_is_clean(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    checked(1, 15, 5, 95);
    release(1, 20, 5);
    grant(2, 20, 6, 100);
    release(2, 30, 6);
    assert_clean();
}

static void other_names_do_not_matter(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    grant(2, 20, 5, 100);
    made[1].name = 8;
    assert_clean();
}

static void takeover_after_the_deadline_is_clean(void **state)
{
    struct check_report report;

    (void)state;
    grant(1, 10, 5, 100);
    checked(1, 60, 5, 50);
    grant(2, 110, 6, 100);
    put(1, HISTORY_LOST, 300, 5);
    release(1, 301, 5);
    grant(2, 400, 9, 100);
    report = judge();
    assert_int_equal(0, report.violated);
    assert_int_equal(3, report.grants);
    assert_int_equal(1, report.lost);
    assert_int_equal(1, report.takeovers);
}

/* Two threads of one process, whose records are mixed. */
static void threads_are_told_apart(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    grant(1, 11, 5, 100);
    made[1].thread = 1;
    made[1].name = 8;
    release(1, 20, 5);
    release(1, 21, 5);
    made[3].thread = 1;
    made[3].name = 8;
    grant(2, 20, 6, 100);
    assert_clean();
}

static void a_hold_of_unknown_outcome_goes_on(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    release(1, 20, 5);
    grant(1, 30, 5, 100);
    made[2].status = 1;
    release(1, 40, 5);
    grant(2, 50, 6, 100);
    assert_clean();
}

static void a_lease_that_the_clock_prolongs_goes_on(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    put(0, HISTORY_CLOCK_BACK, 50, 0);
    put(1, HISTORY_LOST, 120, 5);
    grant(1, 130, 5, 100);
    assert_clean();
}

/* The thread was stopped before it could look at the time. */
static void a_tenure_that_nobody_believed_in_is_clean(void **state)
{
    (void)state;
    grant(1, 500, 5, 0);
    grant(2, 110, 6, 100);
    assert_clean();
}

static void unfilled_slots_are_passed_over(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    put(1, HISTORY_NONE, 0, 0);
    release(1, 20, 5);
    assert_clean();
}

static void counters_that_add_up_are_clean(void **state)
{
    (void)state;
    done(1, HISTORY_GUARDED, 10, 5, 1);
    done(2, HISTORY_GUARDED, 20, 6, 2);
    intend(1, HISTORY_GUARDED, 30, 7, 3); /* killed, but it was committed */
    done(2, HISTORY_GUARDED, 40, 8, 4);
    intend(3, HISTORY_GUARDED, 50, 9, 5);
    end(3, HISTORY_GUARDED, 51, 9, 5, HISTORY_UNDONE);
    intend(3, HISTORY_GUARDED, 60, 10, 5); /* killed, and it was not */
    done(1, HISTORY_FENCED, 70, 5, 1);
    final(HISTORY_FINAL_GUARDED, 4);
    final(HISTORY_FINAL_FENCED, 1);
    assert_clean();
}

static void a_guarded_write_beyond_the_deadline_is_clean(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    done(1, HISTORY_GUARDED, 150, 5, 1);
    grant(2, 151, 6, 100);
    assert_clean();
}

/* ---- violations ------------------------------------------------------------------------------ */

static void same_fence_twice(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    release(1, 20, 5);
    grant(2, 30, 5, 100);
    assert_only(CHECK_FENCE_TWICE);
}

static void a_hold_of_unknown_outcome_goes_on_elsewhere(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    release(1, 20, 5);
    grant(2, 30, 5, 100);
    made[2].status = 1;
    assert_only(CHECK_FENCE_TWICE);
}

static void same_fence_after_the_clock_was_set(void **state)
{
    (void)state;
    put(0, HISTORY_CLOCK_BACK, 5, 0);
    grant(1, 10, 5, 100);
    put(1, HISTORY_LOST, 120, 5);
    grant(1, 130, 5, 100);
    put(0, HISTORY_CLOCK_BACK, 140, 0);
    assert_only(CHECK_FENCE_TWICE);
}

static void same_fence_behind_a_long_tenure(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    grant(2, 200, 6, 10);
    grant(3, 300, 6, 10);
    assert_only(CHECK_FENCE_TWICE);
}

static void fence_falls(void **state)
{
    (void)state;
    grant(1, 10, 6, 5);
    grant(2, 30, 5, 5);
    assert_only(CHECK_FENCE_ORDER);
}

static void granted_before_the_release(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    release(1, 20, 5);
    grant(2, 19, 6, 100);
    assert_only(CHECK_OVERLAP);
}

static void granted_before_the_deadline_of_a_dead_holder(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    grant(2, 109, 6, 100);
    assert_only(CHECK_OVERLAP);
}

static void granted_although_a_check_said_held(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    checked(1, 105, 5, 50);
    grant(2, 120, 6, 100);
    assert_only(CHECK_OVERLAP);
}

/* The first tenure is longer than the second: the third overlaps with it only. */
static void overlap_with_one_that_is_no_neighbour(void **state)
{
    struct check_report report;

    (void)state;
    grant(1, 10, 5, 100);
    grant(2, 20, 6, 1);
    grant(3, 30, 7, 1);
    report = judge();
    assert_int_equal(2, report.violations[CHECK_OVERLAP]);
    assert_int_equal(2, report.violated);
}

static void guarded_commit_after_the_next_grant(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    done(1, HISTORY_GUARDED, 150, 5, 1);
    grant(2, 140, 6, 100);
    assert_only(CHECK_GUARD_LATE);
}

static void lost_before_the_deadline(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    put(1, HISTORY_LOST, 109, 5);
    assert_only(CHECK_LOST_EARLY);
}

static void held_after_it_was_lost(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    put(1, HISTORY_LOST, 110, 5);
    checked(1, 120, 5, 10);
    assert_only(CHECK_HELD_AGAIN);
}

static void same_version_twice(void **state)
{
    (void)state;
    done(1, HISTORY_FENCED, 10, 5, 1);
    done(2, HISTORY_FENCED, 20, 6, 1);
    assert_only(CHECK_LOST_UPDATE);
}

static void older_fence_writes_later(void **state)
{
    (void)state;
    done(1, HISTORY_GUARDED, 10, 6, 1);
    done(2, HISTORY_GUARDED, 20, 5, 2);
    assert_only(CHECK_STALE_WRITE);
}

static void version_that_nobody_made(void **state)
{
    (void)state;
    done(1, HISTORY_GUARDED, 10, 5, 1);
    done(2, HISTORY_GUARDED, 20, 6, 3);
    final(HISTORY_FINAL_GUARDED, 3);
    assert_only(CHECK_COUNTER);
}

static void last_version_that_nobody_made(void **state)
{
    (void)state;
    done(1, HISTORY_GUARDED, 10, 5, 1);
    intend(2, HISTORY_GUARDED, 20, 6, 2);
    end(2, HISTORY_GUARDED, 21, 6, 2, HISTORY_UNDONE);
    final(HISTORY_FINAL_GUARDED, 2);
    assert_only(CHECK_COUNTER);
}

static void version_that_is_gone(void **state)
{
    (void)state;
    done(1, HISTORY_FENCED, 10, 5, 1);
    done(2, HISTORY_FENCED, 20, 6, 2);
    final(HISTORY_FINAL_FENCED, 1);
    assert_only(CHECK_COUNTER);
}

static void release_without_a_grant(void **state)
{
    (void)state;
    release(1, 10, 5);
    assert_only(CHECK_MALFORMED);
}

static void granted_before_it_was_asked(void **state)
{
    (void)state;
    grant(1, 10, 5, 100);
    made[0].value = made[0].at_ns + 1;
    assert_only(CHECK_MALFORMED);
}

/* ---- the recorder ---------------------------------------------------------------------------- */

enum { KILLED_AFTER = 1000 };

static int write_and_die(const char *path)
{
    struct history history;

    if (history_open(&history, path, 4096) != 0)
        return 1;
    for (uint32_t i = 0; i < KILLED_AFTER; i++)
        history_add(&history, &(struct history_record){.kind = HISTORY_CHECK, .name = i});
    kill(getpid(), SIGKILL);
    return 0;
}

static void what_a_killed_process_wrote_is_there(void **state)
{
    char path[] = "/tmp/rowlock-history.XXXXXX";
    const struct history_record *records;
    int fd = mkstemp(path), status;
    size_t n;
    pid_t pid;

    (void)state;
    close(fd);
    unlink(path);
    pid = fork();
    if (pid == 0)
        _exit(write_and_die(path));
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status));
    records = history_map(&n, path);
    assert_non_null(records);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(i < KILLED_AFTER ? HISTORY_CHECK : HISTORY_NONE, records[i].kind);
        assert_int_equal(i < KILLED_AFTER ? i : 0, records[i].name);
    }
    history_unmap(records, n);
    unlink(path);
}

static void a_full_history_says_so(void **state)
{
    char path[] = "/tmp/rowlock-history.XXXXXX";
    struct history_record record = {.kind = HISTORY_CHECK};
    const struct history_record *records;
    struct history history;
    int fd = mkstemp(path);
    size_t n;

    (void)state;
    close(fd);
    unlink(path);
    assert_int_equal(0, history_open(&history, path, 2));
    assert_int_equal(0, history_add(&history, &record));
    assert_int_equal(0, history_add(&history, &record));
    assert_int_equal(-1, history_add(&history, &record));
    history_close(&history);
    records = history_map(&n, path);
    assert_int_equal(2, n);
    history_unmap(records, n);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(nothing_is_clean),
        cmocka_unit_test(one_after_the_other_is_clean),
        cmocka_unit_test(other_names_do_not_matter),
        cmocka_unit_test(takeover_after_the_deadline_is_clean),
        cmocka_unit_test(threads_are_told_apart),
        cmocka_unit_test(a_hold_of_unknown_outcome_goes_on),
        cmocka_unit_test(a_lease_that_the_clock_prolongs_goes_on),
        cmocka_unit_test(a_tenure_that_nobody_believed_in_is_clean),
        cmocka_unit_test(unfilled_slots_are_passed_over),
        cmocka_unit_test(counters_that_add_up_are_clean),
        cmocka_unit_test(a_guarded_write_beyond_the_deadline_is_clean),
        cmocka_unit_test(same_fence_twice),
        cmocka_unit_test(a_hold_of_unknown_outcome_goes_on_elsewhere),
        cmocka_unit_test(same_fence_after_the_clock_was_set),
        cmocka_unit_test(same_fence_behind_a_long_tenure),
        cmocka_unit_test(fence_falls),
        cmocka_unit_test(granted_before_the_release),
        cmocka_unit_test(granted_before_the_deadline_of_a_dead_holder),
        cmocka_unit_test(granted_although_a_check_said_held),
        cmocka_unit_test(overlap_with_one_that_is_no_neighbour),
        cmocka_unit_test(guarded_commit_after_the_next_grant),
        cmocka_unit_test(lost_before_the_deadline),
        cmocka_unit_test(held_after_it_was_lost),
        cmocka_unit_test(same_version_twice),
        cmocka_unit_test(older_fence_writes_later),
        cmocka_unit_test(version_that_nobody_made),
        cmocka_unit_test(last_version_that_nobody_made),
        cmocka_unit_test(version_that_is_gone),
        cmocka_unit_test(release_without_a_grant),
        cmocka_unit_test(granted_before_it_was_asked),
        cmocka_unit_test(what_a_killed_process_wrote_is_there),
        cmocka_unit_test(a_full_history_says_so),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
