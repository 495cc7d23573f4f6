/* SPDX-License-Identifier: MIT
 *
 * Operations as packets, and their rows back.
 *
 * A call is one packet: a batch as JSON in a user variable, then statements whose text never
 * changes. Against SELECT ... UNION ALL with literals, for 100 and 1000 locks, it takes about half
 * the time on MariaDB and the same on MySQL (medians of five alternating runs), and no statement
 * grows with the batch. Reading JSON takes temporary tables, so a single lock travels as literals:
 * about half the time on MariaDB, a tenth to a third less on MySQL. The usual cases take less than
 * that: direct.c, many.c. */
#ifndef MY_BATCH_H
#define MY_BATCH_H

#include "my.h"

enum {
    STATUS_OPEN = INT32_MIN /* not answered yet: free, but locked by somebody at this moment */
};

/* Puts a row of the answer into its op. */
typedef void (*my_read_fn)(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                           const unsigned long *lengths);

/* A statement of a packet, and the literal that it takes (NULL: none). */
typedef struct my_part {
    enum sql_statement which;
    const char *literal;
} my_part;

/* What is done with ops, after the statement that sets their variables. */
typedef struct my_step {
    my_part parts[8];
    size_t count;
    my_read_fn read_row;
} my_step;

void my_step_add(my_step *step, enum sql_statement which, const char *literal);

/* One op, as literals; and the same behind what the packet holds already. */
int my_run_one(my_conn *conn, const my_step *step, rowlock_op *op, int64_t deadline,
               rowlock_error *err);
int my_run_started(my_conn *conn, const my_step *step, rowlock_op *op, int64_t deadline,
                   rowlock_error *err);

/* All open ops, in a batch. More than one packet is needed only where one does not take them; each
 * is a transaction of its own then, and a failure after the first leaves something done. */
int my_run_open(my_conn *conn, const my_step *step, rowlock_op *ops, size_t n, int64_t deadline,
                rowlock_error *err);

/* The same in one packet: EINVAL if it does not take all n. */
int my_run_whole(my_conn *conn, const my_step *step, rowlock_op *ops, size_t n, int all,
                 int64_t deadline, rowlock_error *err);

/* Starts a packet without any op. */
void my_begin_none(my_conn *conn);

/* After a failure: a part of the ops had been done before. EUNKNOWN. */
int my_fail_partly(my_conn *conn, rowlock_error *err);

int64_t my_upto(const rowlock_op *op); /* tickets below this one come first */

void my_set_status(rowlock_op *ops, size_t n, int from, int to); /* from 0: whatever it is */
size_t my_count_status(const rowlock_op *ops, size_t n, int status);
void my_clear_answer(rowlock_op *op);

/* Readies the client library, and opens the ops. */
void my_start_call(rowlock_op *ops, size_t n);

/* A row that is free (or the owner's own) and locked is mostly locked by a call as short as this
 * one, so it is asked about again. Whoever keeps it longer than this has a transaction open. It is
 * short because the other ops of the batch wait, too. */
typedef struct my_patience {
    int64_t until, pause_us;
} my_patience;

my_patience my_patience_start(int64_t deadline);
int my_patience_pause(my_patience *patience); /* 0: there is no time left */

/* What a statement takes of an op. seen: nothing for any. */
my_value my_name_of(const rowlock_op *op);
my_value my_owner_of(const rowlock_op *op);
my_value my_attempt_of(const rowlock_op *op);
my_value my_seen_of(const rowlock_op *op);
my_value my_note_of(const rowlock_op *op);
my_value my_value_of(int64_t number);

/* A new tenure, by a short statement. */
void my_set_taken(rowlock_op *op, uint64_t fence, int64_t remaining_us);

/* The usual cases, in one packet. An op stays open if its case is another; then nothing was done
 * for it. Acquire follows conn->guess; ops are without tickets. */
int my_acquire_direct(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err);
int my_acquire_many(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err);
int my_hand_over(my_conn *conn, rowlock_op *release, rowlock_op *acquire, int64_t deadline,
                 rowlock_error *err);

/* A lock that was marked as waited for, free or held: what to expect of the next one. */
int my_guess_marked(my_conn *conn, int is_free);

/* The same by ticket, which stays behind. `heard` is that of the bell that was heard and is still
 * with this connection, which gives it up; 0: none. */
int my_turn_direct(my_conn *conn, rowlock_op *op, uint64_t heard, int64_t deadline,
                   rowlock_error *err);

/* Can it be tried? looks: a row that is locked is not waited for. The bell (NULL: none) rings in
 * any case. */
int my_is_direct(const my_conn *conn);
int my_is_many(const my_conn *conn, size_t n);
int my_release_direct(my_conn *conn, rowlock_op *op, int looks, const char *bell, int64_t deadline,
                      rowlock_error *err);
int my_release_many(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                    int64_t deadline, rowlock_error *err);

/* The parts of a packet of several, START TRANSACTION and COMMIT not included, and their answers,
 * which are freed. */
enum my_if_locked { MY_IF_LOCKED_WAIT, MY_IF_LOCKED_FAIL, MY_IF_LOCKED_SKIP };

void my_add_acquires(my_conn *conn, const rowlock_op *ops, size_t n);
void my_add_releases(my_conn *conn, const rowlock_op *ops, size_t n, enum my_if_locked if_locked);
void my_read_acquires(rowlock_op *ops, size_t n, MYSQL_RES *result);
void my_read_releases(rowlock_op *ops, size_t n, MYSQL_RES *result);

/* Both in one statement, which needs no transaction around it; MariaDB's. */
void my_add_exchange(my_conn *conn, const rowlock_op *releases, size_t n,
                     const rowlock_op *acquires, size_t m);
void my_read_exchange(rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                      MYSQL_RES *result);

/* Of a call that failed: was that because of a row that is locked, and nothing else? */
int my_is_locked(int status, const rowlock_error *err);

/* The steps of acquire, not all or none: the usual cases, and what is open after them; is_patient:
 * a row that is locked is asked about again for a while. Then those that are not to be had are
 * BUSY; after an error those that were not reached are still open. */
int my_acquire_short(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                     rowlock_error *err);
int my_acquire_rest(my_conn *conn, rowlock_op *ops, size_t n, int is_patient, int64_t deadline,
                    rowlock_error *err);

/* The same for release: what is open after the usual cases; and all of it, without waiting. */
int my_release_rest(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                    int64_t deadline, rowlock_error *err);
int my_release_now(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err);

int my_has_ticket(const rowlock_op *ops, size_t n); /* one of them */

/* i, own, mine, fence, hold_count, remaining, owner, queue */
void my_read_acquired(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths);

#endif
