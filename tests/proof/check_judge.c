/* SPDX-License-Identifier: MIT */
#include "check_lists.h"

#include <stdlib.h>

#define ORDER(a, b) \
    if ((a) != (b)) \
    return (a) < (b) ? -1 : 1

static int by_fence(const void *one, const void *other)
{
    const struct tenure *a = one, *b = other;

    ORDER(a->name, b->name);
    ORDER(a->fence, b->fence);
    ORDER(a->start_ns, b->start_ns);
    return 0;
}

/* Was the server's clock set back between these times? They are few. */
static int was_set_back(const struct check *check, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t *at = check->clocks.items;

    for (size_t i = 0; i < check->clocks.n; i++)
        if (at[i] >= from_ns && at[i] <= to_ns)
            return 1;
    return 0;
}

/* The same hold, entered again by an owner who could not know that it had it. */
static int goes_on(const struct check *check, const struct tenure *before, const struct tenure *t)
{
    if (before->process != t->process || before->thread != t->thread)
        return 0;
    return t->may_go_on || was_set_back(check, before->start_ns, t->start_ns);
}

/* How t stands to one whose fence is not larger; CHECK_KINDS: as it should. One that had ended
 * before its thread could look at the time was never believed in, and began nobody knows when. */
static enum check_violation compare(const struct check *check, const struct tenure *before,
                                    const struct tenure *t)
{
    if (before->fence == t->fence && !goes_on(check, before, t))
        return CHECK_FENCE_TWICE;
    if (before->end_ns == before->start_ns || t->end_ns == t->start_ns)
        return CHECK_KINDS;
    if (t->start_ns < before->start_ns)
        return CHECK_FENCE_ORDER;
    if (t->start_ns < before->end_ns)
        return before->is_guarded ? CHECK_GUARD_LATE : CHECK_OVERLAP;
    return CHECK_KINDS;
}

static void judge_pair(struct check *check, const struct tenure *before, const struct tenure *t)
{
    enum check_violation kind = compare(check, before, t);

    if (kind == CHECK_KINDS)
        return;
    check_violated(&check->report, kind,
                   "name %u: process %u.%u, fence %llu, %llu to %llu; process %u.%u, fence %llu, "
                   "%llu to %llu: %s",
                   t->name, before->process, before->thread, (unsigned long long)before->fence,
                   (unsigned long long)before->start_ns, (unsigned long long)before->end_ns,
                   t->process, t->thread, (unsigned long long)t->fence,
                   (unsigned long long)t->start_ns, (unsigned long long)t->end_ns,
                   check_text(kind));
}

/* In the order of fences each tenure begins after the end of all before it. */
void check_judge_tenures(struct check *check)
{
    struct tenure *t = check->tenures.items;
    const struct tenure *last = NULL; /* the one that ends last, of this name */

    if (check->tenures.n > 0)
        qsort(t, check->tenures.n, sizeof(*t), by_fence);
    for (size_t i = 0; i < check->tenures.n; i++) {
        int first = i == 0 || t[i - 1].name != t[i].name;

        if (!first && t[i - 1].fence == t[i].fence)
            judge_pair(check, &t[i - 1], &t[i]);
        else if (!first)
            judge_pair(check, last, &t[i]);
        if (!first && !t[i - 1].is_released)
            check->report.takeovers++;
        if (first || (t[i].end_ns >= last->end_ns && t[i].end_ns > t[i].start_ns))
            last = &t[i];
    }
}

static int by_version(const void *one, const void *other)
{
    const struct written *a = one, *b = other;

    ORDER(a->kind, b->kind);
    ORDER(a->name, b->name);
    ORDER(a->version, b->version);
    ORDER(b->stage == HISTORY_DONE, a->stage == HISTORY_DONE); /* those that were done first */
    return 0;
}

static int by_counter(const void *one, const void *other)
{
    const struct final *a = one, *b = other;

    ORDER(a->kind, b->kind);
    ORDER(a->name, b->name);
    return 0;
}

/* The versions of one counter, sorted: each was made once, with fences that do not fall; those
 * whose outcome is not known may fill gaps. */
static void judge_versions(struct check_report *report, const struct written *w, size_t n,
                           const struct final *final)
{
    uint64_t version = 0, fence = 0;

    for (size_t i = 0; i < n; i++) {
        if (w[i].stage == HISTORY_UNDONE)
            continue;
        if (w[i].stage == HISTORY_DONE && w[i].version == version)
            check_violated(report, CHECK_LOST_UPDATE, "name %u, version %llu, by process %u.%u: %s",
                           w[i].name, (unsigned long long)version, w[i].process, w[i].thread,
                           check_text(CHECK_LOST_UPDATE));
        if (w[i].stage == HISTORY_DONE && w[i].fence < fence)
            check_violated(report, CHECK_STALE_WRITE,
                           "name %u, version %llu, fence %llu after %llu: %s", w[i].name,
                           (unsigned long long)w[i].version, (unsigned long long)w[i].fence,
                           (unsigned long long)fence, check_text(CHECK_STALE_WRITE));
        if (w[i].version > version + 1 && final != NULL && version < final->version)
            check_violated(report, CHECK_COUNTER, "name %u: nobody made version %llu", w[i].name,
                           (unsigned long long)version + 1);
        if (w[i].stage == HISTORY_DONE)
            fence = w[i].fence;
        if (w[i].stage == HISTORY_DONE && final != NULL && w[i].version > final->version)
            check_violated(report, CHECK_COUNTER, "name %u: version %llu is gone, there is %llu",
                           w[i].name, (unsigned long long)w[i].version,
                           (unsigned long long) final->version);
        version = w[i].version;
    }
    if (final != NULL && version < final->version)
        check_violated(report, CHECK_COUNTER, "name %u: nobody made version %llu of %llu",
                       final->name, (unsigned long long)version + 1,
                       (unsigned long long) final->version);
}

void check_judge_writes(struct check *check)
{
    struct written *w = check->writes.items;
    struct final *finals = check->finals.items;

    if (check->writes.n > 0)
        qsort(w, check->writes.n, sizeof(*w), by_version);
    if (check->finals.n > 0)
        qsort(finals, check->finals.n, sizeof(*finals), by_counter);
    for (size_t i = 0, n; i < check->writes.n; i += n) {
        struct final key = {.name = w[i].name, .kind = w[i].kind};
        const struct final *final = NULL;

        if (check->finals.n > 0)
            final = bsearch(&key, finals, check->finals.n, sizeof(key), by_counter);
        for (n = 1;
             i + n < check->writes.n && w[i + n].name == w[i].name && w[i + n].kind == w[i].kind;)
            n++;
        judge_versions(&check->report, w + i, n, final);
    }
}
