/* SPDX-License-Identifier: MIT */
#ifndef RLK_SPIN_H
#define RLK_SPIN_H

#include <stdint.h>

/* Looks for at most so long whether the descriptor is readable, without sleeping: who sleeps is
 * woken tens of microseconds later. Whoever else is ready to run goes first. */
void rlk_spin(int fd, uint32_t us);

#endif
