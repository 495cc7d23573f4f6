/* SPDX-License-Identifier: MIT
 *
 * rowlock doctor: what is wrong with a database for locks, and what to do about it. */
#include <string.h>

#include "cli.h"
#include "print.h"

#define CALL_TIMEOUT_MS 30000
#define INDENT          22 /* where messages start: behind a grade and a subject */

/* Warnings alone; what is worse has the exit status of what it would stop. */
#define CLI_WARNINGS 1

typedef struct report {
    cli_writer *json; /* NULL: for people */
    size_t width;
    int colours;
    int counts[3]; /* of each grade */
    int status;    /* so far */
} report;

/* ---- showing them ---------------------------------------------------------------------------- */

static const char *grade_name(int grade)
{
    static const char *const names[] = {"ok", "warning", "bad"};

    return names[grade];
}

/* Words in lines of `width` columns (0: in one line), all but the first indented. */
static void print_wrapped(const char *text, size_t width)
{
    size_t column = INDENT;

    while (*text) {
        size_t n = strcspn(text, " ");

        if (column > INDENT && width > INDENT && column + 1 + n > width) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_finding(const report *r, const rowlock_finding *f)
{
    static const enum cli_colour colours[] = {CLI_PLAIN, CLI_YELLOW, CLI_RED};
    const char *grade = grade_name(f->grade);

    cli_put_coloured(stdout, grade, colours[f->grade], r->colours);
    printf("%*s%-12s ", (int)(9 - strlen(grade)), "", f->subject);
    print_wrapped(f->message, r->width);
    if (f->remedy) {
        printf("%*s", INDENT - 3, "");
        fputs("-> ", stdout);
        print_wrapped(f->remedy, r->width);
    }
}

static void put_finding(cli_writer *w, const rowlock_finding *f)
{
    cli_record_start(w);
    cli_put_text(w, "grade", grade_name(f->grade));
    cli_put_text(w, "subject", f->subject);
    cli_put_text(w, "message", f->message);
    cli_put_text(w, "remedy", f->remedy);
    cli_record_end(w);
}

/* That the tables are missing counts more than what is found besides. */
static int worse(int status, const rowlock_finding *f)
{
    if (f->grade == ROWLOCK_GRADE_GOOD || status == CLI_SCHEMA)
        return status;
    if (f->grade == ROWLOCK_GRADE_WARNING)
        return status == CLI_OK ? CLI_WARNINGS : status;
    return strcmp(f->subject, "tables") == 0 ? CLI_SCHEMA : CLI_OTHER;
}

static int show(const rowlock_finding *f, void *payload)
{
    report *r = payload;

    r->counts[f->grade]++;
    r->status = worse(r->status, f);
    if (r->json)
        put_finding(r->json, f);
    else
        print_finding(r, f);
    return 0;
}

/* ---- a database that cannot be used ---------------------------------------------------------- */

typedef struct refusal {
    const char *sqlstate; /* how it is known: by one of these; NULL, 0: not by this */
    int code;
    const char *words;
    const char *remedy;
} refusal;

/* The first one counts. */
static const refusal refusals[] = {
    {"28P01", 1045, NULL,
     "check user and password, and which accounts the server lets in from here"},
    {"28000", 1698, NULL, "check the user, and which accounts the server lets in from this host"},
    {"3D000", 1049, NULL, "create the database, or correct its name in the address"},
    {"42501", 1044, NULL, "grant this user the rights on the database"},
    {"53300", 1040, NULL, "raise max_connections, or have fewer clients"},
    {"57P03", 1053, NULL, "the server starts or stops: try again in a while"},
    {"25006", 0, "read-only", "connect to what can be written: the primary, a file of this user's"},
    {NULL, 2026, "certificate", "see sslmode and sslrootcert (ssl-mode, ssl-ca) in the address"},
    {NULL, 0, "SSL", "see sslmode and sslrootcert (ssl-mode, ssl-ca) in the address"},
    {NULL, 0, "TLS", "see sslmode and sslrootcert (ssl-mode, ssl-ca) in the address"},
    {NULL, 0, "is needed", "upgrade the server"},
    {NULL, 2005, "host name", "check the host's name in the address"},
    {NULL, 0, "network file", "use a local disk; for several hosts a database server"},
};

static int is_refusal(const refusal *known, const rowlock_error *err)
{
    return (known->sqlstate && strcmp(known->sqlstate, err->sqlstate) == 0) ||
           (known->code && known->code == err->native_code) ||
           (known->words && strstr(err->message, known->words));
}

static const char *remedy_of(const rowlock_error *err, int is_file)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (is_refusal(&refusals[i], err))
            return refusals[i].remedy;
    return is_file
               ? "check the path, and that this user may read and write the file and its folder"
               : "see that the server runs, host and port are right, and no firewall is between";
}

/* It is a finding, too, and the last one. */
static void show_failure(report *r, const rowlock_error *err, int is_file)
{
    int is_missing = err->status == ROWLOCK_ESCHEMA;
    rowlock_finding finding = {
        .size = sizeof(finding),
        .grade = ROWLOCK_GRADE_BAD,
        .subject = is_missing ? "tables" : "server",
        .message = err->message,
        .remedy = is_missing ? "check the address, or create them by 'rowlock migrate up'"
                             : remedy_of(err, is_file),
    };

    show(&finding, r);
    if (err->status == ROWLOCK_ECONNECT || err->status == ROWLOCK_EUNKNOWN)
        r->status = CLI_NO_DB;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

/* What else there is to say goes to stderr, so that stdout has the findings alone. */
static void sum_up(const report *r)
{
    int bad = r->counts[ROWLOCK_GRADE_BAD], warnings = r->counts[ROWLOCK_GRADE_WARNING];

    if (bad + warnings > 0)
        cli_message("not all is well: %d bad, %d %s, %d ok", bad, warnings,
                    warnings == 1 ? "warning" : "warnings", r->counts[ROWLOCK_GRADE_GOOD]);
}

/* First of all which database it is: a sound one that nobody else uses excludes nobody. */
static void show_database(report *r, const cli_db *db)
{
    rowlock_finding finding = {.size = sizeof(finding),
                               .grade = ROWLOCK_GRADE_GOOD,
                               .subject = "database",
                               .message = db->name};
    char local[CLI_DB_NAME_SIZE + 80];

    if (cli_db_is_local(db)) {
        snprintf(local, sizeof(local), "%s, for this user on this host alone", db->name);
        finding.message = local;
    }
    show(&finding, r);
}

static int examine(cli_db *db, int json)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err = {0};
    cli_writer writer = {.out = stdout};
    report r = {.json = json ? &writer : NULL, .width = cli_width(), .colours = cli_colours()};
    const char *dialect = NULL;
    int result;

    options.call_timeout_ms = CALL_TIMEOUT_MS;
    result = cli_db_look(&client, db, &options, &err);
    if (result == CLI_GO_ON)
        result = cli_db_dialect(&dialect, db, NULL);
    if (result != CLI_GO_ON)
        return result;
    show_database(&r, db);
    if (!client || rowlock_diagnose(client, show, &r, &err) != ROWLOCK_OK)
        show_failure(&r, &err, strcmp(dialect, "sqlite") == 0);
    rowlock_close(&client);
    if (json)
        cli_writer_end(&writer);
    fflush(stdout);
    sum_up(&r);
    return r.status;
}

static int cmd_doctor(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    int json = 0;
    const cli_option options[] = {CLI_DB_OPTIONS(db), {0, "json", CLI_FLAG, &json}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock doctor' takes options only; see 'rowlock doctor --help'");
    return result == CLI_GO_ON ? examine(&db, json) : result;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .summary = "check a database for what locks depend on, and say how to mend it",
    .help = "usage: rowlock doctor [OPTION...]\n"
            "\n"
            "Looks at what locks depend on: whether the database can be reached and written\n"
            "to, its version, the tables and their kind, this user's rights, durability,\n"
            "poolers, clusters and replicas, the clock, and whether those who wait are woken\n"
            "or ask again and again. If nothing is bad, two sessions ask for the same locks,\n"
            "and the second one must not get them. Prints each with 'ok', 'warning' or 'bad',\n"
            "and behind -> what to do. Two free rows of random names stay for the reaper;\n"
            "nothing else is changed.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --json           an array of objects: grade, subject, message, remedy\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "\n"
            "Exit status: 0 all is well; 1 warnings: it works, but less safely or less well\n"
            "than it could; 69 the database cannot be used; 78 the tables are missing or of\n"
            "another version; 70 other things are bad: locks do not work, or are not safe.\n"
            "Run it as the user and on the host that will take the locks.\n",
    .run = cmd_doctor,
};
