/* SPDX-License-Identifier: MIT */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l" /* the other page; no cursor; lines do not wrap */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios before;

/* A new size ends the pause, which is all it is for. */
static void on_resize(int number)
{
    (void)number;
}

int cli_screen_start(void)
{
    struct sigaction resize = {.sa_handler = on_resize};
    struct termios keys;

    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return -1;
    keys = before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    keys.c_cc[VSUSP] = _POSIX_VDISABLE; /* else Ctrl-Z would leave the page as it is */
    sigemptyset(&resize.sa_mask);
    sigaction(SIGWINCH, &resize, NULL);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    fputs(ENTER, stdout);
    fflush(stdout);
    return 0;
}

void cli_screen_end(void)
{
    fputs(LEAVE, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

void cli_screen_size(size_t *columns, size_t *rows)
{
    struct winsize size;
    int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;

    *columns = known ? size.ws_col : 80;
    *rows = known ? size.ws_row : 24;
}

/* Each line clears what it leaves of the old one, so that nothing flickers. */
void cli_screen_draw(const char *text)
{
    fputs("\033[H", stdout);
    while (*text) {
        size_t n = strcspn(text, "\n");

        fwrite(text, 1, n, stdout);
        fputs("\033[K", stdout);
        text += n;
        if (*text == '\n' && text[1])
            fputs("\r\n", stdout);
        text += *text == '\n';
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

int cli_screen_key(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;

    if (poll(&input, 1, 0) <= 0)
        return 0;
    return read(STDIN_FILENO, &key, 1) == 1 ? (unsigned char)key : -1;
}
