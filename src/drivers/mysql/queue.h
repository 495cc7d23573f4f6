/* SPDX-License-Identifier: MIT
 *
 * Tickets and bells. A bell is a lock of the server's by name (GET_LOCK), which ends with its
 * connection; sql/mysql.sql says what is decided with it. There is nothing here that tells of the
 * release of a holder without a ticket: then can_wait is 0. */
#ifndef MY_QUEUE_H
#define MY_QUEUE_H

#include "batch.h"

/* The names belong to the whole server: a hash of database, prefix and lock, and the ticket, or
 * without it (0) what comes before. Upper and lower case are one database on some servers; that two
 * databases have one bell would only cost time. `out` has MY_BELL_SIZE. */
void my_bell_name(char *out, const my_conn *conn, const rowlock_op *op, uint64_t ticket);
const char *my_name_literal(rlk_text *out, const char *name);
my_value my_bell_value(const char *name);

/* Has this connection the bell of op->ticket? */
int my_has_bell(const my_conn *conn, const rowlock_op *op);

/* A ticket that was served and left behind; and one in the queue of that name, or 0. */
void my_leave_behind(my_conn *conn, const rowlock_op *op);
uint64_t my_left_behind(const my_conn *conn, const rowlock_op *op);

/* The columns of acquire_answer, then b.ticket, b.has_bell, last, has_last, life, ticket, has_bell,
 * unmarked */
void my_read_place(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths);

#endif
