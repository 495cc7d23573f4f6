/* SPDX-License-Identifier: MIT
 *
 *   proof_lockset KIND MODE ADDRESS FOLDER SECONDS
 *
 * KIND: postgresql, mysql, sqlite, redis, etcd. MODE: lease, check, fence, guard. Prints one line:
 * KIND MODE pauses N added N lost N refused N unknown N. */
#include "lockset.h"

#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS = 3, MEMBERS = 3, NUMBERS_MAX = 100000 };

/* What the processes of all sets share. */
struct scene {
    int stop;
    int stages[SETS][MEMBERS];
    long next[SETS];                  /* the number to be added next */
    char outcomes[SETS][NUMBERS_MAX]; /* of each number: 0, or 1 + enum lockset_outcome */
    long pauses[SETS];
};

static const struct lockset_kind *const kinds[] = {
#ifdef ROWLOCK_HAVE_POSTGRESQL
    &lockset_postgresql,
#endif
#ifdef ROWLOCK_HAVE_MYSQL
    &lockset_mysql,
#endif
#ifdef ROWLOCK_HAVE_SQLITE
    &lockset_sqlite,
#endif
#ifdef PROOF_HAVE_REDIS
    &lockset_redis,
#endif
#ifdef PROOF_HAVE_ETCD
    &lockset_etcd,
#endif
};

static const char *const modes[LOCKSET_MODES] = {"lease", "check", "fence", "guard"};

static struct scene *scene;
static const struct lockset_kind *kind;

struct member {
    struct lockset set;
    int index;
};

/* ---- what the ways of locking share ---------------------------------------------------------- */

void lockset_stage(struct lockset *set, int held)
{
    process_signal(set->stage, held);
}

void lockset_think(void)
{
    process_sleep_ms(LOCKSET_THINK_MS);
}

void lockset_append(char *text, long number)
{
    size_t length = strlen(text);

    snprintf(text + length, LOCKSET_SET_SIZE - length, "%ld,", number);
}

int lockset_file_read(struct lockset *set, char *out)
{
    int fd = open(set->store, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, LOCKSET_SET_SIZE - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n < 0 ? -1 : 0;
}

static int write_file(const char *path, const char *text)
{
    char next[512];
    ssize_t length = (ssize_t)strlen(text);
    int fd, failed;

    snprintf(next, sizeof(next), "%s.%d", path, (int)getpid());
    fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    failed = write(fd, text, (size_t)length) != length;
    close(fd);
    return failed || rename(next, path) != 0 ? -1 : 0;
}

int lockset_file_create(struct lockset *set)
{
    return write_file(set->store, "");
}

enum lockset_outcome lockset_file_add(struct lockset *set, long number)
{
    static char text[LOCKSET_SET_SIZE];

    if (lockset_file_read(set, text) != 0)
        return LOCKSET_REFUSED;
    lockset_append(text, number);
    lockset_think();
    return write_file(set->store, text) == 0 ? LOCKSET_DONE : LOCKSET_UNKNOWN;
}

/* ---- a member -------------------------------------------------------------------------------- */

static int be_member(void *payload)
{
    struct member *m = payload;
    int number = m->set.number;

    while (kind->open(&m->set) != 0)
        process_sleep_ms(100);
    while (!__atomic_load_n(&scene->stop, __ATOMIC_ACQUIRE)) {
        long next = __atomic_add_fetch(&scene->next[number], 1, __ATOMIC_SEQ_CST);

        if (next >= NUMBERS_MAX)
            break;
        scene->outcomes[number][next] = (char)(1 + kind->add(&m->set, next));
        lockset_stage(&m->set, 0);
    }
    kind->close(&m->set);
    return 0;
}

/* ---- those who stop them --------------------------------------------------------------------- */

struct stopper {
    int number;
    pid_t members[MEMBERS];
    int *stages;
    int victim; /* -1: none */
    int64_t until_ms;
    unsigned seed;
};

/* Finds a holder, and stops it a little later, anywhere up to the end of its work. */
static void step(struct stopper *s)
{
    int64_t now = process_now_ms();
    int chosen = (int)((unsigned)rand_r(&s->seed) % MEMBERS);

    if (s->victim >= 0 && now < s->until_ms)
        return;
    if (s->victim >= 0) {
        kill(s->members[s->victim], SIGCONT);
        s->victim = -1;
        s->until_ms = now + 200; /* the others and it meet */
        return;
    }
    if (now < s->until_ms || !__atomic_load_n(&s->stages[chosen], __ATOMIC_ACQUIRE))
        return;
    usleep((unsigned)rand_r(&s->seed) % (LOCKSET_THINK_MS * 1300));
    if (!__atomic_load_n(&s->stages[chosen], __ATOMIC_ACQUIRE))
        return;
    kill(s->members[chosen], SIGSTOP);
    s->victim = chosen;
    s->until_ms = now + LOCKSET_PAUSE_MS + rand_r(&s->seed) % (LOCKSET_PAUSE_MS / 2);
    scene->pauses[s->number]++;
}

static void run(struct stopper *stoppers, int64_t seconds)
{
    int64_t until = process_now_ms() + seconds * 1000;

    while (process_now_ms() < until) {
        for (int i = 0; i < SETS; i++)
            step(&stoppers[i]);
        process_sleep_ms(2);
    }
    __atomic_store_n(&scene->stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < SETS; i++)
        for (int j = 0; j < MEMBERS; j++)
            kill(stoppers[i].members[j], SIGCONT);
    for (int i = 0; i < SETS; i++)
        for (int j = 0; j < MEMBERS; j++)
            process_wait(stoppers[i].members[j], 30000);
}

/* ---- the count ------------------------------------------------------------------------------- */

struct counts {
    long pauses, added, lost, refused, unknown;
};

static int count(struct counts *counts, struct lockset *set)
{
    static char text[LOCKSET_SET_SIZE];
    static char is_there[NUMBERS_MAX];
    const char *outcomes = scene->outcomes[set->number];

    if (kind->open(set) != 0 || kind->read(set, text) != 0)
        return -1;
    kind->close(set);
    memset(is_there, 0, sizeof(is_there));
    for (const char *at = text; *at >= '0' && *at <= '9'; at += strcspn(at, ",") + 1) {
        long number = atol(at);

        if (number < NUMBERS_MAX)
            is_there[number] = 1;
    }
    for (long i = 1; i < NUMBERS_MAX; i++) {
        counts->added += outcomes[i] == 1 + LOCKSET_DONE;
        counts->lost += outcomes[i] == 1 + LOCKSET_DONE && !is_there[i];
        counts->refused += outcomes[i] == 1 + LOCKSET_REFUSED;
        counts->unknown += outcomes[i] == 1 + LOCKSET_UNKNOWN;
    }
    counts->pauses += scene->pauses[set->number];
    return 0;
}

/* ---- the program ----------------------------------------------------------------------------- */

static int choose(enum lockset_mode *mode, const char *kind_name, const char *mode_name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, kind_name) == 0)
            kind = kinds[i];
    for (int i = 0; i < LOCKSET_MODES; i++)
        if (strcmp(modes[i], mode_name) == 0)
            *mode = (enum lockset_mode)i;
    return kind != NULL && *mode != LOCKSET_MODES && (kind->modes & 1U << *mode) ? 0 : -1;
}

static void start(struct stopper *stopper, const struct lockset *set)
{
    static struct member members[SETS][MEMBERS];

    *stopper = (struct stopper){.number = set->number, .victim = -1};
    stopper->stages = scene->stages[set->number];
    stopper->seed = (unsigned)process_now_ms() + (unsigned)set->number;
    for (int i = 0; i < MEMBERS; i++) {
        struct member *m = &members[set->number][i];

        m->set = *set;
        m->set.stage = &scene->stages[set->number][i];
        m->index = i;
        stopper->members[i] = process_start(be_member, m);
    }
}

int main(int argc, char **argv)
{
    struct stopper stoppers[SETS];
    struct lockset sets[SETS];
    struct counts counts = {0};
    char paths[SETS][512];
    enum lockset_mode mode = LOCKSET_MODES;
    int failed = 0;

    if (argc != 6 || choose(&mode, argv[1], argv[2]) != 0) {
        fprintf(stderr, "usage: proof_lockset KIND MODE ADDRESS FOLDER SECONDS\n");
        return 2;
    }
    scene = process_shared(sizeof(*scene));
    for (int i = 0; i < SETS && !failed; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s-%s-%d", argv[4], argv[1], argv[2], i);
        sets[i] = (struct lockset){argv[3], paths[i], mode, i, &scene->stages[i][0], NULL};
        failed = kind->create(&sets[i]);
    }
    for (int i = 0; i < SETS && !failed; i++)
        start(&stoppers[i], &sets[i]);
    if (!failed)
        run(stoppers, atol(argv[5]));
    for (int i = 0; i < SETS && !failed; i++)
        failed = count(&counts, &sets[i]);
    if (failed) {
        fprintf(stderr, "proof_lockset: %s %s cannot be run\n", argv[1], argv[2]);
        return 1;
    }
    printf("%s %s pauses %ld added %ld lost %ld refused %ld unknown %ld\n", argv[1], argv[2],
           counts.pauses, counts.added, counts.lost, counts.refused, counts.unknown);
    return 0;
}
