/* SPDX-License-Identifier: MIT
 *
 * A binary heap whose links are in the elements: it needs no memory of its own, so that nothing in
 * it can fail, and no step takes longer than the logarithm of its size. */
#ifndef RLK_HEAP_H
#define RLK_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* A member of an element. All zero: in no heap. Only the functions here write to it. */
typedef struct rlk_heap_node {
    struct rlk_heap *heap; /* the one that it is in, or NULL */
    struct rlk_heap_node *parent, *left, *right;
    int64_t key;
} rlk_heap_node;

/* All zero: empty. */
typedef struct rlk_heap {
    rlk_heap_node *first; /* one with the least key, or NULL */
    size_t count;
} rlk_heap;

/* Puts the node into the heap with this key, or moves it there, from another one, too. */
void rlk_heap_put(rlk_heap *heap, rlk_heap_node *node, int64_t key);

/* Takes the node out of the heap that it is in, if any. */
void rlk_heap_remove(rlk_heap_node *node);

/* The element of this type whose member the node is; not for NULL. */
#define RLK_HEAP_ELEMENT(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
