/* SPDX-License-Identifier: MIT
 *
 * What the tests of broken transactions share: a lock, a row that is written under it, a proxy in
 * between, and the question what has become of them. */
#ifndef TEST_TX_SCENE_H
#define TEST_TX_SCENE_H

#include "native.h"

enum { SCENE_TIMEOUT_MS = 1000, SCENE_CONNECT_MS = 1000, SCENE_FREE_MS = 10000, SCENE_TRIPS = 8 };

/* What is cut, and what to call it. */
struct scene_cut {
    const char *name;
    enum proxy_fault fault;
};
enum { SCENE_CUTS = 3 };
extern const struct scene_cut scene_cuts[SCENE_CUTS];

/* What one case works with. */
struct scene {
    rowlock_client *client; /* through the proxy */
    rowlock_client *direct; /* past it */
    const char *name;
    rowlock_tx *tx;
    struct native native; /* the application's, through the proxy */
    int id;               /* of the row that the transaction writes */
    rowlock_error err;
};

void scene_open(struct scene *s, const char *what);
void scene_close(struct scene *s);

/* Writes the row in the transaction that is open on `native`; asserts. */
void scene_write(struct scene *s, struct native *native);
int scene_is_committed(const struct scene *s);

/* The lock can be had, once the server has noticed that its client is gone. */
void scene_comes_free(const struct scene *s);

/* The error belongs to the status and has something to say. */
void scene_says_why(int status, const rowlock_error *err);

/* Asserts that no more time has passed since `start`, give or take scheduling. */
void scene_within(int64_t start, int64_t bound_ms);

/* For each case. */
int scene_setup(void **state);
int scene_teardown(void **state);
#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_setup, scene_teardown)

#endif
