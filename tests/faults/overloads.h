/* SPDX-License-Identifier: MIT
 *
 * Somebody else's functions, operators and types, under the names that our PostgreSQL statements
 * use, in the schemas `first`, `public` and `types` of a database. See overloads.sql. */
#ifndef TEST_OVERLOADS_H
#define TEST_OVERLOADS_H

#include <libpq-fe.h>

/* Search paths: those of pg_catalog come after them; come before them, so that only what has no
 * exact match there is found; that of our sessions. */
#define OVERLOADS_FIRST  "first, pg_catalog"
#define OVERLOADS_TYPES  "types, pg_catalog"
#define OVERLOADS_PUBLIC "public"
#define OVERLOADS_OURS   "pg_catalog, pg_temp"

/* All of these assert. The session is a superuser's; `schema` has our tables, named rowlock_*. */

/* Writes what a statement of ours uses, as the server parses it under the search_path, into
 * harness.uses. 0: it has refused it. */
int overloads_read_statement(PGconn *session, const char *path, const char *schema, int statement);

/* The same for all of them and for the migrations, on the search_path of our sessions. */
void overloads_read_all(PGconn *session, const char *schema);

/* Makes an overload for everything in harness.uses. */
void overloads_make(PGconn *session);

/* Asserts that no overload was called; prints those that were. */
void overloads_assert_uncalled(PGconn *session);

/* One statement or several; the number in the last row. */
long long overloads_sql(PGconn *session, const char *sql);

#endif
