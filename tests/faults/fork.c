/* SPDX-License-Identifier: MIT
 *
 * A child that uses its parent's handles: every call answers EFORK, and whatever the child does,
 * closing and dying included, the parent's locks and connections stay as they are. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parent's handles, as the child inherits them. */
struct heirloom {
    rowlock_client *client;
    rowlock_lock *lock, *other;
    const char *name;
};

/* Counts answers that are not EFORK; says which on the child's stderr. */
static void expect(int *wrong, const char *call, int status)
{
    if (status == ROWLOCK_EFORK)
        return;
    fprintf(stderr, "in the child: %s answered %d (%s)\n", call, status, rowlock_strstatus(status));
    (*wrong)++;
}

static int never_called(rowlock_lock *lock, void *payload)
{
    (void)lock;
    *(int *)payload += 1;
    return 0;
}

static int no_row(const rowlock_row *row, void *payload)
{
    (void)row;
    *(int *)payload += 1;
    return 0;
}

static void expect_acquiring(int *wrong, struct heirloom *h)
{
    const char *names[2] = {"child-1", "child-2"};
    rowlock_lock *locks[2] = {NULL, NULL};
    rowlock_error err;
    int out = 0;

    expect(wrong, "acquire", rowlock_acquire(locks, h->client, "child-0", NULL, &err));
    expect(wrong, "re-entry", rowlock_acquire(locks, h->client, h->name, NULL, &err));
    expect(wrong, "acquire_many", rowlock_acquire_many(locks, h->client, names, 2, NULL, &err));
    expect(wrong, "adopt",
           rowlock_adopt(locks, h->client, h->name, rowlock_fence(h->lock), NULL, &err));
    expect(wrong, "with",
           rowlock_with(&out, h->client, "child-3", NULL, never_called, wrong, &err));
    *wrong += locks[0] != NULL || locks[1] != NULL;
}

static void expect_looking(int *wrong, struct heirloom *h)
{
    rowlock_error err;
    uint64_t reaped = 0;
    int version = 0;

    expect(wrong, "list", rowlock_list(h->client, NULL, no_row, wrong, &err));
    expect(wrong, "force_release", rowlock_force_release(h->client, h->name, NULL, &err));
    expect(wrong, "reap", rowlock_reap(&reaped, h->client, NULL, &err));
    expect(wrong, "schema_version", rowlock_schema_version(&version, h->client, &err));
    expect(wrong, "migrate down", rowlock_migrate(h->client, 0, &err));
    expect(wrong, "migrate up", rowlock_migrate(h->client, ROWLOCK_SCHEMA_LATEST, &err));
}

/* Releasing frees the child's copy of the handle: last of all. */
static int child_uses_everything(void *payload)
{
    struct heirloom *h = payload;
    rowlock_error err;
    int wrong = 0;

    expect_acquiring(&wrong, h);
    expect_looking(&wrong, h);
    expect(&wrong, "renew", rowlock_renew(h->lock, 0, &err));
    expect(&wrong, "check", rowlock_check(h->lock));
    expect(&wrong, "release", rowlock_release(&h->lock, &err));
    wrong += h->lock != NULL;
    return wrong;
}

static int child_closes(void *payload)
{
    struct heirloom *h = payload;

    rowlock_close(&h->client);
    return h->client != NULL;
}

static int child_closes_then_releases(void *payload)
{
    struct heirloom *h = payload;
    rowlock_error err;
    int wrong = 0;
    int status;

    rowlock_close(&h->client);
    status = rowlock_release(&h->lock, &err);
    if (status != ROWLOCK_ECLOSED)
        expect(&wrong, "release after close", status);
    return wrong;
}

/* With exit handlers, so that those of the client libraries are run. */
static int child_exits(void *payload)
{
    (void)payload;
    exit(0);
}

/* SQLite is not safe in a process that was forked while a file was open: there the child is told
 * so. A server does not know the difference. */
static int may_open_in_child(void)
{
    return (fault.backend.caps & BACKEND_SERVER) != 0;
}

/* A client of the child's own works beside the parent's, or is refused plainly. */
static int child_opens_its_own(void *payload)
{
    struct heirloom *h = payload;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int wrong = 0;
    int status = fault_try_open(&client, fault.backend.address, NULL, &err);

    if (!may_open_in_child())
        return status != ROWLOCK_ECONNECT || strstr(err.message, "fork") == NULL;
    wrong += status != ROWLOCK_OK;
    wrong += rowlock_acquire(&lock, client, h->name, NULL, &err) != ROWLOCK_BUSY;
    wrong += rowlock_acquire(&lock, client, "child-own", NULL, &err) != ROWLOCK_OK;
    wrong += rowlock_release(&lock, &err) != ROWLOCK_OK;
    rowlock_close(&client);
    return wrong;
}

static void inherited(int (*child)(void *payload))
{
    struct heirloom h = {.client = fault_open(fault.backend.address, NULL),
                         .name = fault_name("fork")};
    rowlock_client *direct = fault_open(fault.backend.address, NULL);
    struct fault_row before, after;
    rowlock_error err;

    h.lock = fault_acquire(h.client, h.name, 60000);
    h.other = fault_acquire(h.client, h.name, 60000);
    before = fault_row(direct, h.name);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, process_wait(process_start(child, &h), 20000));
        after = fault_row(direct, h.name);
        assert_int_equal(2, after.found);
        assert_int_equal(before.fence, after.fence);
        assert_int_equal(2, after.hold_count);
        assert_int_equal(ROWLOCK_OK, rowlock_check(h.lock));
        assert_status(ROWLOCK_OK, rowlock_renew(h.lock, 0, &err), &err);
    }
    assert_int_equal(0, fault_row(direct, "child-0").found);
    fault_release(&h.other);
    fault_release(&h.lock);
    assert_int_not_equal(2, fault_row(direct, h.name).found);
    rowlock_close(&h.client);
    rowlock_close(&direct);
}

/* ---- parent and child both alive, each with a client ----------------------------------------- */

struct board {
    int opened, go, held, end;
    int status;
    char message[240];
};

static struct board *board;

/* Opens a client while the parent has one, and goes on after the parent has closed its own. */
static int outlive(void *payload)
{
    rowlock_client *client = NULL;
    rowlock_lock *before = NULL, *after = NULL;
    rowlock_error err;

    board->status = fault_try_open(&client, fault.backend.address, NULL, &err);
    if (board->status == ROWLOCK_OK)
        board->status = rowlock_acquire(&before, client, "child-before", NULL, &err);
    process_signal(&board->opened, 1);
    process_await(&board->go, 1, 20000);
    if (board->status == ROWLOCK_OK)
        board->status = rowlock_acquire(&after, client, payload, NULL, &err);
    snprintf(board->message, sizeof(board->message), "%s", err.message);
    process_signal(&board->held, 1);
    process_await(&board->end, 1, 20000);
    rowlock_close(&client);
    return 0;
}

/* A third process, which has inherited nothing of the database's: is it kept out of what the child
 * holds? */
static int try_both(void *payload)
{
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int wrong;

    process_await(&board->held, 1, 20000);
    if (board->status != ROWLOCK_OK)
        return 0;
    wrong = fault_try_open(&client, fault.backend.address, NULL, &err) != ROWLOCK_OK;
    wrong |= rowlock_acquire(&lock, client, "child-before", NULL, &err) != ROWLOCK_BUSY ? 2 : 0;
    wrong |= rowlock_acquire(&lock, client, payload, NULL, &err) != ROWLOCK_BUSY ? 4 : 0;
    rowlock_close(&client);
    return wrong;
}

static void child_outlives_the_parents_client(void **state)
{
    static char name[] = "child-after";
    rowlock_client *client;
    rowlock_lock *lock;
    pid_t third, child;
    int seen;

    (void)state;
    board = process_shared(sizeof(*board));
    assert_non_null(board);
    third = process_start(try_both, name); /* before we have a client */
    client = fault_open(fault.backend.address, NULL);
    lock = fault_acquire(client, fault_name("parent"), 60000);
    child = process_start(outlive, name);
    process_await(&board->opened, 1, 20000);
    fault_release(&lock);
    rowlock_close(&client);
    process_signal(&board->go, 1);
    seen = process_wait(third, 30000);
    process_signal(&board->end, 1);
    assert_int_equal(0, process_wait(child, 20000));
    print_message("the child: status %d: %s\n", board->status, board->message);
    assert_int_equal(may_open_in_child() ? ROWLOCK_OK : ROWLOCK_ECONNECT, board->status);
    assert_int_equal(0, seen); /* 2, 4: a lock that the child holds was granted again */
    process_unshare(board, sizeof(*board));
}

static void uses_everything(void **state)
{
    (void)state;
    inherited(child_uses_everything);
}

static void closes(void **state)
{
    (void)state;
    inherited(child_closes);
}

static void closes_then_releases(void **state)
{
    (void)state;
    inherited(child_closes_then_releases);
}

static void exits(void **state)
{
    (void)state;
    inherited(child_exits);
}

static void opens_its_own(void **state)
{
    (void)state;
    inherited(child_opens_its_own);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(uses_everything),      cmocka_unit_test(closes),
        cmocka_unit_test(closes_then_releases), cmocka_unit_test(exits),
        cmocka_unit_test(opens_its_own),        cmocka_unit_test(child_outlives_the_parents_client),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
