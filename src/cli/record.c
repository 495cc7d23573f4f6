/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "print.h"

/* A JSON string. Bytes that are no UTF-8 become U+FFFD; returns how many there were. */
static size_t json_string(FILE *out, const char *s, size_t n)
{
    size_t bad = 0;

    fputc('"', out);
    for (size_t i = 0; i < n;) {
        size_t length = cli_utf8(s + i, n - i);

        if (length == 0)
            fputs("\\ufffd", out);
        else if (length == 1 && (s[i] == '"' || s[i] == '\\'))
            fprintf(out, "\\%c", s[i]);
        else if (length == 1 && ((unsigned char)s[i] < ' ' || s[i] == 0x7f))
            fprintf(out, "\\u%04x", (unsigned)s[i]);
        else
            fwrite(s + i, 1, length, out);
        bad += length == 0;
        i += length ? length : 1;
    }
    fputc('"', out);
    return bad;
}

/* A field of CSV, as RFC 4180 has it. */
static void csv_string(FILE *out, const char *s)
{
    if (!strpbrk(s, "\",\r\n")) {
        fputs(s, out);
        return;
    }
    fputc('"', out);
    for (; *s; s++)
        fprintf(out, "%s%c", *s == '"' ? "\"" : "", *s);
    fputc('"', out);
}

void cli_record_start(cli_writer *w)
{
    w->fields = 0;
    if (!w->csv)
        fputs(w->records ? ",\n {" : "[\n {", w->out);
    w->records++;
}

void cli_record_end(cli_writer *w)
{
    fputs(w->csv ? "\n" : "}", w->out);
}

void cli_writer_end(cli_writer *w)
{
    if (!w->csv)
        fputs(w->records ? "\n]\n" : "[]\n", w->out);
}

void cli_put_key(cli_writer *w, const char *key)
{
    if (w->fields++)
        fputs(w->csv ? "," : ", ", w->out);
    if (!w->csv)
        fprintf(w->out, "\"%s\": ", key);
}

void cli_put_name(cli_writer *w, const char *key, const char *name, size_t n)
{
    char shown[4 * ROWLOCK_NAME_MAX + 1];

    cli_put_key(w, key);
    if (w->csv) {
        cli_printable(shown, name, n);
        csv_string(w->out, shown);
        return;
    }
    if (json_string(w->out, name, n) == 0)
        return;
    fprintf(w->out, ", \"%s_hex\": \"", key);
    for (size_t i = 0; i < n; i++)
        fprintf(w->out, "%02x", (unsigned char)name[i]);
    fputc('"', w->out);
}

void cli_put_text(cli_writer *w, const char *key, const char *text)
{
    cli_put_key(w, key);
    if (w->csv)
        csv_string(w->out, text ? text : "");
    else if (!text)
        fputs("null", w->out);
    else
        json_string(w->out, text, strlen(text));
}

void cli_put_number(cli_writer *w, const char *key, int64_t number)
{
    cli_put_key(w, key);
    fprintf(w->out, "%" PRId64, number);
}

void cli_put_flag(cli_writer *w, const char *key, int flag)
{
    cli_put_key(w, key);
    fputs(flag ? "true" : "false", w->out);
}
