/* SPDX-License-Identifier: MIT
 *
 * etcd's lock service, through the JSON gateway. A process has one lease, which a thread of it
 * keeps alive. ADDRESS: http://host:port. */
#include "lockset.h"

#include "process.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_SIZE = 4096, TIMEOUT_MS = 20000, KEEP_MS = 500 };

struct link {
    CURL *curl;
    const char *address;
    char answer[ANSWER_SIZE];
    size_t length;
};

struct own {
    struct link link, keeper;
    pthread_t thread;
    int stop;
    pthread_mutex_t mutex;
    char lease[40]; /* under the mutex; empty: none */
    char name[64], key[300];
};

/* ---- HTTP ------------------------------------------------------------------------------------ */

static size_t receive(char *data, size_t size, size_t n, void *payload)
{
    struct link *link = payload;
    size_t room = ANSWER_SIZE - 1 - link->length, used = size * n < room ? size * n : room;

    memcpy(link->answer + link->length, data, used);
    link->length += used;
    link->answer[link->length] = '\0';
    return size * n;
}

static void link_open(struct link *link, const char *address)
{
    link->address = address;
    link->curl = curl_easy_init();
    curl_easy_setopt(link->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(link->curl, CURLOPT_WRITEDATA, link);
    curl_easy_setopt(link->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(link->curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
}

static int post(struct link *link, const char *path, const char *body)
{
    char url[300];
    long status = 0;

    link->length = 0;
    link->answer[0] = '\0';
    snprintf(url, sizeof(url), "%s%s", link->address, path);
    curl_easy_setopt(link->curl, CURLOPT_URL, url);
    curl_easy_setopt(link->curl, CURLOPT_POSTFIELDS, body);
    if (curl_easy_perform(link->curl) != CURLE_OK)
        return -1;
    curl_easy_getinfo(link->curl, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? 0 : -1;
}

/* The text behind "name":" in the answer. */
static int take(char *out, size_t size, const struct link *link, const char *name)
{
    char key[40];
    const char *at;

    snprintf(key, sizeof(key), "\"%s\":\"", name);
    at = strstr(link->answer, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
    return 0;
}

static void base64(char *out, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i += 3) {
        unsigned bits = (unsigned)(unsigned char)text[i] << 16;

        bits |= i + 1 < n ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        bits |= i + 2 < n ? (unsigned)(unsigned char)text[i + 2] : 0;
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

/* ---- the lease ------------------------------------------------------------------------------- */

/* Makes one if there is none, or keeps it alive; one that has ended is given up. */
static void keep(struct own *own)
{
    char lease[40], body[100], left[40] = "";

    pthread_mutex_lock(&own->mutex);
    memcpy(lease, own->lease, sizeof(lease));
    pthread_mutex_unlock(&own->mutex);
    if (lease[0] != '\0') {
        snprintf(body, sizeof(body), "{\"ID\":\"%s\"}", lease);
        if (post(&own->keeper, "/v3/lease/keepalive", body) != 0 ||
            take(left, sizeof(left), &own->keeper, "TTL") != 0)
            lease[0] = '\0';
    }
    if (lease[0] == '\0') {
        snprintf(body, sizeof(body), "{\"TTL\":%d}", LOCKSET_TTL_MS / 1000);
        if (post(&own->keeper, "/v3/lease/grant", body) != 0 ||
            take(lease, sizeof(lease), &own->keeper, "ID") != 0)
            lease[0] = '\0';
    }
    pthread_mutex_lock(&own->mutex);
    memcpy(own->lease, lease, sizeof(lease));
    pthread_mutex_unlock(&own->mutex);
}

static void *keep_on(void *argument)
{
    struct own *own = argument;

    while (!__atomic_load_n(&own->stop, __ATOMIC_ACQUIRE)) {
        keep(own);
        process_sleep_ms(KEEP_MS);
    }
    return NULL;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static int open_etcd(struct lockset *set)
{
    struct own *own = calloc(1, sizeof(*own));
    char name[32];

    if (own == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return -1;
    set->own = own;
    snprintf(name, sizeof(name), "set-%d", set->number);
    base64(own->name, name);
    link_open(&own->link, set->address);
    link_open(&own->keeper, set->address);
    pthread_mutex_init(&own->mutex, NULL);
    keep(own);
    return own->lease[0] != '\0' && pthread_create(&own->thread, NULL, keep_on, own) == 0 ? 0 : -1;
}

static void close_etcd(struct lockset *set)
{
    struct own *own = set->own;

    __atomic_store_n(&own->stop, 1, __ATOMIC_RELEASE);
    pthread_join(own->thread, NULL);
    curl_easy_cleanup(own->link.curl);
    curl_easy_cleanup(own->keeper.curl);
    free(own);
}

static int lock(struct own *own)
{
    char body[300], lease[40];

    pthread_mutex_lock(&own->mutex);
    memcpy(lease, own->lease, sizeof(lease));
    pthread_mutex_unlock(&own->mutex);
    if (lease[0] == '\0') {
        process_sleep_ms(50);
        return -1;
    }
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"lease\":\"%s\"}", own->name, lease);
    if (post(&own->link, "/v3/lock/lock", body) != 0) {
        process_sleep_ms(50);
        return -1;
    }
    return take(own->key, sizeof(own->key), &own->link, "key");
}

static enum lockset_outcome add(struct lockset *set, long number)
{
    struct own *own = set->own;
    enum lockset_outcome outcome;
    char body[400];

    if (lock(own) != 0)
        return LOCKSET_REFUSED;
    lockset_stage(set, 1);
    outcome = lockset_file_add(set, number);
    lockset_stage(set, 0);
    snprintf(body, sizeof(body), "{\"key\":\"%s\"}", own->key);
    post(&own->link, "/v3/lock/unlock", body);
    return outcome;
}

const struct lockset_kind lockset_etcd = {
    "etcd", 1U << LOCKSET_LEASE, lockset_file_create, open_etcd,
    add,    lockset_file_read,   close_etcd};
