/* SPDX-License-Identifier: MIT */
#ifndef RLK_SPIN_H
#define RLK_SPIN_H

#include <stdint.h>

/* Looking for an answer without sleeping, as long as that pays. One for each connection; all but
 * most_us zero at first. */
typedef struct rlk_spin {
    uint32_t most_us; /* for so long; 0: never */
    uint8_t passes;   /* so many answers are slept for, */
    uint8_t doubled;  /* and after the next one that is looked for in vain twice as many */
} rlk_spin;

enum { RLK_SPIN_PASSES = 63 }; /* at most */

/* Looks whether the descriptor is readable: who sleeps is woken tens of microseconds later. Whoever
 * else is ready to run goes first, and then it ends, since the processor is wanted. After that, or
 * if the time passes in vain because the database is far or slow, the next ones are passed over. */
void rlk_spin_on(rlk_spin *spin, int fd);

#endif
