/* SPDX-License-Identifier: MIT
 *
 * What happens, in lines for a person and as one number; and what must not happen. */
#include <string.h>

#include "sim.h"

sim_config sim;
uint64_t sim_counts[FAULTS];
uint64_t sim_grants;
char sim_failed[32], sim_failure[512];
int sim_is_traced;
uint64_t sim_digest;

void digest(uint64_t value)
{
    sim_digest = (sim_digest ^ value) * UINT64_C(0x100000001b3);
    sim_digest ^= sim_digest >> 29;
}

void trace(const char *format, ...)
{
    va_list arguments;

    if (!sim_is_traced)
        return;
    printf("%10.6f ", (double)sim_now / 1e6);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void sim_fail(const char *invariant, const char *format, ...)
{
    va_list arguments;

    if (sim_failed[0] != '\0')
        return;
    snprintf(sim_failed, sizeof sim_failed, "%s", invariant);
    va_start(arguments, format);
    vsnprintf(sim_failure, sizeof sim_failure, format, arguments);
    va_end(arguments);
    trace("*** %s: %s", sim_failed, sim_failure);
}

void sim_note_fault(enum sim_fault fault)
{
    sim_counts[fault]++;
}

int sim_fault(enum sim_fault fault, sim_rng *rng)
{
    if (sim.chance[fault] == 0 || !rng_chance(rng, sim.chance[fault]))
        return 0;
    sim_note_fault(fault);
    return 1;
}
