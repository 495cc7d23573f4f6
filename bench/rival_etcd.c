/* SPDX-License-Identifier: MIT
 *
 * etcd's lock service, through the JSON gateway of the server, one HTTP connection for each
 * session. A session has a lease of its own; a client in Go would speak gRPC and save the JSON. It
 * cannot try without waiting. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivals.h"

enum { ANSWER_SIZE = 2048 };

typedef struct session {
    CURL *curl;
    struct curl_slist *headers;
    const char *address;
    char lease[40], key[300];
    char answer[ANSWER_SIZE];
    size_t length;
} session;

static size_t receive(char *data, size_t size, size_t n, void *payload)
{
    session *s = payload;
    size_t room = ANSWER_SIZE - 1 - s->length, used = size * n < room ? size * n : room;

    memcpy(s->answer + s->length, data, used);
    s->length += used;
    s->answer[s->length] = '\0';
    return size * n;
}

static int get(session *s, const char *path)
{
    char url[300];
    long status = 0;
    CURLcode rc;

    s->length = 0;
    s->answer[0] = '\0';
    snprintf(url, sizeof url, "%s%s", s->address, path);
    curl_easy_setopt(s->curl, CURLOPT_URL, url);
    rc = curl_easy_perform(s->curl);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (rc != CURLE_OK)
        return bench_fail("etcd: %s", curl_easy_strerror(rc));
    return status == 200 ? BENCH_OK : bench_fail("etcd: %s: %ld %s", path, status, s->answer);
}

static int post(session *s, const char *path, const char *body)
{
    curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, body);
    return get(s, path);
}

/* The text behind "name":" in the answer. */
static int take(const session *s, const char *name, char *out, size_t size)
{
    char key[40];
    const char *at;

    snprintf(key, sizeof key, "\"%s\":\"", name);
    at = strstr(s->answer, key);
    if (at == NULL)
        return bench_fail("etcd: no %s in %s", name, s->answer);
    at += strlen(key);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
    return BENCH_OK;
}

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);

    (void)shared;
    *out = s;
    s->address = bench_address(rival->server);
    s->curl = curl_easy_init();
    s->headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(s->curl, CURLOPT_TIMEOUT_MS, (long)BENCH_WAIT_MS);
    if (post(s, "/v3/lease/grant", "{\"TTL\":300}") != BENCH_OK)
        return BENCH_FAILED;
    return take(s, "ID", s->lease, sizeof s->lease);
}

static void close_session(void *state)
{
    session *s = state;
    char body[100];

    snprintf(body, sizeof body, "{\"ID\":\"%s\"}", s->lease);
    if (s->lease[0] != '\0')
        post(s, "/v3/lease/revoke", body);
    curl_slist_free_all(s->headers);
    curl_easy_cleanup(s->curl);
    free(s);
}

static void base64(char *out, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i += 3) {
        unsigned bits = (unsigned char)text[i] << 16;

        bits |= i + 1 < n ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        bits |= i + 2 < n ? (unsigned char)text[i + 2] : 0;
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

static int acquire(void *state, const char *name, int waits)
{
    session *s = state;
    char encoded[100], body[300];

    (void)waits;
    base64(encoded, name);
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"lease\":\"%s\"}", encoded, s->lease);
    if (post(s, "/v3/lock/lock", body) != BENCH_OK)
        return BENCH_FAILED;
    return take(s, "key", s->key, sizeof s->key);
}

static int release(void *state, const char *name)
{
    session *s = state;
    char body[400];

    (void)name;
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", s->key);
    return post(s, "/v3/lock/unlock", body);
}

static int setup(const bench_rival *rival)
{
    (void)rival;
    return curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? BENCH_OK : bench_fail("no libcurl");
}

static int about(const bench_rival *rival, char *out, size_t size)
{
    session *s = NULL;
    char version[40] = "";
    int rc = open_session((void **)&s, rival, NULL);

    if (rc == BENCH_OK) {
        curl_easy_setopt(s->curl, CURLOPT_HTTPGET, 1L);
        rc = get(s, "/version");
    }
    if (rc == BENCH_OK)
        rc = take(s, "etcdserver", version, sizeof version);
    snprintf(out, size, "etcd %s, one node, JSON gateway", version);
    close_session(s);
    return rc;
}

const bench_rival bench_etcd = {
    .name = "etcd",
    .server = "ETCD",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_HAND) | IN(LOAD_HAND_PROC),
    .setup = setup,
    .open = open_session,
    .close = close_session,
    .acquire = acquire,
    .release = release,
    .about = about,
};
