/* SPDX-License-Identifier: MIT */
#include "refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void assert_refused(int expected, const char *address, int policy, const char *prefix,
                    const char *words)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    char list[128];
    int found = words == NULL;

    options.prefix = prefix;
    options.schema_policy = policy;
    options.connect_timeout_ms = 2000;
    assert_status(expected, fault_try_open(&client, address, &options, &err), &err);
    assert_null(client);
    assert_int_equal(expected, err.status);
    assert_int_not_equal(0, err.message[0]);
    assert_null(strchr(err.message, '\n'));
    snprintf(list, sizeof(list), "%s", words != NULL ? words : "");
    for (char *word = strtok(list, "|"); word != NULL; word = strtok(NULL, "|"))
        found |= strcasestr(err.message, word) != NULL;
    if (!found)
        fail_msg("\"%s\" holds none of: %s", err.message, words);
    assert_null(strstr(err.message, WRONG_PASSWORD));
}

void changed_address(char *out, size_t size, const struct fault_address *change)
{
    assert_int_equal(0, fault_address(out, size, fault.backend.address, change));
}

void skip_or_fail(const char *why)
{
    const char *no_skip = getenv("ROWLOCK_TEST_NO_SKIP");

    print_error("NOT TESTED: %s\n", why);
    if (no_skip != NULL && strcmp(no_skip, "1") == 0)
        fail();
    skip();
}
