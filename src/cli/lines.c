/* SPDX-License-Identifier: MIT
 *
 * One line of a table, and one record, for each lock and each waiter. */
#include <stdlib.h>
#include <string.h>

#include "view.h"

enum { SOON_MS = 5000 }; /* less is left of a lease: shown in a colour */

/* ---- locks ----------------------------------------------------------------------------------- */

static void lock_cells(cli_table *t, const cli_lock *lock)
{
    cli_process process;

    cli_process_of(&process, lock->owner);
    cli_cell_text(t, lock->name, lock->name_length);
    cli_cell_text(t, lock->owner, strlen(lock->owner));
    cli_cell_text(t, process.host, strlen(process.host));
    if (process.pid)
        cli_cell_number(t, process.pid);
    else
        cli_cell_text(t, "", 0);
    cli_cell_number(t, lock->fence);
    cli_cell_duration(t, lock->left_ms > 0 ? lock->held_ms : 0);
    cli_cell_duration(t, lock->left_ms);
    cli_cell_colour(t, lock->left_ms < SOON_MS && lock->left_ms > 0 ? CLI_RED : CLI_PLAIN);
    cli_cell_number(t, lock->waiters);
    cli_cell_colour(t, lock->waiters > 0 ? CLI_YELLOW : CLI_DIM);
    cli_cell_text(t, lock->note, strlen(lock->note));
}

int cli_locks_table(const cli_view *v, FILE *out, size_t width, int colours)
{
    static const cli_column columns[] = {
        {"NAME", CLI_KEY, 0},   {"OWNER", CLI_FREE, 3},  {"HOST", CLI_FREE, 1},
        {"PID", CLI_RIGHT, 2},  {"FENCE", CLI_RIGHT, 5}, {"HELD", CLI_RIGHT, 0},
        {"LEFT", CLI_RIGHT, 0}, {"WAIT", CLI_RIGHT, 0},  {"NOTE", CLI_FREE, 4},
    };
    cli_table t;
    int failed;

    cli_table_start(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < v->lock_count; i++)
        lock_cells(&t, &v->locks[i]);
    failed = cli_table_print(&t, out, width, colours);
    cli_table_end(&t);
    return failed;
}

void cli_put_lock(cli_writer *w, const cli_lock *lock)
{
    cli_process process;

    cli_process_of(&process, lock->owner);
    cli_put_name(w, "name", lock->name, lock->name_length);
    cli_put_text(w, "owner", lock->owner);
    cli_put_text(w, "host", process.host[0] ? process.host : NULL);
    if (process.pid)
        cli_put_number(w, "pid", (int64_t)process.pid);
    else
        cli_put_text(w, "pid", NULL);
    cli_put_number(w, "fence", (int64_t)lock->fence);
    cli_put_number(w, "held_ms", lock->held_ms);
    cli_put_number(w, "left_ms", lock->left_ms);
    cli_put_number(w, "count", lock->count);
    cli_put_number(w, "waiters", (int64_t)lock->waiters);
    cli_put_text(w, "note", lock->note);
}

/* ---- waiters --------------------------------------------------------------------------------- */

/* "holder", or "holder > what it waits for: its holder", and so on. */
static char *chain_text(const cli_chains *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    if (c->deadlock)
        fputs("DEADLOCK: ", out);
    for (size_t i = 0; i < c->count; i++) {
        char shown[4 * ROWLOCK_NAME_MAX + 1];

        cli_printable(shown, c->steps[i]->name, c->steps[i]->name_length);
        if (i > 0)
            fprintf(out, " > %s: ", shown);
        fputs(c->steps[i]->holder ? c->steps[i]->holder : "-", out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void waiter_cells(cli_table *t, cli_chains *c, const cli_waiter *waiter)
{
    char *chain;

    cli_chains_follow(c, waiter);
    chain = chain_text(c);
    cli_cell_text(t, waiter->name, waiter->name_length);
    cli_cell_number(t, waiter->place);
    cli_cell_text(t, waiter->owner, strlen(waiter->owner));
    cli_cell_duration(t, waiter->waited_ms);
    cli_cell_text(t, chain ? chain : "?", chain ? strlen(chain) : 1);
    cli_cell_colour(t, c->deadlock ? CLI_RED : CLI_PLAIN);
    free(chain);
}

int cli_waiters_table(const cli_view *v, const char *name, FILE *out, size_t width, int colours)
{
    static const cli_column columns[] = {
        {"NAME", CLI_KEY, 0},     {"PLACE", CLI_RIGHT, 0},     {"WAITER", CLI_FREE, 0},
        {"WAITED", CLI_RIGHT, 0}, {"BLOCKED BY", CLI_FREE, 0},
    };
    cli_chains chains;
    cli_table t;
    int failed = cli_chains_start(&chains, v);

    cli_table_start(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < v->waiter_count && !failed; i++)
        if (cli_view_is(v->waiters[i].name, v->waiters[i].name_length, name))
            waiter_cells(&t, &chains, &v->waiters[i]);
    if (!failed)
        failed = cli_table_print(&t, out, width, colours);
    cli_table_end(&t);
    cli_chains_end(&chains);
    return failed;
}

/* blocked_by: who holds the lock, then who holds what that one waits for, and so on. */
static void put_waiter(cli_writer *w, cli_chains *chains, const cli_waiter *waiter)
{
    cli_chains_follow(chains, waiter);
    cli_put_name(w, "name", waiter->name, waiter->name_length);
    cli_put_number(w, "place", (int64_t)waiter->place);
    cli_put_text(w, "owner", waiter->owner);
    cli_put_number(w, "ticket", (int64_t)waiter->ticket);
    cli_put_number(w, "waited_ms", waiter->waited_ms);
    cli_put_text(w, "holder", waiter->holder);
    cli_put_key(w, "blocked_by");
    fputc('[', w->out);
    for (size_t i = 0; i < chains->count && chains->steps[i]->holder; i++) {
        cli_writer inner = {.out = w->out};

        fputs(i ? ", {" : "{", w->out);
        cli_put_text(&inner, "owner", chains->steps[i]->holder);
        cli_put_name(&inner, "holds", chains->steps[i]->name, chains->steps[i]->name_length);
        fputc('}', w->out);
    }
    fputc(']', w->out);
    cli_put_flag(w, "deadlock", chains->deadlock);
}

int cli_put_waiters(cli_writer *w, const cli_view *v, const char *name)
{
    cli_chains chains;
    int failed = cli_chains_start(&chains, v);

    for (size_t i = 0; i < v->waiter_count && !failed; i++) {
        if (!cli_view_is(v->waiters[i].name, v->waiters[i].name_length, name))
            continue;
        cli_record_start(w);
        put_waiter(w, &chains, &v->waiters[i]);
        cli_record_end(w);
    }
    cli_chains_end(&chains);
    return failed;
}
