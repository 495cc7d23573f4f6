/* SPDX-License-Identifier: MIT
 *
 * Handles that are given up while the lock stays held, for others to adopt. */
#include "core.h"

/* Out of the table, so that nothing renews it any more and close does not release it. The bell
 * belongs to a connection of ours and is dropped: who waits for it looks, and asks from then on. */
static int detach(rowlock_client *client, rowlock_lock *lock, rowlock_error *err)
{
    rlk_tenure *tenure = lock->tenure;
    int is_last;

    rlk_mutex_lock(&client->mutex);
    rlk_tenures_detach(&client->tenures, tenure);
    is_last = tenure->handles == 0;
    rlk_mutex_unlock(&client->mutex);
    if (is_last)
        rlk_bell_drop(client, tenure);
    if (!rlk_tenure_is_lost(tenure))
        return rlk_ok(err);
    rlk_count_loss(client, tenure);
    return rlk_lost(err);
}

int rowlock_detach(rowlock_lock **lock, rowlock_error *err)
{
    return rlk_let_go(lock, detach, err);
}
