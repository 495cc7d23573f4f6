/* SPDX-License-Identifier: MIT */
#include "address.h"
#include "my.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int is_secret;
    char *text = fuzz_address(data, size, "mysql://", &is_secret);
    rowlock_error err = {0};
    my_address address;

    if (my_address_parse(&address, text, &err) == ROWLOCK_OK) {
        MUST(address.database != NULL && address.database[0] != '\0');
        MUST(!is_secret || address.host == NULL || strstr(address.host, SECRET) == NULL);
        MUST(!is_secret || strstr(address.database, SECRET) == NULL);
    } else {
        fuzz_check_refusal(err.message, is_secret);
    }
    my_address_free(&address);
    free(text);
    return 0;
}
