/* SPDX-License-Identifier: MIT
 *
 * What the driver finds of a deployment, and if nothing of that is bad, whether its locks exclude.
 * Findings are gathered first, so that fn may use the client. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

typedef struct kept_finding {
    struct kept_finding *next;
    rowlock_finding finding;
    char text[];
} kept_finding;

typedef struct report {
    kept_finding *first, **last;
    int is_bad; /* one of them at least */
    int out_of_memory;
} report;

static const char *put(char **to, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = memcpy(*to, text, n);

    *to += n;
    return copy;
}

static int gather(const rowlock_finding *finding, void *payload)
{
    report *r = payload;
    size_t remedy = finding->remedy == NULL ? 0 : strlen(finding->remedy) + 1;
    kept_finding *copy =
        malloc(sizeof *copy + strlen(finding->subject) + 1 + strlen(finding->message) + 1 + remedy);
    char *to;

    if (copy == NULL) {
        r->out_of_memory = 1;
        return 1;
    }
    to = copy->text;
    copy->next = NULL;
    copy->finding = *finding;
    copy->finding.size = sizeof copy->finding;
    copy->finding.subject = put(&to, finding->subject);
    copy->finding.message = put(&to, finding->message);
    if (finding->remedy != NULL)
        copy->finding.remedy = put(&to, finding->remedy);
    *r->last = copy;
    r->last = &copy->next;
    r->is_bad |= finding->grade == ROWLOCK_GRADE_BAD;
    return 0;
}

static void forget(report *r)
{
    while (r->first != NULL) {
        kept_finding *next = r->first->next;

        free(r->first);
        r->first = next;
    }
    r->last = &r->first;
    r->is_bad = 0;
}

static int do_diagnose(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                       rowlock_error *err)
{
    report *r = arg;
    int rc;

    forget(r); /* of a try that failed half-way */
    rc = client->driver.diagnose(conn, gather, r, timeout_ms, err);
    return rc == ROWLOCK_OK && r->out_of_memory ? rlk_fail_memory(err) : rc;
}

int rowlock_diagnose(rowlock_client *client, rowlock_finding_fn fn, void *payload,
                     rowlock_error *err)
{
    report r = {.last = &r.first};
    rlk_sent sent;
    int rc = fn == NULL ? rlk_fail(err, ROWLOCK_EINVAL, "fn is NULL") : rlk_enter(client, err);

    if (rc != ROWLOCK_OK)
        return rc;
    rc = client->driver.diagnose == NULL
             ? rlk_fail(err, ROWLOCK_ENOTSUP, "the %s driver checks nothing", client->driver.name)
             : rlk_call(client, client->call_timeout_us, do_diagnose, &r, &sent, err);
    if (rc == ROWLOCK_OK && !r.is_bad) {
        rlk_prove_exclusion(client, gather, &r);
        rc = r.out_of_memory ? rlk_fail_memory(err) : rc;
    }
    for (const kept_finding *f = r.first; rc == ROWLOCK_OK && f != NULL; f = f->next) {
        if (fn(&f->finding, payload) != 0)
            break;
    }
    forget(&r);
    rlk_leave(client);
    return rc;
}
