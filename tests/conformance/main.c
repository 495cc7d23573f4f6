/* SPDX-License-Identifier: MIT
 *
 * conformance <driver> [filter [part/parts]]: the same cases on every driver. The filter is
 * cmocka's, with * and ?; several processes may run a part each, 0/3, 1/3 and 2/3. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance.h"

static const struct suite *const suites[] = {
    &open_suite,        &schema_suite,        &acquire_suite,       &release_suite,
    &renew_suite,       &force_suite,         &reap_suite,          &list_suite,
    &batch_suite,       &text_suite,          &locked_suite,        &steps_suite,
    &diagnose_suite,    &queue_order_suite,   &queue_turn_suite,    &queue_bell_suite,
    &queue_steps_suite, &queue_look_suite,    &queue_list_suite,    &api_client_suite,
    &api_acquire_suite, &api_wait_suite,      &api_many_suite,      &api_hold_suite,
    &api_look_suite,    &api_tables_suite,    &api_arguments_suite, &tx_prepare_suite,
    &tx_lock_suite,     &tx_guard_suite,      &api_tx_suite,        &api_tx_input_suite,
    &api_tx_wait_suite, &api_modes_suite,     &api_native_suite,    &api_native_wait_suite,
    &api_guard_suite,   &native_input_suite,  &api_combine_suite,   &after_free_suite,
    &exchange_suite,    &exchange_twin_suite, &exchange_hand_suite, &exchange_beside_suite,
    &queue_heard_suite, &queue_again_suite,   &queue_wait_suite,    &queue_marked_suite,
    &queue_chain_suite, &clock_back_suite,    &floor_suite,         &late_suite,
    &future_suite,      &between_suite,       &changed_suite};

static size_t part, parts = 1;

/* Runs those cases of the suite that the backend's capabilities allow; the number that failed. */
static int run_suite(const struct suite *suite, struct fixture *f, size_t *ran)
{
    static size_t seen;
    struct CMUnitTest *tests = calloc(suite->count + 1, sizeof(*tests));
    if (tests == NULL)
        return 1;
    size_t n = 0;
    for (size_t i = 0; i < suite->count; i++) {
        if ((suite->cases[i].caps & ~f->backend->caps) != 0 || seen++ % parts != part)
            continue;
        tests[n++] = (struct CMUnitTest){.name = suite->cases[i].name,
                                         .test_func = suite->cases[i].run,
                                         .setup_func = case_setup,
                                         .teardown_func = case_teardown,
                                         .initial_state = f};
    }
    char name[64];
    snprintf(name, sizeof(name), "%s.%s", f->backend->kind->name, suite->name);
    int failed = n == 0 ? 0 : _cmocka_run_group_tests(name, tests, n, NULL, NULL);
    *ran += n;
    free(tests);
    return failed;
}

/* The tables of this run, made before the first case and removed after the last. */
static int run_tables_to(struct fixture *f, int version)
{
    void *conn = NULL;
    int status = conn_begin(f, &conn, f->backend->address, f->prefix);
    if (status == ROWLOCK_OK)
        status = tables_to(f, conn, version);
    if (status != ROWLOCK_OK)
        fprintf(stderr, "conformance: cannot make or remove the tables: %s\n", f->err.message);
    conn_end(f, conn);
    return status;
}

static int run_all(struct fixture *f)
{
    if (run_tables_to(f, f->driver->migration_count) != ROWLOCK_OK)
        return 1;
    int failed = 0;
    size_t ran = 0;
    for (size_t i = 0; i < COUNT(suites); i++)
        failed += run_suite(suites[i], f, &ran);
    if (run_tables_to(f, 0) != ROWLOCK_OK)
        failed++;
    fprintf(stderr, "conformance %s: %zu cases, %d failed\n", f->backend->kind->name, ran, failed);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4 ||
        (argc == 4 && (sscanf(argv[3], "%zu/%zu", &part, &parts) != 2 || part >= parts))) {
        fprintf(stderr, "usage: %s %s [filter [part/parts]]\n", argv[0], backend_names());
        return 2;
    }
    if (argc >= 3)
        cmocka_set_test_filter(argv[2]);
    struct backend backend;
    int status = backend_open(&backend, argv[1]);
    if (status != 0)
        return status;

    struct fixture f = {.backend = &backend, .driver = backend.driver};
    snprintf(f.prefix, sizeof(f.prefix), "c%ld_", (long)getpid());
    int failed = run_all(&f);
    backend_close(&backend);
    return failed != 0;
}
