/* SPDX-License-Identifier: MIT
 *
 * Names by a deadline, with a resolver of the test's own. */
#include <netdb.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "resolve.h"
#include "unit.h"

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);

/* Who asks for "late" waits here. */
static sem_t gate;

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    int rc;

    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0)
        return __real_getaddrinfo(host, service, hints, out);
    if (strcmp(host, "late") == 0) {
        while (sem_wait(&gate) != 0)
            continue;
        return EAI_AGAIN;
    }
    if (strcmp(host, "two") != 0)
        return EAI_NONAME;
    rc = __real_getaddrinfo("::1", service, hints, out);
    return rc != 0 ? rc : __real_getaddrinfo("10.1.2.3", service, hints, &(*out)->ai_next);
}

static int64_t in_ms(int64_t ms)
{
    return rlk_clock_us() + ms * 1000;
}

static void test_addresses_come_in_their_order(void **state)
{
    rlk_addresses found;

    (void)state;
    assert_null(rlk_resolve(&found, "two", in_ms(60000)));
    assert_int_equal(found.count, 2);
    assert_string_equal(found.text[0], "::1");
    assert_string_equal(found.text[1], "10.1.2.3");
}

static void test_unknown_name_is_told(void **state)
{
    char longest[RLK_HOST_MAX + 2];
    rlk_addresses found;

    (void)state;
    assert_string_equal(rlk_resolve(&found, "none", in_ms(60000)), gai_strerror(EAI_NONAME));
    assert_int_equal(found.count, 0);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_string_equal(rlk_resolve(&found, longest, in_ms(60000)), gai_strerror(EAI_NONAME));
}

/* Waits only until the deadline, asks not too often, and asks again when answers have come. */
static void test_late_answers_are_not_waited_for(void **state)
{
    rlk_addresses found;
    const char *why = "";
    int asked = 0;

    (void)state;
    while (asked < 100 && strstr(why, "too many") == NULL) {
        why = rlk_resolve(&found, "late", in_ms(1));
        assert_non_null(why);
        asked++;
    }
    assert_in_range(asked, 2, 99);
    assert_non_null(rlk_resolve(&found, "two", in_ms(60000)));
    for (int i = 1; i < asked; i++)
        sem_post(&gate);
    while (rlk_resolve(&found, "two", in_ms(60000)) != NULL)
        usleep(1000);
    assert_int_equal(found.count, 2);
}

static void test_addresses_are_no_names(void **state)
{
    (void)state;
    assert_true(rlk_is_address("127.0.0.1"));
    assert_true(rlk_is_address("::1"));
    assert_false(rlk_is_address("two"));
    assert_false(rlk_is_address("late"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_in_their_order),
        cmocka_unit_test(test_unknown_name_is_told),
        cmocka_unit_test(test_late_answers_are_not_waited_for),
        cmocka_unit_test(test_addresses_are_no_names),
    };

    sem_init(&gate, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
