/* SPDX-License-Identifier: MIT
 *
 * Processes: their clocks, and how they stop and end. */
#include "sim.h"

#define FAR_US INT64_C(1000000000000)

sim_process *sim_processes[MOST_PROCESSES];
size_t sim_process_count;
int64_t process_last_stall_us;

sim_process *process_new(int index)
{
    sim_process *p = sim_alloc(sizeof *p);

    p->index = index;
    p->pid = 100 + (int)sim_process_count;
    p->offset_us = rng_between(&sim_trouble, 0, INT64_C(1000000000));
    p->drift_ppm = index < 0 ? 0 : sim.drift_ppm[index % 8];
    if (sim_process_count < MOST_PROCESSES)
        sim_processes[sim_process_count++] = p;
    return p;
}

int64_t process_clock(const sim_process *p)
{
    return p == NULL ? sim_now : p->offset_us + sim_now + sim_now * p->drift_ppm / 1000000;
}

int64_t process_true_time(const sim_process *p, int64_t local_us)
{
    int64_t since = local_us == RLK_NEVER ? RLK_NEVER : local_us - p->offset_us;

    if (since > FAR_US)
        return RLK_NEVER;
    return since * 1000000 / (1000000 + p->drift_ppm) + 1;
}

int64_t process_stalled(const sim_process *p)
{
    return p->stalled_us - (p->stall_end_us > sim_now ? p->stall_end_us - sim_now : 0);
}

void process_stall(sim_process *p, int64_t us)
{
    p->stalled_us += us;
    if (sim_now + us > p->stall_end_us)
        p->stall_end_us = sim_now + us;
    if (p->stall_end_us > process_last_stall_us)
        process_last_stall_us = p->stall_end_us;
}

void process_pause(sim_process *p, int64_t us)
{
    int64_t until = sim_now + us;

    process_stall(p, us);
    if (until > p->paused_until_us)
        p->paused_until_us = until;
}
