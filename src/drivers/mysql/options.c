/* SPDX-License-Identifier: MIT
 *
 * What a handle is told before it connects: first what the option files say, then what the address
 * says, then what must not be otherwise. The last word wins. */
#include <stdio.h>
#include <string.h>

#include "my.h"

/* Both libraries read the option files in the middle of connecting, over whatever was set before.
 * So they are made to connect once where nothing can answer: the kernel refuses TCP to the
 * broadcast address without sending anything, and no name is looked up. */
static void read_option_files(MYSQL *mysql)
{
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "client");
    mysql_real_connect(mysql, "255.255.255.255", "", "", NULL, 1, NULL, CLIENT_REMEMBER_OPTIONS);
}

/* Without a port "localhost" means the Unix socket to these libraries, which nobody can listen to;
 * and without a host it is what option files say. */
static int is_tcp(const my_address *address)
{
    return address->socket == NULL &&
           (address->port != 0 ||
            (address->host != NULL && strcmp(address->host, "localhost") != 0));
}

/* Options that bring TLS along. */
static const enum mysql_option tls_texts[] = {
    MYSQL_OPT_SSL_CA,  MYSQL_OPT_SSL_CAPATH,  MYSQL_OPT_SSL_CERT,  MYSQL_OPT_SSL_KEY,
    MYSQL_OPT_SSL_CRL, MYSQL_OPT_SSL_CRLPATH, MYSQL_OPT_SSL_CIPHER};

/* Does a file, or the address, name certificates? Then TLS is asked for. */
static int has_certificates(MYSQL *mysql)
{
    const char *value = NULL;

    for (size_t i = 0; i < sizeof tls_texts / sizeof *tls_texts; i++) {
        if (mysql_get_option(mysql, tls_texts[i], &value) == 0 && value != NULL)
            return 1;
    }
    return 0;
}

#ifdef LIBMARIADB

/* Of the plugins for authentication, those that send no password as it is. */
#define WITHOUT_CLEAR_TEXT                                               \
    "mysql_native_password,client_ed25519,parsec,caching_sha2_password," \
    "sha256_password,auth_gssapi_client"

static void set_flag(MYSQL *mysql, enum mysql_option option, int value)
{
    my_bool flag = value != 0;

    mysql_options(mysql, option, &flag);
}

/* With "ssl-enforce" this library takes a server without TLS for good enough, unless there is a
 * fingerprint to compare: an empty one is compared to nothing, but has it refuse such a server
 * before it sends anything. */
static void forbid_plain_text(MYSQL *mysql)
{
    const char *fingerprint = NULL;

    mysql_get_option(mysql, MARIADB_OPT_TLS_PEER_FP, &fingerprint);
    if (fingerprint == NULL)
        mysql_options(mysql, MARIADB_OPT_TLS_PEER_FP, "");
}

static void forget_certificates(MYSQL *mysql)
{
    for (size_t i = 0; i < sizeof tls_texts / sizeof *tls_texts; i++)
        mysql_options(mysql, tls_texts[i], NULL);
}

/* It knows no check of the authority alone: the stricter one stands for both. And it checks by an
 * authority that it was given, asked or not: one of a file's is for those who ask. */
static void set_tls(MYSQL *mysql, const my_address *address)
{
    if (address->ssl_mode < MY_SSL_VERIFY_CA) {
        mysql_options(mysql, MYSQL_OPT_SSL_CA, address->ssl_ca);
        mysql_options(mysql, MYSQL_OPT_SSL_CAPATH, NULL);
    }
    mysql_options(mysql, MARIADB_OPT_TLS_PEER_FP, NULL);
    mysql_options(mysql, MARIADB_OPT_TLS_PEER_FP_LIST, NULL);
    if (address->ssl_mode == MY_SSL_DISABLED)
        forget_certificates(mysql);
    if (address->ssl_mode == MY_SSL_REQUIRED)
        forbid_plain_text(mysql);
    set_flag(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, address->ssl_mode >= MY_SSL_VERIFY_CA);
    set_flag(mysql, MYSQL_OPT_SSL_ENFORCE, address->ssl_mode != MY_SSL_DISABLED); /* the last */
}

static int is_asked_for(MYSQL *mysql)
{
    my_bool asked = 0;

    mysql_get_option(mysql, MYSQL_OPT_SSL_ENFORCE, &asked);
    return asked || has_certificates(mysql);
}

static void set_own_options(MYSQL *mysql, const my_address *address)
{
    size_t stack = (size_t)256 * 1024; /* a TLS handshake runs on it */
    int certain = address->ssl_mode >= MY_SSL_REQUIRED;

    mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack);
    set_flag(mysql, MYSQL_OPT_RECONNECT, 0);
    if (address->ssl_mode != MY_SSL_DEFAULT) {
        set_tls(mysql, address);
    } else if (is_tcp(address) && is_asked_for(mysql)) {
        forbid_plain_text(mysql);
        certain = 1;
    }
#if MARIADB_PACKAGE_VERSION_ID >= 30300
    if (!certain && address->socket == NULL)
        mysql_options(mysql, MARIADB_OPT_RESTRICTED_AUTH, WITHOUT_CLEAR_TEXT);
#endif
}

#else /* Oracle's */

static void set_own_options(MYSQL *mysql, const my_address *address)
{
    static const unsigned modes[] = {[MY_SSL_DISABLED] = SSL_MODE_DISABLED,
                                     [MY_SSL_PREFERRED] = SSL_MODE_PREFERRED,
                                     [MY_SSL_REQUIRED] = SSL_MODE_REQUIRED,
                                     [MY_SSL_VERIFY_CA] = SSL_MODE_VERIFY_CA,
                                     [MY_SSL_VERIFY_IDENTITY] = SSL_MODE_VERIFY_IDENTITY};
    unsigned mode = SSL_MODE_PREFERRED;
    bool no = false;

    if (address->ssl_mode != MY_SSL_DEFAULT)
        mysql_options(mysql, MYSQL_OPT_SSL_MODE, &modes[address->ssl_mode]);
    mysql_get_option(mysql, MYSQL_OPT_SSL_MODE, &mode);
    if (address->ssl_mode == MY_SSL_DEFAULT && mode == SSL_MODE_PREFERRED && is_tcp(address) &&
        has_certificates(mysql)) {
        mode = SSL_MODE_REQUIRED;
        mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
    }
    if (mode < SSL_MODE_REQUIRED && address->socket == NULL)
        mysql_options(mysql, MYSQL_ENABLE_CLEARTEXT_PLUGIN, &no);
}

#endif

static void set_address(MYSQL *mysql, const my_address *address)
{
    unsigned protocol = MYSQL_PROTOCOL_DEFAULT;

    if (address->ssl_ca != NULL) {
        mysql_options(mysql, MYSQL_OPT_SSL_CA, address->ssl_ca);
        mysql_options(mysql, MYSQL_OPT_SSL_CAPATH, NULL);
    }
    if (address->ssl_cert != NULL)
        mysql_options(mysql, MYSQL_OPT_SSL_CERT, address->ssl_cert);
    if (address->ssl_key != NULL)
        mysql_options(mysql, MYSQL_OPT_SSL_KEY, address->ssl_key);
    if (address->socket != NULL)
        protocol = MYSQL_PROTOCOL_SOCKET;
    else if (is_tcp(address))
        protocol = MYSQL_PROTOCOL_TCP;
    if (protocol != MYSQL_PROTOCOL_DEFAULT)
        mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
}

/* LOAD DATA LOCAL: a server may ask for a file of its choice, whatever the statement was. Nobody
 * here reads files for it: neither the library, nor these. */
static int refuse_file(void **handle, const char *name, void *unused)
{
    (void)name;
    (void)unused;
    *handle = NULL;
    return 1;
}

static int read_no_file(void *handle, char *buffer, unsigned size)
{
    (void)handle;
    (void)buffer;
    (void)size;
    return -1;
}

static void close_no_file(void *handle)
{
    (void)handle;
}

static int say_why(void *handle, char *message, unsigned size)
{
    enum { CLIENT_UNKNOWN_ERROR = 2000 };

    (void)handle;
    snprintf(message, size, "the server asked for a file of the client's");
    return CLIENT_UNKNOWN_ERROR;
}

static void forbid_files(MYSQL *mysql)
{
    unsigned no = 0;

    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no);
    mysql_set_local_infile_handler(mysql, refuse_file, read_no_file, close_no_file, say_why, NULL);
}

/* What answers depend on. There is no other way to take back what a file says of found rows, which
 * would be counted in place of changed ones. */
static void set_answers(MYSQL *mysql)
{
    unsigned long largest = 1024UL * 1024 * 1024;

    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &largest);
    mysql->options.client_flag &= ~(unsigned long)CLIENT_FOUND_ROWS;
}

MYSQL *my_client_new(const my_address *address)
{
    MYSQL *mysql = mysql_init(NULL);

    if (mysql == NULL)
        return NULL;
    read_option_files(mysql);
    set_answers(mysql);
    set_address(mysql, address);
    set_own_options(mysql, address);
    forbid_files(mysql);
    return mysql;
}
