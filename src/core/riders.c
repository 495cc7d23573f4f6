/* SPDX-License-Identifier: MIT
 *
 * The list of those who wait for a request to come back, in the order in which they came. All under
 * the client's mutex. */
#include "batch.h"

void rlk_riders_append(rlk_combiner *combiner, rlk_rider *rider)
{
    rider->next = NULL;
    if (combiner->first == NULL)
        combiner->first = rider;
    else
        combiner->last->next = rider;
    combiner->last = rider;
    combiner->waiting++;
}

void rlk_riders_put_first(rlk_combiner *combiner, rlk_rider *rider)
{
    rider->next = combiner->first;
    combiner->first = rider;
    combiner->waiting++;
    if (rider->next == NULL)
        combiner->last = rider;
}

rlk_rider *rlk_riders_take_first(rlk_combiner *combiner)
{
    rlk_rider *rider = combiner->first;

    if (rider != NULL) {
        combiner->first = rider->next;
        combiner->waiting--;
    }
    return rider;
}

int rlk_riders_withdraw(rlk_combiner *combiner, const rlk_rider *rider)
{
    rlk_rider *before = NULL, *at = combiner->first;

    while (at != NULL && at != rider) {
        before = at;
        at = at->next;
    }
    if (at == NULL)
        return 0;
    if (before == NULL)
        combiner->first = at->next;
    else
        before->next = at->next;
    if (combiner->last == at)
        combiner->last = before;
    combiner->waiting--;
    return 1;
}
