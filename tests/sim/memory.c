/* SPDX-License-Identifier: MIT
 *
 * The core's allocations: they fail at times, belong to a process, and are looked for at the end.
 * What was freed is overwritten and kept for a while, so that whoever still uses it is noticed;
 * under the address sanitizer that does it. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MAGIC UINT64_C(0x726f776c6f636b21)

enum { KEPT = 512, POISON = 0xdd, MOST_POISON = 2048 };

typedef struct block {
    _Alignas(max_align_t) uint64_t magic;
    size_t size;
    struct block *next, *previous;
    sim_process *process;
    uint64_t number, step; /* which allocation, and in which step it was made */
} block;

typedef struct chunk {
    struct chunk *next;
    max_align_t bytes[];
} chunk;

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *string);
void __wrap_free(void *memory);

static block all = {.next = &all, .previous = &all};
static uint64_t last_number;
static chunk *chunks;

#if !defined(__SANITIZE_ADDRESS__)
static block *kept[KEPT];
static size_t kept_at;
#endif

static size_t poisoned(size_t size)
{
    return size < MOST_POISON ? size : MOST_POISON;
}

/* ---- the simulator's own ---- */

void *sim_alloc(size_t size)
{
    chunk *c = __real_malloc(sizeof *c + size);

    if (c == NULL)
        abort();
    c->next = chunks;
    chunks = c;
    return memset(c->bytes, 0, size);
}

void *sim_grow(void *memory, size_t size)
{
    void *grown = __real_realloc(memory, size);

    if (grown == NULL)
        abort();
    return grown;
}

/* ---- what was freed ---- */

static void really_free(block *b)
{
#if !defined(__SANITIZE_ADDRESS__)
    const unsigned char *byte = (const unsigned char *)(b + 1);

    for (size_t i = 0; i < poisoned(b->size); i++) {
        if (byte[i] != POISON) {
            sim_fail("memory", "allocation %llu of %zu bytes was written to after it was freed",
                     (unsigned long long)b->number, b->size);
            break;
        }
    }
#endif
    __real_free(b);
}

static void bury(block *b)
{
    b->magic = ~MAGIC;
    b->next->previous = b->previous;
    b->previous->next = b->next;
#if defined(__SANITIZE_ADDRESS__)
    really_free(b);
#else
    memset(b + 1, POISON, poisoned(b->size));
    if (kept[kept_at] != NULL)
        really_free(kept[kept_at]);
    kept[kept_at] = b;
    kept_at = (kept_at + 1) % KEPT;
#endif
}

void memory_reset(void)
{
    while (all.next != &all)
        bury(all.next);
#if !defined(__SANITIZE_ADDRESS__)
    for (size_t i = 0; i < KEPT; i++) {
        if (kept[i] != NULL)
            really_free(kept[i]);
        kept[i] = NULL;
    }
#endif
    while (chunks != NULL) {
        chunk *next = chunks->next;

        __real_free(chunks);
        chunks = next;
    }
    last_number = 0;
}

void memory_forget(const sim_process *process)
{
    for (block *b = all.next; b != &all; b = b->next) {
        if (b->process == process)
            b->process = NULL;
    }
}

size_t memory_leaks(char *out, size_t size)
{
    size_t n = 0;

    for (const block *b = all.next; b != &all; b = b->next) {
        if (b->process == NULL)
            continue;
        if (n++ == 0)
            snprintf(out, size, "%zu bytes of process %d, allocation %llu in step %llu", b->size,
                     b->process->pid, (unsigned long long)b->number, (unsigned long long)b->step);
    }
    return n;
}

/* ---- the core's ---- */

static int fails(void)
{
    return sched_self() != NULL && !sched_process()->is_stranger &&
           sim_fault(FAULT_MEMORY, &sim_trouble);
}

void *__wrap_malloc(size_t size)
{
    block *b = fails() ? NULL : __real_malloc(sizeof *b + size);

    if (b == NULL)
        return NULL;
    *b = (block){.magic = MAGIC, .size = size, .next = all.next, .previous = &all};
    b->process = sched_process();
    b->number = ++last_number;
    b->step = sim_steps;
    all.next->previous = b;
    all.next = b;
    memset(b + 1, 0xcd, poisoned(size));
    return b + 1;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *memory = __wrap_malloc(n * size);

    return memory == NULL ? NULL : memset(memory, 0, n * size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    void *grown = __wrap_malloc(size);

    if (grown != NULL && memory != NULL) {
        size_t old = ((block *)memory - 1)->size;

        memcpy(grown, memory, old < size ? old : size);
        __wrap_free(memory);
    }
    return grown;
}

char *__wrap_strdup(const char *string)
{
    char *copy = __wrap_malloc(strlen(string) + 1);

    return copy == NULL ? NULL : strcpy(copy, string);
}

void __wrap_free(void *memory)
{
    block *b;

    if (memory == NULL)
        return;
    b = (block *)memory - 1;
    if (b->magic != MAGIC)
        sim_fail("memory", "a pointer is freed that is none, or was freed before");
    else
        bury(b);
}
