/* SPDX-License-Identifier: MIT
 *
 * What rivals on the MySQL client library share: one connection, statements as text. */
#ifndef BENCH_MY_H
#define BENCH_MY_H

#include <mysql.h>

#include "rivals.h"

enum { MY_COLUMNS = 10 };

typedef struct my_session {
    MYSQL *my;
    const bench_rival *rival;
    char owner[64];
    int64_t number; /* of what is held */
    uint64_t attempts;
    int guess;       /* what the next lock will be like, by the last one */
    int is_prepared; /* the floor's statements are */
} my_session;

/* What the last statement said. */
typedef struct my_answer {
    int has_row;
    long long values[MY_COLUMNS]; /* of its first row, as numbers; NULL is 0 */
    uint64_t affected, inserted;  /* rows; and LAST_INSERT_ID(x) */
} my_answer;

int my_open(void **session, const bench_rival *rival, void *shared);
/* The same; transactions are ended by COMMIT. */
int my_open_manual(void **session, const bench_rival *rival, void *shared);
void my_close(void *session);

/* Creates the tables in rival->detail, a text. */
int my_setup(const bench_rival *rival);

/* One packet, which may hold several statements. The text is made as by printf. */
int my_run(my_session *s, my_answer *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int64_t my_statements(const bench_rival *rival);

#endif
