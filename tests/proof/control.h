/* SPDX-License-Identifier: MIT
 *
 * What the program that runs it all and the workers share: a file in the run's folder, mapped by
 * all of them; and the names of locks. */
#ifndef PROOF_CONTROL_H
#define PROOF_CONTROL_H

#include <stdint.h>

#define PROOF_PREFIX "proof_"

enum {
    PROOF_WORKERS = 16,       /* at most so many processes at a time */
    PROOF_HOT = 4,            /* names that everybody wants: 0 .. HOT - 1 */
    PROOF_WRITTEN = 64,       /* names with counters: 0 .. WRITTEN - 1 */
    PROOF_NAMES = 4000,       /* all names; most are cold */
    PROOF_NAME_SIZE = 32,     /* room for a name */
    PROOF_ROOM = 40 * 1000000 /* records of one process */
};

struct control {
    int stop;                          /* nonzero: workers end in order */
    uint64_t grants;                   /* of all workers */
    uint64_t grants_of[PROOF_WORKERS]; /* by the worker's slot */
};

/* Maps FOLDER/control, which is made if `make`; NULL if that fails. */
struct control *control_map(const char *folder, int make);

void proof_name(char out[PROOF_NAME_SIZE], uint32_t number);

#endif
