/* SPDX-License-Identifier: MIT
 *
 * What the files of the command share. Results go to stdout; everything else is one line on stderr
 * that starts with "rowlock: ". Functions that end a subcommand return its exit status. */
#ifndef ROWLOCK_CLI_H
#define ROWLOCK_CLI_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "rowlock/rowlock.h"

/* Exit statuses, of sysexits.h where it has one; the table stands in rowlock.1. */
enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 64,  /* wrong option, duration, name or address: nothing was done */
    CLI_NO_DB = 69,  /* the database cannot be used */
    CLI_OTHER = 70,  /* any other error */
    CLI_BUSY = 75,   /* not acquired */
    CLI_SCHEMA = 78, /* the tables are missing, too old or too new */
    CLI_LOST = 79,   /* the lease ended while the command ran */
    CLI_NOT_EXEC = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128 /* plus the signal's number */
};

#define CLI_GO_ON (-1) /* no exit status: go on */

/* ---- messages (text.c) ----------------------------------------------------------------------- */

/* One line to stderr. Control characters are shown as '?', so that no name can play tricks. */
void cli_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same; returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that; returns CLI_OTHER. */
int cli_out_of_memory(void);

/* Who holds the lock that was BUSY, after `what`; of one without a holder that can be seen, what
 * the library says. `shown` is its name as cli_printable() has it. */
void cli_say_busy(const char *what, const char *shown, const rowlock_holder *holder,
                  const rowlock_error *err);

/* How much of a misplaced word a message may show, for "%.*s": it may be an address, and that may
 * have a password in it. */
int cli_shown(const char *word);

/* Tells what the library said, and returns the exit status of it. */
int cli_fail(const rowlock_error *err);

/* Bytes of the well-formed UTF-8 character at s (n > 0 bytes are there), 0 if there is none. */
size_t cli_utf8(const char *s, size_t n);

/* A name as people see it: what is no printable UTF-8 becomes \xNN, and a backslash is doubled.
 * `out` has room for 4 * n + 1 bytes. */
void cli_printable(char *out, const char *s, size_t n);

/* How many characters a text has, -1 if it is no UTF-8 or has control characters. */
int cli_characters(const char *s);

/* How many letters to add, drop or change to make one word of the other. */
int cli_distance(const char *a, const char *b);

/* ---- arguments (args.c, duration.c) ---------------------------------------------------------- */

typedef struct cli_command {
    const char *name;
    const char *summary; /* for the list of commands */
    const char *help;    /* one screen */
    int (*run)(const struct cli_command *self, int argc, char **argv); /* argv after the name */
} cli_command;

extern const cli_command cli_run, cli_once, cli_acquire, cli_renew, cli_release, cli_list, cli_show,
    cli_waiters, cli_top, cli_metrics, cli_reap, cli_migrate, cli_doctor, cli_fence, cli_bench,
    cli_completion;

extern const cli_command *const cli_commands[]; /* all of them, NULL at the end */

enum cli_kind {
    CLI_FLAG,     /* int *, set to 1 */
    CLI_TEXT,     /* const char ** */
    CLI_SECRET,   /* the same, but taken out of what others see of our arguments */
    CLI_DURATION, /* int64_t *, milliseconds */
    CLI_NUMBER,   /* int *, 0 or more */
    CLI_FENCE     /* uint64_t *, 1 or more */
};

typedef struct cli_option {
    char letter; /* 0: none */
    const char *name;
    enum cli_kind kind;
    void *value; /* left alone if the option is not given */
} cli_option;

#define CLI_OPTION_END          \
    {                           \
        0, NULL, CLI_FLAG, NULL \
    }

typedef struct cli_args {
    char **words; /* what is no option */
    int count;
    char **command; /* what follows "--", NULL-terminated; NULL if there was none */
} cli_args;

/* Reads options, wherever they stand before "--". Returns CLI_GO_ON, or the exit status if help was
 * asked for or something is wrong. Reorders argv. */
int cli_parse(cli_args *out, const cli_command *command, const cli_option *options, int argc,
              char **argv);

/* Tells fn the options of a command, instead of running it: they are those of its cli_parse(). */
typedef void (*cli_describe_fn)(const cli_command *command, const cli_option *options,
                                void *payload);
void cli_describe(const cli_command *command, cli_describe_fn fn, void *payload);

/* The only word that is no option, as a lock's name of a right length. CLI_GO_ON or CLI_USAGE. */
int cli_name_check(const char **out, const cli_command *command, const cli_args *args);

/* "500ms", "30s", "1h30m", "1.5h", "2d", "90" (seconds). 0, or -1 if it is none of these. */
int cli_duration(int64_t *out_ms, const char *text);

/* A clock of our own that never goes back and does not stand still while the machine sleeps. */
int64_t cli_now_ms(void);

/* A duration for people, at most two units: "1h05m", "12.3s", "850ms". */
void cli_duration_text(char out[32], int64_t ms);

/* ---- databases (db.c, db_name.c) ------------------------------------------------------------- */

#define CLI_LOCAL "local" /* as an address: the file of this user on this host */

enum { CLI_DB_NAME_SIZE = 400 };

typedef struct cli_db {
    const char *address; /* --db; once it was opened also from ROWLOCK_DB, or CLI_LOCAL */
    int is_local;        /* --local */
    const char *prefix, *schema;
    char name[CLI_DB_NAME_SIZE]; /* once it was opened: see cli_db_name() */
} cli_db;

#define CLI_DB_OPTIONS(db)                                                          \
    {'d', "db", CLI_SECRET, &(db).address}, {0, "local", CLI_FLAG, &(db).is_local}, \
        {0, "prefix", CLI_TEXT, &(db).prefix},                                      \
    {                                                                               \
        0, "schema", CLI_TEXT, &(db).schema                                         \
    }

/* Opens a client on db's address or ROWLOCK_DB; the tables of the local file are created. The
 * caller sets what it needs in `options`. CLI_GO_ON or an exit status: CLI_USAGE without an
 * address. */
int cli_db_open(rowlock_client **out, cli_db *db, rowlock_options *options);

/* Has the local file been asked for, by --local or the address "local"? Once it was opened. */
int cli_db_is_local(const cli_db *db);

/* The same to look at whatever is there: makes no tables, no file and no folder. CLI_GO_ON with
 * *out NULL: it cannot be opened, which *err tells. */
int cli_db_look(rowlock_client **out, cli_db *db, rowlock_options *options, rowlock_error *err);

/* The driver of a dialect, or if that is NULL of db's address. CLI_GO_ON or an exit status. */
int cli_db_driver(const rowlock_driver **out, cli_db *db, const char *dialect);

/* The same, but the dialect's name, also if its driver is not built. */
int cli_db_dialect(const char **out, cli_db *db, const char *dialect);

/* What people may see of an address (db_name.c): a file's path; a server's kind, host, port and
 * database, or only its kind where these cannot be told from a password for certain. */
void cli_db_name(char out[CLI_DB_NAME_SIZE], const char *address, int is_file);

/* The driver itself (driver_linked.c or driver_loaded.c): "postgresql", "mysql" or "sqlite".
 * CLI_GO_ON, or the exit status if this command has none, or cannot load it. */
int cli_driver(const rowlock_driver **out, const char *dialect);

/* ---- runs inside runs (held.c) --------------------------------------------------------------- */

/* A tenure that a `rowlock run` around this one holds. */
typedef struct cli_held {
    uint64_t fence;
    char owner[ROWLOCK_OWNER_MAX + 1];
} cli_held;

/* Finds the innermost one of that name in the environment. 1 or 0. */
int cli_held_find(cli_held *out, const char *name);

/* Makes an owner for a run inside another, for locks that the outer one does not hold. 1 or 0. */
int cli_held_inner(char out[ROWLOCK_OWNER_MAX + 1]);

/* Adds one to the environment, for runs inside. 0 or -1. */
int cli_held_export(const cli_held *held, const char *name);

/* ---- the child (child.c, warden.c) ----------------------------------------------------------- */

typedef struct cli_warden {
    pid_t pid;
    int fd;
} cli_warden;

/* Has the group killed if we die before cli_warden_end(). Called with all signals blocked. If it
 * cannot be had the command runs without. */
void cli_warden_start(cli_warden *warden, pid_t group);
void cli_warden_end(cli_warden *warden);

typedef struct cli_child {
    pid_t pid;
    int started;  /* the command itself runs, or has run */
    int terminal; /* it has the foreground of the terminal on stdin */
    int status;   /* as a shell would say it, after cli_child_end() */
    cli_warden warden;
} cli_child;

/* From now on INT, TERM, HUP and QUIT cancel a wait and go to the child's process group. */
void cli_signals_start(rowlock_cancel *cancel);

/* The first of them that came before there was a child, 0 if none. */
int cli_signals_caught(void);

/* Whether one of them was passed on to the child. */
int cli_signals_passed_on(void);

/* Sleeps for so long, or until fd (-1: none) is readable, or a while. 1 at once if one of them has
 * come, or comes, since there is no child. */
int cli_signals_pause(int fd, int64_t ms);

typedef struct cli_program {
    char **command;
    int (*prepare)(const void *payload); /* in the child, before the command; 0 or -1 */
    const void *payload;
} cli_program;

/* Starts the command in a process group of its own. CLI_GO_ON or an exit status. */
int cli_child_start(cli_child *child, const cli_program *program);

/* Waits at most ms, and while fd (-1: none) is not readable. 1 if the child has ended; 0 if not
 * (also early). */
int cli_child_wait(cli_child *child, int fd, int64_t ms);

/* A signal to the whole group, until cli_child_end(). */
void cli_child_signal(const cli_child *child, int signal_number);

/* After cli_child_wait() said 1: collects the status and takes the terminal back. */
void cli_child_end(cli_child *child);

/* ---- the child and its lease (watch.c) ------------------------------------------------------- */

typedef struct cli_watch {
    rowlock_client *client;
    rowlock_lock *lock; /* which the library renews */
    const char *name, *shown;
    int64_t ttl_ms, max_hold_ms; /* max_hold_ms 0: no bound */
    int64_t kill_after_ms;       /* from TERM to KILL; -1: as the lease allows */
    int started;                 /* the command was */
    int lost;                    /* it was, which has been said */
    atomic_int running;          /* what fails now are renewals */
    atomic_int failing;          /* the last one did; said once */
} cli_watch;

/* The on_event of the client, with the watch as its payload: tells of renewals that fail. */
void cli_watch_event(const rowlock_event *event, void *payload);

/* Runs the command, and ends it before the lease does. Its exit status, CLI_LOST, or that of what
 * kept it from starting. */
int cli_watch_run(cli_watch *watch, const cli_program *program);

#endif
