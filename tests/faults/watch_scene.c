/* SPDX-License-Identifier: MIT */
#include "watch_scene.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Locks that are taken in one call: more would take a good part of their leases under a sanitizer.
 */
enum { CALL = 1000 };

int watch_is_long(void)
{
    const char *value = getenv("ROWLOCK_TEST_WATCH_LONG");

    return value != NULL && strcmp(value, "1") == 0;
}

int watch_is_slowed(void)
{
    const char *value = getenv("LD_PRELOAD");

    return value != NULL && strstr(value, "vgpreload") != NULL;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void note_error(struct watch_scene *scene, const rowlock_event *event)
{
    if (atomic_fetch_add(&scene->errors, 1) == 0)
        snprintf(scene->message, sizeof(scene->message), "status %d: %s", event->status,
                 event->message);
}

static void count_event(const rowlock_event *event, void *payload)
{
    struct watch_scene *scene = payload;

    if (event->kind == ROWLOCK_EVENT_RENEWED) {
        atomic_fetch_add(&scene->renewed, (long)event->count);
        atomic_fetch_add(&scene->renewals, 1);
    }
    if (event->kind == ROWLOCK_EVENT_LOST)
        atomic_fetch_add(&scene->lost, 1);
    if (event->kind == ROWLOCK_EVENT_ERROR)
        note_error(scene, event);
    if (event->kind == ROWLOCK_EVENT_RECONNECTED)
        atomic_fetch_add(&scene->reconnections, 1);
}

static void be_told(rowlock_lock *lock, int loss, void *payload)
{
    struct watch_scene *scene = payload;
    int64_t now = process_now_ms();

    for (size_t i = 0; i < scene->n; i++) {
        if (scene->locks[i] != lock)
            continue;
        atomic_store(&scene->told[i].loss, loss);
        if (atomic_fetch_add(&scene->told[i].count, 1) == 0) {
            atomic_store(&scene->told[i].at_ms, now);
            atomic_fetch_add(&scene->told_count, 1);
        }
    }
}

/* ---- holding --------------------------------------------------------------------------------- */

static void make_names(struct watch_scene *scene, size_t n)
{
    scene->n = n;
    scene->names = calloc(n, sizeof(*scene->names));
    scene->texts = calloc(n, sizeof(*scene->texts));
    scene->locks = calloc(n, sizeof(*scene->locks));
    scene->fences = calloc(n, sizeof(*scene->fences));
    scene->told = calloc(n, sizeof(*scene->told));
    assert_true(scene->names != NULL && scene->texts != NULL && scene->locks != NULL &&
                scene->fences != NULL && scene->told != NULL);
    snprintf(scene->stem, sizeof(scene->stem), "%s-", fault_name("watch"));
    for (size_t i = 0; i < n; i++) {
        snprintf(scene->texts[i], sizeof(scene->texts[i]), "%.40s%06zu", scene->stem, i);
        scene->names[i] = scene->texts[i];
    }
}

void watch_hold(struct watch_scene *scene, const char *address, const rowlock_options *options,
                size_t n, int64_t ttl_ms)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_options filled = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;

    memset(scene, 0, sizeof(*scene));
    make_names(scene, n);
    if (options != NULL)
        filled = *options;
    filled.on_event = count_event;
    filled.event_payload = scene;
    scene->client = fault_open(address, &filled);
    how.ttl_ms = ttl_ms;
    how.wait_ms = 60000; /* on SQLite the renewal of those before may be writing */
    how.renew = 1;
    how.on_lost = be_told;
    how.lost_payload = scene;
    for (size_t i = 0; i < n; i += CALL)
        assert_status(ROWLOCK_OK,
                      rowlock_acquire_many(scene->locks + i, scene->client, scene->names + i,
                                           n - i < CALL ? n - i : CALL, &how, &err),
                      &err);
    for (size_t i = 0; i < n; i++)
        scene->fences[i] = rowlock_fence(scene->locks[i]);
}

void watch_leave(struct watch_scene *scene)
{
    rowlock_close(&scene->client);
    for (size_t i = 0; i < scene->n; i++)
        if (scene->locks[i] != NULL)
            rowlock_release(&scene->locks[i], NULL);
    free(scene->names);
    free(scene->texts);
    free(scene->locks);
    free(scene->fences);
    free(scene->told);
    memset(scene, 0, sizeof(*scene));
}

int watch_await(atomic_int *counter, int value, int64_t timeout_ms)
{
    int64_t until = process_now_ms() + timeout_ms;

    while (atomic_load(counter) < value) {
        if (process_now_ms() > until)
            return -1;
        process_sleep_ms(1);
    }
    return 0;
}

void watch_await_renewed(struct watch_scene *scene, int64_t timeout_ms)
{
    int64_t until = process_now_ms() + timeout_ms;
    long before = atomic_load(&scene->renewed);

    while (atomic_load(&scene->renewed) - before + atomic_load(&scene->told_count) <
           (long)scene->n) {
        if (process_now_ms() > until)
            fail_msg("of %zu locks %ld were renewed and %d told as lost within %d ms", scene->n,
                     atomic_load(&scene->renewed) - before, atomic_load(&scene->told_count),
                     (int)timeout_ms);
        process_sleep_ms(1);
    }
}

/* ---- the database's word --------------------------------------------------------------------- */

struct seen {
    uint64_t fence;
    int64_t remaining_ms;
};

struct survey {
    const struct watch_scene *scene;
    struct seen *rows;
};

static int survey_row(const rowlock_row *row, void *payload)
{
    struct survey *survey = payload;
    size_t stem = strlen(survey->scene->stem);
    size_t i = (size_t)strtoul(row->name + stem, NULL, 10);

    if (i < survey->scene->n)
        survey->rows[i] = (struct seen){row->fence, row->remaining_ms};
    return 0;
}

/* Reads all rows; returns when that was finished: no lease ends later than that plus what was left,
 * and a millisecond, which is cut off. */
static int64_t read_rows(struct survey *survey, rowlock_client *direct)
{
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_error err;

    options.starts_with = survey->scene->stem;
    options.expired = 1;
    assert_status(ROWLOCK_OK, rowlock_list(direct, &options, survey_row, survey, &err), &err);
    return process_now_ms() + 1;
}

static void verify_lost(struct watch_scene *scene, size_t i, int64_t end_ms)
{
    struct watch_told *told = &scene->told[i];
    rowlock_lock *lock = scene->locks[i];
    struct pollfd polled = {.fd = rowlock_lost_fd(lock, NULL), .events = POLLIN};

    if (atomic_load(&told->at_ms) > end_ms)
        fail_msg("lock %zu: its loss was told %d ms after the lease had ended", i,
                 (int)(atomic_load(&told->at_ms) - end_ms));
    assert_int_equal(1, atomic_load(&told->count));
    assert_int_equal(ROWLOCK_LOST, rowlock_check(lock));
    assert_int_equal(atomic_load(&told->loss), rowlock_loss(lock));
    assert_int_equal(0, rowlock_remaining(lock));
    assert_int_equal(1, poll(&polled, 1, 0));
}

size_t watch_verify(struct watch_scene *scene, rowlock_client *direct)
{
    struct survey survey = {scene, calloc(scene->n, sizeof(struct seen))};
    int64_t read_ms;
    size_t held = 0;

    assert_non_null(survey.rows);
    read_ms = read_rows(&survey, direct);
    for (size_t i = 0; i < scene->n; i++) {
        const struct seen *row = &survey.rows[i];

        assert_int_equal(scene->fences[i], row->fence);
        if (atomic_load(&scene->told[i].count) > 0) {
            verify_lost(scene, i, read_ms + row->remaining_ms);
            continue;
        }
        held++;
        assert_int_equal(ROWLOCK_OK, rowlock_check(scene->locks[i]));
        assert_int_equal(scene->fences[i], rowlock_fence(scene->locks[i]));
        assert_true(row->remaining_ms > 0);
    }
    free(survey.rows);
    return held;
}

void watch_release(struct watch_scene *scene)
{
    for (size_t i = 0; i < scene->n; i++) {
        int told = atomic_load(&scene->told[i].count);
        rowlock_error err;

        assert_status(told ? ROWLOCK_LOST : ROWLOCK_OK, rowlock_release(&scene->locks[i], &err),
                      &err);
    }
}
