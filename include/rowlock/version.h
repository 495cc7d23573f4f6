/* SPDX-License-Identifier: MIT */
#ifndef ROWLOCK_VERSION_H
#define ROWLOCK_VERSION_H

/* The version of the headers. CMake reads these three lines. */
#define ROWLOCK_VERSION_MAJOR 0
#define ROWLOCK_VERSION_MINOR 1
#define ROWLOCK_VERSION_PATCH 0

#endif
