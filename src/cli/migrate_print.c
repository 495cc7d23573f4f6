/* SPDX-License-Identifier: MIT
 *
 * The tables' SQL in the shapes of the migration tools that people have already. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate.h"

/* A file of a format: its name around the number and the step's name, and what stands before the
 * up and the down text; NULL: that text is not in the file. */
typedef struct file_shape {
    const char *before, *between, *after;
    const char *up, *down;
} file_shape;

typedef struct format {
    const char *name;
    file_shape files[2];
} format;

static const format formats[] = {
    {"golang-migrate",
     {{"", "_rowlock_", ".up.sql", "", NULL}, {"", "_rowlock_", ".down.sql", NULL, ""}}},
    {"flyway", {{"V", "__rowlock_", ".sql", "", NULL}, {"U", "__rowlock_", ".sql", NULL, ""}}},
    {"dbmate", {{"", "_rowlock_", ".sql", "-- migrate:up\n", "\n-- migrate:down\n"}}},
    {"goose", {{"", "_rowlock_", ".sql", "-- +goose Up\n", "\n-- +goose Down\n"}}},
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]), DIGITS_MAX = 18 };

typedef struct printer {
    const migrate *m;
    const rowlock_driver *driver;
    rowlock_options options;
} printer;

static int print_sql(const printer *p, FILE *out, int version, int up)
{
    rowlock_error err;
    char *sql;

    if (rowlock_migration_sql(&sql, p->driver, version, up, &p->options, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    fputs(sql, out);
    rowlock_free(sql);
    return CLI_OK;
}

static int print_file(const printer *p, FILE *out, const file_shape *shape, int version)
{
    int result = CLI_OK;

    if (shape->up) {
        fputs(shape->up, out);
        result = print_sql(p, out, version, 1);
    }
    if (shape->down && result == CLI_OK) {
        fputs(shape->down, out);
        result = print_sql(p, out, version, 0);
    }
    return result;
}

/* Never writes over a file: it may have been applied somewhere. */
static int write_file(const printer *p, const char *name, const file_shape *shape, int version)
{
    char path[PATH_MAX];
    FILE *out;
    int fd, result;

    if (snprintf(path, sizeof(path), "%s/%s", p->m->output, name) >= (int)sizeof(path))
        return cli_usage("--output: the path is too long");
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        cli_message("cannot create %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return CLI_OTHER;
    }
    result = print_file(p, out, shape, version);
    if (fclose(out) != 0) {
        cli_message("cannot write %s: %s", path, strerror(errno));
        result = CLI_OTHER;
    }
    if (result == CLI_OK)
        printf("%s\n", path);
    else
        unlink(path);
    return result;
}

/* "0001", or the user's own number, counted on from step to step, as wide as it was written. */
static void number_of(char out[DIGITS_MAX + 2], const migrate *m, int version)
{
    if (m->as)
        snprintf(out, DIGITS_MAX + 2, "%0*lld", (int)strlen(m->as), atoll(m->as) + version - 1);
    else
        snprintf(out, DIGITS_MAX + 2, "%04d", version);
}

static int print_step(const printer *p, const file_shape *shape, int version)
{
    char number[DIGITS_MAX + 2];
    char name[256];

    number_of(number, p->m, version);
    snprintf(name, sizeof(name), "%s%s%s%s%s", shape->before, number, shape->between,
             rowlock_migration_name(p->driver, version), shape->after);
    if (p->m->output)
        return write_file(p, name, shape, version);
    printf("-- file: %s\n", name);
    return print_file(p, stdout, shape, version);
}

static int print_files(const printer *p, const format *f)
{
    int count = rowlock_migration_count(p->driver);
    int result = CLI_OK;

    for (int version = 1; version <= count && result == CLI_OK; version++)
        for (int i = 0; i < 2 && result == CLI_OK && f->files[i].after; i++)
            result = print_step(p, &f->files[i], version);
    return result;
}

static int print_plain(const printer *p)
{
    int count = rowlock_migration_count(p->driver);
    int result = CLI_OK;

    if (p->m->output || p->m->as)
        return cli_usage("--output and --as need a --format of files; plain goes to stdout");
    for (int version = 1; version <= count && result == CLI_OK; version++)
        result = print_sql(p, stdout, version, 1);
    return result;
}

int cli_migrate_print(migrate *m)
{
    printer p = {.m = m, .options = ROWLOCK_OPTIONS_INIT};
    int result = cli_db_driver(&p.driver, &m->db, m->dialect);

    if (result != CLI_GO_ON)
        return result;
    if (m->as && (strlen(m->as) > DIGITS_MAX || strspn(m->as, "0123456789") != strlen(m->as) ||
                  atoll(m->as) < 1))
        return cli_usage("--as: '%s' is not a number from 1 on", m->as);
    p.options.prefix = m->db.prefix;
    p.options.schema = m->db.schema;
    if (!m->format || strcmp(m->format, "plain") == 0)
        return print_plain(&p);
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, m->format) == 0)
            return print_files(&p, &formats[i]);
    return cli_usage("unknown format '%s'; known are plain, golang-migrate, flyway, dbmate, goose",
                     m->format);
}
