/* SPDX-License-Identifier: MIT */
#include "heap.h"

/* The link that points to place n, counted from 1 level by level, and its node's parent: below the
 * highest bit of n, each bit says which child to go to. */
static rlk_heap_node **place(rlk_heap *heap, size_t n, rlk_heap_node **parent)
{
    rlk_heap_node **link = &heap->first;
    size_t bit = 1;

    *parent = NULL;
    while (bit <= n / 2)
        bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
        *parent = *link;
        link = (n & bit) != 0 ? &(*link)->right : &(*link)->left;
    }
    return link;
}

static rlk_heap_node **link_to(rlk_heap *heap, const rlk_heap_node *node)
{
    if (node->parent == NULL)
        return &heap->first;
    return node->parent->left == node ? &node->parent->left : &node->parent->right;
}

static void set_children(rlk_heap_node *node, rlk_heap_node *left, rlk_heap_node *right)
{
    node->left = left;
    node->right = right;
    if (left != NULL)
        left->parent = node;
    if (right != NULL)
        right->parent = node;
}

/* The node and its parent change places. */
static void swap_up(rlk_heap *heap, rlk_heap_node *node)
{
    rlk_heap_node *parent = node->parent, *left = node->left, *right = node->right;

    *link_to(heap, parent) = node;
    node->parent = parent->parent;
    if (parent->left == node)
        set_children(node, parent, parent->right);
    else
        set_children(node, parent->left, parent);
    set_children(parent, left, right);
}

/* Moves the node to where its key belongs. */
static void settle(rlk_heap *heap, rlk_heap_node *node)
{
    while (node->parent != NULL && node->key < node->parent->key)
        swap_up(heap, node);
    for (;;) {
        rlk_heap_node *child = node->left;

        if (child != NULL && node->right != NULL && node->right->key < child->key)
            child = node->right;
        if (child == NULL || child->key >= node->key)
            return;
        swap_up(heap, child);
    }
}

void rlk_heap_put(rlk_heap *heap, rlk_heap_node *node, int64_t key)
{
    node->key = key;
    if (node->heap != heap) {
        rlk_heap_remove(node);
        node->heap = heap;
        node->left = node->right = NULL;
        *place(heap, ++heap->count, &node->parent) = node;
    }
    settle(heap, node);
}

void rlk_heap_remove(rlk_heap_node *node)
{
    rlk_heap *heap = node->heap;
    rlk_heap_node **link, *last, *parent;

    if (heap == NULL)
        return;
    link = place(heap, heap->count--, &parent);
    last = *link;
    *link = NULL;
    if (last != node) { /* which takes its place */
        last->parent = node->parent;
        *link_to(heap, node) = last;
        set_children(last, node->left, node->right);
        settle(heap, last);
    }
    node->heap = NULL;
}
