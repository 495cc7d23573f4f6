/* SPDX-License-Identifier: MIT
 *
 * What this process holds: a table from (name, owner) to the tenure. Two names never share anything
 * but a chain. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { ENDS_AT_ONCE = 2 }; /* for each new one, so that they do not pile up for who counts */

rlk_tenure *rlk_tenure_new(const char *name, size_t name_length, const char *owner)
{
    size_t owner_length = strlen(owner);
    rlk_tenure *tenure = calloc(1, sizeof *tenure + name_length + 1 + owner_length + 1);

    if (tenure == NULL)
        return NULL;
    memcpy(tenure->name, name, name_length);
    tenure->name_length = name_length;
    memcpy(tenure->name + name_length + 1, owner, owner_length);
    tenure->owner = tenure->name + name_length + 1;
    atomic_store(&tenure->hold_until_us, RLK_NEVER);
    tenure->refs = 1;
    return tenure;
}

/* Also where others look for it. It is held, or in no heap yet. */
static void set_deadline(rlk_tenure *tenure, int64_t deadline_us)
{
    atomic_store(&tenure->deadline_us, deadline_us);
    if (tenure->end.heap != NULL)
        rlk_heap_put(tenure->end.heap, &tenure->end, deadline_us);
    if (tenure->alarm.heap != NULL)
        rlk_heap_put(tenure->alarm.heap, &tenure->alarm, deadline_us);
}

void rlk_tenure_prolong(rlk_tenure *tenure, int64_t deadline_us)
{
    int64_t most = atomic_load(&tenure->hold_until_us);

    if (deadline_us >= most) {
        deadline_us = most;
        atomic_store(&tenure->is_last, 1);
    }
    if (deadline_us > atomic_load(&tenure->deadline_us))
        set_deadline(tenure, deadline_us);
}

void rlk_tenure_outlives(rlk_tenure *tenure, int64_t remaining_us)
{
    int64_t until = rlk_clock_us() + remaining_us + rlk_margin(tenure->ttl_us);

    if (until > tenure->row_until_us)
        tenure->row_until_us = until;
}

static void set_lost(rlk_tenure *tenure, int loss)
{
    int held = ROWLOCK_LOSS_NONE;

    atomic_compare_exchange_strong(&tenure->lost, &held, loss);
}

void rlk_tenure_lose(rlk_tenure *tenure, int loss)
{
    set_lost(tenure, loss);
    rlk_heap_remove(&tenure->end);
    if (tenure->alarm.heap != NULL && !tenure->is_asked)
        rlk_heap_put(tenure->alarm.heap, &tenure->alarm, 0);
}

int rlk_tenure_is_lost(rlk_tenure *tenure)
{
    int loss = ROWLOCK_LOSS_EXPIRED;

    if (atomic_load(&tenure->lost))
        return 1;
    if (rlk_clock_us() < atomic_load(&tenure->deadline_us))
        return 0;
    if (atomic_load(&tenure->is_last))
        loss = ROWLOCK_LOSS_MAX_HOLD;
    else if (atomic_load(&tenure->is_unreachable))
        loss = ROWLOCK_LOSS_UNREACHABLE;
    set_lost(tenure, loss);
    return 1;
}

int64_t rlk_tenure_ttl(const rlk_tenure *tenure, int64_t ttl_us)
{
    int64_t left;

    if (atomic_load(&tenure->hold_until_us) == RLK_NEVER)
        return ttl_us;
    left = atomic_load(&tenure->hold_until_us) - rlk_clock_us();
    if (left <= 0)
        return 1;
    return left < ttl_us ? left : ttl_us;
}

/* FNV-1a. Owners of the same name are in one chain: mostly there is but one. */
static size_t hash(const char *name, size_t length)
{
    const unsigned char *byte = (const unsigned char *)name;
    uint64_t value = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        value = (value ^ byte[i]) * UINT64_C(1099511628211);
    return (size_t)(value ^ value >> 32);
}

static int same_key(const rlk_tenure *a, const rlk_tenure *b)
{
    return a->name_length == b->name_length && memcmp(a->name, b->name, a->name_length) == 0 &&
           strcmp(a->owner, b->owner) == 0;
}

/* The pointer that points to the tenure with this key, or to the end of its chain. */
static rlk_tenure **find(const rlk_tenures *tenures, const rlk_tenure *key)
{
    rlk_tenure **at = &tenures->slots[hash(key->name, key->name_length) % tenures->slot_count];

    while (*at != NULL && !same_key(*at, key))
        at = &(*at)->next;
    return at;
}

int rlk_tenures_has(const rlk_tenures *tenures, const rlk_tenure *like)
{
    rlk_tenure *found = tenures->slot_count == 0 ? NULL : *find(tenures, like);

    return found != NULL && !rlk_tenure_is_lost(found);
}

rlk_tenure *rlk_tenures_of_name(const rlk_tenures *tenures, const char *name, size_t length)
{
    rlk_tenure *at =
        tenures->slot_count == 0 ? NULL : tenures->slots[hash(name, length) % tenures->slot_count];

    while (at != NULL && (at->name_length != length || memcmp(at->name, name, length) != 0 ||
                          rlk_tenure_is_lost(at)))
        at = at->next;
    return at;
}

/* Lost, and not known to be over in the database. */
static int may_live(rlk_tenure *tenure)
{
    return !tenure->is_over && rlk_tenure_is_lost(tenure) && rlk_clock_us() < tenure->row_until_us;
}

rlk_tenure *rlk_tenures_remnant(const rlk_tenures *tenures, const rlk_tenure *like)
{
    rlk_tenure *found = tenures->slot_count == 0 ? NULL : *find(tenures, like);

    return found != NULL && !found->is_unknown && may_live(found) ? found : NULL;
}

rlk_tenure *rlk_tenures_lost(const rlk_tenures *tenures, const rlk_tenure *like)
{
    rlk_tenure *found = tenures->slot_count == 0 ? NULL : *find(tenures, like);

    return found != NULL && found->fence == like->fence && rlk_tenure_is_lost(found) ? found : NULL;
}

/* Takes it out of the table, if it is there. */
static void take_out(rlk_tenures *tenures, rlk_tenure *tenure)
{
    rlk_tenure **at = find(tenures, tenure);

    if (*at != tenure)
        return;
    *at = tenure->next;
    tenures->count--;
    rlk_heap_remove(&tenure->end);
    rlk_tenure_unref(tenure);
}

void rlk_tenures_bury(rlk_tenures *tenures, rlk_tenure *remnant)
{
    remnant->is_over = 1;
    if (remnant->handles == 0)
        take_out(tenures, remnant);
}

void rlk_tenures_leave_behind(rlk_tenures *tenures, rlk_tenure *tenure)
{
    rlk_tenure **at = find(tenures, tenure), *old = *at;
    int is_same = old != NULL && (tenure->is_unknown || old->fence == tenure->fence);

    if (old != NULL && old != tenure && !old->is_unknown &&
        (is_same || old->fence > tenure->fence) && (!rlk_tenure_is_lost(old) || may_live(old))) {
        if (!is_same)
            return;
        old->may_linger = 1;
        if (tenure->row_until_us > old->row_until_us)
            old->row_until_us = tenure->row_until_us;
        if (old->end.heap == &tenures->remnants)
            rlk_heap_put(&tenures->remnants, &old->end, old->row_until_us);
        return;
    }
    rlk_tenure_lose(tenure, ROWLOCK_LOSS_EXPIRED);
    if (old != tenure) {
        tenure->next = old != NULL ? old->next : NULL;
        tenure->refs++;
        *at = tenure;
        tenures->count += old == NULL;
    }
    if (old != NULL && old != tenure) { /* it is over, or nothing would have been asked */
        rlk_tenure_lose(old, ROWLOCK_LOSS_EXPIRED);
        old->next = NULL;
        rlk_tenure_unref(old);
    }
    rlk_heap_put(&tenures->remnants, &tenure->end, tenure->row_until_us);
}

rlk_tenure *rlk_tenures_take_unknown(rlk_tenures *tenures, const rlk_tenure *like)
{
    rlk_tenure *found = tenures->remnants.first == NULL ? NULL : *find(tenures, like);

    if (found == NULL || !found->is_unknown || !may_live(found))
        return NULL;
    found->refs++;
    take_out(tenures, found);
    return found;
}

static void forget_remnants(rlk_tenures *tenures)
{
    while (tenures->remnants.first != NULL && tenures->remnants.first->key <= rlk_clock_us())
        take_out(tenures, RLK_HEAP_ELEMENT(tenures->remnants.first, rlk_tenure, end));
}

int rlk_tenures_reserve(rlk_tenures *tenures, size_t n)
{
    size_t wanted = tenures->slot_count == 0 ? 16 : tenures->slot_count;
    rlk_tenure **slots;

    forget_remnants(tenures);
    while (wanted < tenures->count + n)
        wanted *= 2;
    if (wanted == tenures->slot_count)
        return 1;
    slots = calloc(wanted, sizeof *slots);
    if (slots == NULL)
        return 0;
    for (size_t i = 0; i < tenures->slot_count; i++) {
        for (rlk_tenure *next, *t = tenures->slots[i]; t != NULL; t = next) {
            rlk_tenure **at = &slots[hash(t->name, t->name_length) % wanted];

            next = t->next;
            t->next = *at;
            *at = t;
        }
    }
    free(tenures->slots);
    tenures->slots = slots;
    tenures->slot_count = wanted;
    return 1;
}

/* Takes those off whose time is up, at most so many. */
static void note_ends(rlk_tenures *tenures, size_t most)
{
    int64_t now = rlk_clock_us();

    for (; most > 0 && tenures->held.first != NULL && tenures->held.first->key <= now; most--) {
        rlk_tenure *tenure = RLK_HEAP_ELEMENT(tenures->held.first, rlk_tenure, end);

        rlk_tenure_is_lost(tenure);
        rlk_heap_remove(&tenure->end);
    }
}

size_t rlk_tenures_held(rlk_tenures *tenures)
{
    note_ends(tenures, SIZE_MAX);
    return tenures->held.count;
}

rlk_tenure *rlk_tenures_attach(rlk_tenures *tenures, rlk_tenure *fresh)
{
    rlk_tenure **at = find(tenures, fresh);
    rlk_tenure *old = *at;

    note_ends(tenures, ENDS_AT_ONCE);
    if (old != NULL && old->fence == fresh->fence && !rlk_tenure_is_lost(old)) {
        int64_t until = atomic_load(&fresh->hold_until_us);

        /* The shortest max_hold_ms of all handles counts, and the longest lease. */
        if (until < atomic_load(&old->hold_until_us)) {
            atomic_store(&old->hold_until_us, until);
            if (until < atomic_load(&old->deadline_us)) {
                atomic_store(&old->is_last, 1);
                set_deadline(old, until);
            }
        }
        rlk_tenure_prolong(old, atomic_load(&fresh->deadline_us));
        if (fresh->ttl_us > old->ttl_us)
            old->ttl_us = fresh->ttl_us;
        if (fresh->row_until_us > old->row_until_us)
            old->row_until_us = fresh->row_until_us;
        memcpy(old->seen, fresh->seen, sizeof old->seen);
        old->is_adopted |= fresh->is_adopted;
        old->handles++;
        old->refs++;
        return old;
    }
    fresh->handles = 1;
    fresh->next = NULL;
    if (old != NULL && old->fence > fresh->fence) {
        /* A later grant was handed out before this one, which is over. */
        fresh->refs++;
        rlk_tenure_lose(fresh, ROWLOCK_LOSS_EXPIRED);
        return fresh;
    }
    fresh->refs += 2; /* the handle's and the table's */
    if (old != NULL) {
        /* A later grant of the same name: whatever the old handles say, theirs is over. */
        fresh->may_linger |= old->is_unknown;
        rlk_tenure_lose(old, ROWLOCK_LOSS_EXPIRED);
        fresh->next = old->next;
        old->next = NULL;
        rlk_tenure_unref(old);
    } else {
        tenures->count++;
    }
    *at = fresh;
    rlk_heap_put(&tenures->held, &fresh->end, atomic_load(&fresh->deadline_us));
    return fresh;
}

void rlk_tenures_detach(rlk_tenures *tenures, rlk_tenure *tenure)
{
    if (--tenure->handles > 0)
        return;
    if (may_live(tenure) && *find(tenures, tenure) == tenure)
        rlk_heap_put(&tenures->remnants, &tenure->end, tenure->row_until_us);
    else
        take_out(tenures, tenure);
}

void rlk_tenures_clear(rlk_tenures *tenures)
{
    for (size_t i = 0; i < tenures->slot_count; i++) {
        for (rlk_tenure *next, *t = tenures->slots[i]; t != NULL; t = next) {
            next = t->next;
            rlk_heap_remove(&t->end);
            rlk_tenure_unref(t);
        }
        tenures->slots[i] = NULL;
    }
    tenures->count = 0;
}

void rlk_tenure_unref(rlk_tenure *tenure)
{
    if (--tenure->refs == 0)
        free(tenure);
}

rlk_tenure **rlk_tenures_all(const rlk_tenures *tenures, size_t *count)
{
    rlk_tenure **all = tenures->count == 0 ? NULL : malloc(tenures->count * sizeof *all);

    *count = 0;
    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < tenures->slot_count; i++) {
        for (rlk_tenure *t = tenures->slots[i]; t != NULL; t = t->next)
            all[(*count)++] = t;
    }
    return all;
}

int rlk_tenure_by_name(const void *a, const void *b)
{
    const rlk_tenure *x = *(rlk_tenure *const *)a, *y = *(rlk_tenure *const *)b;
    size_t n = x->name_length < y->name_length ? x->name_length : y->name_length;
    int order = memcmp(x->name, y->name, n);

    return order != 0 ? order
                      : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}
