/* SPDX-License-Identifier: MIT
 *
 * JSON and CSV of the command: what a strict reader reads is what was written. */
#include "cli.h"
#include "fuzz.h"
#include "print.h"

/* ---- strict readers: of what the writer writes, not of all that there is ---- */

typedef struct reader {
    const char *at, *end;
} reader;

static void expect(reader *r, const char *text)
{
    size_t n = strlen(text);

    MUST((size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0);
    r->at += n;
}

static unsigned hex(reader *r, int digits)
{
    unsigned value = 0;

    for (int i = 0; i < digits; i++, r->at++) {
        const char *all = "0123456789abcdef", *digit;

        MUST(r->at < r->end && *r->at != '\0' && (digit = strchr(all, *r->at)) != NULL);
        value = value * 16 + (unsigned)(digit - all);
    }
    return value;
}

/* Bytes of a JSON string; U+FFFD by escape is -1 in *bad. */
static size_t json_string(reader *r, char *out, size_t *bad)
{
    size_t n = 0;

    expect(r, "\"");
    for (*bad = 0; r->at < r->end && *r->at != '"';) {
        MUST((unsigned char)*r->at >= ' ');
        if (*r->at != '\\') {
            out[n++] = *r->at++;
        } else if (r->at[1] == 'u') {
            unsigned code;

            r->at += 2;
            code = hex(r, 4);
            MUST(code < 128 || code == 0xfffd);
            *bad += code == 0xfffd;
            out[n++] = (char)code;
        } else {
            MUST(r->at[1] == '"' || r->at[1] == '\\');
            out[n++] = r->at[1];
            r->at += 2;
        }
    }
    expect(r, "\"");
    return n;
}

static size_t csv_field(reader *r, char *out)
{
    size_t n = 0;

    if (r->at < r->end && *r->at == '"') {
        for (r->at++; r->at < r->end; out[n++] = *r->at++) {
            if (*r->at == '"' && !(r->at + 1 < r->end && r->at[1] == '"'))
                break;
            r->at += *r->at == '"';
        }
        expect(r, "\"");
        return n;
    }
    while (r->at < r->end && strchr(",\n", *r->at) == NULL) {
        MUST(*r->at != '"' && *r->at != '\r');
        out[n++] = *r->at++;
    }
    return n;
}

/* ---- one record of a name and a text ---- */

static char *write_record(size_t *size, int csv, const char *name, size_t n, const char *text)
{
    char *out = NULL;
    cli_writer w = {.out = open_memstream(&out, size), .csv = csv};

    MUST(w.out != NULL);
    cli_record_start(&w);
    cli_put_name(&w, "name", name, n);
    cli_put_text(&w, "text", text);
    cli_record_end(&w);
    cli_writer_end(&w);
    fclose(w.out);
    return out;
}

static void check_json(const char *name, size_t n, const char *text)
{
    size_t size, bad, length;
    char *out = write_record(&size, 0, name, n, text), *read = malloc(size + 1);
    reader r = {out, out + size};

    expect(&r, "[\n {\"name\": ");
    length = json_string(&r, read, &bad);
    if (bad == 0) {
        MUST(length == n && memcmp(read, name, n) == 0);
    } else {
        expect(&r, ", \"name_hex\": \"");
        for (size_t i = 0; i < n; i++)
            MUST(hex(&r, 2) == (unsigned char)name[i]);
        expect(&r, "\"");
    }
    expect(&r, ", \"text\": ");
    length = json_string(&r, read, &bad);
    MUST(bad > 0 || (length == strlen(text) && memcmp(read, text, length) == 0));
    expect(&r, "}\n]\n");
    MUST(r.at == r.end);
    free(read);
    free(out);
}

static void check_csv(const char *name, size_t n, const char *text)
{
    char shown[4 * ROWLOCK_NAME_MAX + 1];
    size_t size, length;
    char *out = write_record(&size, 1, name, n, text), *read = malloc(size + 1);
    reader r = {out, out + size};

    cli_printable(shown, name, n);
    length = csv_field(&r, read);
    MUST(length == strlen(shown) && memcmp(read, shown, length) == 0);
    expect(&r, ",");
    length = csv_field(&r, read);
    MUST(length == strlen(text) && memcmp(read, text, length) == 0);
    expect(&r, "\n");
    MUST(r.at == r.end);
    free(read);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size == 0 ? 0 : data[0] % ROWLOCK_NAME_MAX + 1;
    char *text;

    if (n == 0 || size < 1 + n)
        return 0;
    text = fuzz_string(data + 1 + n, size - 1 - n);
    check_json((const char *)data + 1, n, text);
    check_csv((const char *)data + 1, n, text);
    free(text);
    return 0;
}
