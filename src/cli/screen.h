/* SPDX-License-Identifier: MIT
 *
 * A terminal that is drawn upon, and given back as it was. */
#ifndef ROWLOCK_CLI_SCREEN_H
#define ROWLOCK_CLI_SCREEN_H

#include <stddef.h>

/* Takes the terminal over: keys come one by one and are not shown, and another page is in front.
 * 0, or -1 if standard input or output is none. */
int cli_screen_start(void);

/* As it was before. */
void cli_screen_end(void);

/* Its size now. */
void cli_screen_size(size_t *columns, size_t *rows);

/* Shows a text, whose lines are no longer than the screen is wide, in place of what is there. */
void cli_screen_draw(const char *text);

/* A key that was pressed, 0 if none; -1 if there will be none any more. */
int cli_screen_key(void);

#endif
