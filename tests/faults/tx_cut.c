/* SPDX-License-Identifier: MIT
 *
 * Transactions on the library's connection, when that breaks: while locking, before the COMMIT,
 * during it, and with its reply lost; packets that vanish; sessions that the server ends. COMMIT is
 * never reported done when it is not, nor undone when it is done; no call outlives its bounds; the
 * lock comes free. */
#include "tx_scene.h"

static void begin(struct scene *s)
{
    struct native native;

    assert_status(ROWLOCK_OK, rowlock_tx_begin(&s->tx, s->client, &s->name, 1, NULL, &s->err),
                  &s->err);
    native_borrow(&native, s->tx);
    assert_non_null(native.conn);
    scene_write(s, &native);
}

/* Returns whether the plan has struck. */
static int cut_begin(int cut, int skip, int refuse)
{
    const proxy_plan plan = {.fault = scene_cuts[cut].fault, .skip = skip, .then_refuse = refuse};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    int struck = proxy_disarm(fault.proxy);
    struct scene s;
    int status;

    scene_open(&s, "begin");
    options.wait_ms = SCENE_FREE_MS;
    proxy_arm(fault.proxy, &plan);
    status = rowlock_tx_begin(&s.tx, s.client, &s.name, 1, &options, &s.err);
    struck = proxy_disarm(fault.proxy) - struck;
    print_message("begin, trip %d cut %s%s: %d %s\n", skip, scene_cuts[cut].name,
                  refuse ? " for good" : "", status, s.err.message);
    scene_says_why(status, &s.err);
    if (status == ROWLOCK_OK)
        assert_status(ROWLOCK_OK, rowlock_tx_commit(&s.tx, &s.err), &s.err);
    else
        assert_int_equal(ROWLOCK_ECONNECT, status);
    assert_true(status == ROWLOCK_OK || struck);
    assert_true(!refuse || !struck || status != ROWLOCK_OK);
    assert_null(s.tx);
    assert_int_equal(0, proxy_refuse(fault.proxy, 0));
    scene_comes_free(&s);
    scene_close(&s);
    return struck;
}

static void while_locking(void **state)
{
    (void)state;
    for (int cut = 0; cut < SCENE_CUTS; cut++) {
        for (int refuse = 0; refuse < 2; refuse++) {
            int skip = 0;
            while (skip < SCENE_TRIPS && cut_begin(cut, skip, refuse))
                skip++;
            assert_true(skip > 0 && skip < SCENE_TRIPS);
        }
    }
}

static int cut_commit(int cut, int skip)
{
    const proxy_plan plan = {.fault = scene_cuts[cut].fault, .skip = skip};
    int struck = proxy_disarm(fault.proxy);
    struct scene s;
    int status, committed;

    scene_open(&s, "commit");
    begin(&s);
    proxy_arm(fault.proxy, &plan);
    status = rowlock_tx_commit(&s.tx, &s.err);
    struck = proxy_disarm(fault.proxy) - struck;
    assert_null(s.tx);
    scene_comes_free(&s);
    committed = scene_is_committed(&s);
    print_message("commit, trip %d cut %s: %d %s (%scommitted)\n", skip, scene_cuts[cut].name,
                  status, s.err.message, committed ? "" : "not ");
    scene_says_why(status, &s.err);
    if (!struck)
        assert_status(ROWLOCK_OK, status, &s.err);
    if (committed)
        assert_true(status == ROWLOCK_OK || status == ROWLOCK_EUNKNOWN);
    else
        assert_true(status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN);
    scene_close(&s);
    return struck;
}

static void during_commit(void **state)
{
    (void)state;
    for (int cut = 0; cut < SCENE_CUTS; cut++) {
        int skip = 0;
        while (skip < SCENE_TRIPS && cut_commit(cut, skip))
            skip++;
        assert_true(skip > 0 && skip < SCENE_TRIPS);
    }
}

/* With the reply lost and nothing else: it is committed, and nobody may say anything else. */
static void reply_of_commit(void **state)
{
    const proxy_plan plan = {.fault = PROXY_CUT_REPLY};
    struct scene s;

    (void)state;
    scene_open(&s, "reply");
    begin(&s);
    proxy_arm(fault.proxy, &plan);
    assert_status(ROWLOCK_EUNKNOWN, rowlock_tx_commit(&s.tx, &s.err), &s.err);
    proxy_disarm(fault.proxy);
    scene_says_why(ROWLOCK_EUNKNOWN, &s.err);
    scene_comes_free(&s);
    assert_int_equal(1, scene_is_committed(&s));
    scene_close(&s);
}

static void before_commit(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, "gone");
    begin(&s);
    proxy_cut_all(fault.proxy);
    assert_status(ROWLOCK_ECONNECT, rowlock_tx_commit(&s.tx, &s.err), &s.err);
    scene_says_why(ROWLOCK_ECONNECT, &s.err);
    scene_comes_free(&s);
    assert_int_equal(0, scene_is_committed(&s));
    begin(&s); /* the client finds another one */
    proxy_cut_all(fault.proxy);
    assert_status(ROWLOCK_OK, rowlock_tx_rollback(&s.tx, &s.err), &s.err);
    scene_comes_free(&s);
    assert_int_equal(0, scene_is_committed(&s));
    scene_close(&s);
}

static void killed(void **state)
{
    struct native native, killer;
    struct scene s;
    int status;

    (void)state;
    scene_open(&s, "killed");
    assert_int_equal(0, native_open(&killer, fault.backend.address, 0));
    begin(&s);
    native_borrow(&native, s.tx);
    assert_int_equal(0, native_kill(&native, &killer));
    status = rowlock_tx_commit(&s.tx, &s.err);
    print_message("commit of a session that is killed: %d %s\n", status, s.err.message);
    scene_says_why(status, &s.err);
    assert_int_not_equal(ROWLOCK_OK, status);
    scene_comes_free(&s);
    assert_int_equal(0, scene_is_committed(&s));
    native_close(&killer);
    scene_close(&s);
}

/* ---- packets that vanish --------------------------------------------------------------------- */

static void swallowed_begin(int directions)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    struct scene s;
    int64_t start;
    int status;

    scene_open(&s, "swallow");
    options.wait_ms = 500;
    proxy_blackhole(fault.proxy, directions);
    start = process_now_ms();
    status = rowlock_tx_begin(&s.tx, s.client, &s.name, 1, &options, &s.err);
    scene_within(start, options.wait_ms + SCENE_TIMEOUT_MS + SCENE_CONNECT_MS);
    proxy_blackhole(fault.proxy, 0);
    assert_status(ROWLOCK_ECONNECT, status, &s.err);
    scene_says_why(status, &s.err);
    scene_comes_free(&s);
    scene_close(&s);
}

static void swallowed_end(int directions, int commit)
{
    struct scene s;
    int64_t start;
    int status;

    scene_open(&s, "swallow");
    begin(&s);
    proxy_blackhole(fault.proxy, directions);
    start = process_now_ms();
    status = commit ? rowlock_tx_commit(&s.tx, &s.err) : rowlock_tx_rollback(&s.tx, &s.err);
    scene_within(start, SCENE_TIMEOUT_MS);
    proxy_blackhole(fault.proxy, 0);
    assert_status(commit ? ROWLOCK_EUNKNOWN : ROWLOCK_OK, status, &s.err);
    scene_comes_free(&s);
    assert_int_equal(commit && directions == PROXY_TO_CLIENT, scene_is_committed(&s));
    scene_close(&s);
}

static void swallowed(void **state)
{
    (void)state;
    for (int directions = PROXY_TO_SERVER; directions <= PROXY_TO_CLIENT; directions++) {
        swallowed_begin(directions);
        swallowed_end(directions, 1);
        swallowed_end(directions, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        SCENE(while_locking), SCENE(during_commit), SCENE(reply_of_commit),
        SCENE(before_commit), SCENE(killed),        SCENE(swallowed),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
