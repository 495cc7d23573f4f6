// SPDX-License-Identifier: MIT
//
// consumer FILE: takes and gives back one lock in a SQLite file.
#include <iostream>

#include <rowlock/rowlock.h>
#include <rowlock/sqlite.h>

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = nullptr;
    rowlock_error err;
    int answer = 0;

    if (argc != 2)
        return 2;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(&client, rowlock_sqlite(), argv[1], &options, &err) != ROWLOCK_OK) {
        std::cerr << "open: " << err.message << '\n';
        return 1;
    }
    auto work = [](rowlock_lock *lock, void *) { return rowlock_fence(lock) > 0 ? 7 : 0; };
    if (rowlock_with(&answer, client, "job", nullptr, work, nullptr, &err) != ROWLOCK_OK) {
        std::cerr << "with: " << err.message << '\n';
        return 1;
    }
    rowlock_close(&client);
    std::cout << "locked and released\n";
    return answer == 7 ? 0 : 3;
}
