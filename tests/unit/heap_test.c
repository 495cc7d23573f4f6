/* SPDX-License-Identifier: MIT
 *
 * The heap, against a plain search for the least key. */
#include "heap.h"

#include <stdlib.h>

#include "unit.h"

enum { ELEMENTS = 300, STEPS = 20000 };

typedef struct element {
    int number;
    rlk_heap_node node;
} element;

static element elements[ELEMENTS];
static rlk_heap heap, other;

static int reset(void **state)
{
    (void)state;
    for (int i = 0; i < ELEMENTS; i++)
        elements[i] = (element){.number = i};
    heap = other = (rlk_heap){0};
    return 0;
}

/* Below each node no key is less, and all links go both ways. Returns how many there are. */
static size_t count_below(const rlk_heap *of, const rlk_heap_node *node)
{
    size_t count = 1;

    if (node == NULL)
        return 0;
    assert_ptr_equal(node->heap, of);
    for (int i = 0; i < 2; i++) {
        const rlk_heap_node *child = i == 0 ? node->left : node->right;

        if (child == NULL)
            continue;
        assert_ptr_equal(child->parent, node);
        assert_true(child->key >= node->key);
        count += count_below(of, child);
    }
    return count;
}

static void check(const rlk_heap *of)
{
    int64_t least = INT64_MAX;

    assert_int_equal(count_below(of, of->first), of->count);
    for (int i = 0; i < ELEMENTS; i++) {
        if (elements[i].node.heap == of && elements[i].node.key < least)
            least = elements[i].node.key;
    }
    assert_true(of->first == NULL ? least == INT64_MAX : of->first->key == least);
}

static void test_an_empty_heap_has_no_first(void **state)
{
    (void)state;
    assert_null(heap.first);
    rlk_heap_remove(&elements[0].node);
    rlk_heap_put(&heap, &elements[0].node, 5);
    assert_ptr_equal(RLK_HEAP_ELEMENT(heap.first, element, node), &elements[0]);
    rlk_heap_remove(&elements[0].node);
    assert_null(heap.first);
    assert_int_equal(heap.count, 0);
}

static void test_elements_come_out_in_order(void **state)
{
    int64_t last = INT64_MIN;

    (void)state;
    for (int i = 0; i < ELEMENTS; i++)
        rlk_heap_put(&heap, &elements[i].node, i * 7919 % ELEMENTS - ELEMENTS / 2);
    check(&heap);
    for (int i = 0; i < ELEMENTS; i++) {
        assert_true(heap.first->key >= last);
        last = heap.first->key;
        rlk_heap_remove(heap.first);
    }
    assert_null(heap.first);
}

static void test_any_order_of_steps_keeps_both_heaps(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        rlk_heap_node *node;

        seed = seed * 1103515245 + 12345;
        node = &elements[seed / 65536 % ELEMENTS].node;
        seed = seed * 1103515245 + 12345;
        if (seed / 65536 % 4 == 0)
            rlk_heap_remove(node);
        else
            rlk_heap_put(seed / 65536 % 4 == 1 ? &other : &heap, node, seed / 65536 % 1000);
        check(&heap);
        check(&other);
    }
    assert_true(heap.count > 0 && other.count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_empty_heap_has_no_first, reset),
        cmocka_unit_test_setup(test_elements_come_out_in_order, reset),
        cmocka_unit_test_setup(test_any_order_of_steps_keeps_both_heaps, reset),
    };

    return cmocka_run_group_tests_name("unit/heap", tests, NULL, NULL);
}
