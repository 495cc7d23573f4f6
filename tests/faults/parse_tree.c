/* SPDX-License-Identifier: MIT
 *
 * The text is made of {NODE :field value ...}, of lists (value ...) and of words. Nodes are told
 * apart by their fields, whose names have changed less than those of the nodes. */
#include "parse_tree.h"

#include <stdlib.h>
#include <string.h>

/* A word, a list or a node. The parts of a node are its fields, each with a key. */
struct item {
    const char *key, *text;
    size_t key_length, length;
    char kind; /* 'w', '(' or '{' */
    struct item *first, *next;
};

enum { IMPLICIT_CAST = 2, EXPLICIT_CAST = 1, BOOL = 16 };
enum { EXPRESSION_LINK = 4, ARRAY_LINK = 6 }; /* of sublinks; before and between: bool */

/* ---- reading */

static void item_free(struct item *item)
{
    while (item != NULL) {
        struct item *next = item->next;

        item_free(item->first);
        free(item);
        item = next;
    }
}

static void skip_spaces(const char **at)
{
    *at += strspn(*at, " \t\n");
}

/* Up to the next space or bracket that is not escaped. */
static size_t word_length(const char *at)
{
    size_t n = 0;

    while (at[n] != '\0' && strchr(" \t\n(){}", at[n]) == NULL)
        n += at[n] == '\\' && at[n + 1] != '\0' ? 2 : 1;
    return n;
}

static struct item *item_read(const char **at);

/* The values of a list or a field, up to `end` or the next key. */
static int read_values(const char **at, const char *ends, struct item **out)
{
    for (skip_spaces(at); **at != '\0' && strchr(ends, **at) == NULL; skip_spaces(at)) {
        *out = item_read(at);
        if (*out == NULL)
            return -1;
        out = &(*out)->next;
    }
    return **at == '\0' ? -1 : 0;
}

/* A field is a list of the values behind the key, of which there mostly is one. */
static int read_fields(const char **at, struct item **out)
{
    *at += word_length(*at); /* the node's name */
    for (skip_spaces(at); **at == ':'; skip_spaces(at)) {
        struct item *field = calloc(1, sizeof *field);

        if (field == NULL)
            return -1;
        *out = field;
        out = &field->next;
        field->kind = '(';
        field->key = *at + 1;
        *at += word_length(*at);
        field->key_length = (size_t)(*at - field->key);
        if (read_values(at, ":}", &field->first) != 0)
            return -1;
    }
    return **at == '}' ? 0 : -1;
}

static struct item *item_read(const char **at)
{
    struct item *item = calloc(1, sizeof *item);
    int failed = 0;

    if (item == NULL)
        return NULL;
    item->kind = **at == '{' || **at == '(' ? **at : 'w';
    item->text = *at;
    if (item->kind == 'w') {
        item->length = word_length(*at);
        *at += item->length;
        failed = item->length == 0;
    } else {
        ++*at;
        failed =
            item->kind == '{' ? read_fields(at, &item->first) : read_values(at, ")", &item->first);
        *at += failed == 0;
    }
    if (failed) {
        item_free(item);
        return NULL;
    }
    return item;
}

/* ---- fields */

/* The first value of a node's field, or NULL. */
static const struct item *field(const struct item *node, const char *key)
{
    if (node == NULL || node->kind != '{')
        return NULL;
    for (const struct item *f = node->first; f != NULL; f = f->next) {
        if (strlen(key) == f->key_length && memcmp(key, f->key, f->key_length) == 0)
            return f->first;
    }
    return NULL;
}

/* 0 if there is none. */
static unsigned number(const struct item *node, const char *key)
{
    const struct item *value = field(node, key);

    return value == NULL || value->kind != 'w' ? 0 : (unsigned)strtoul(value->text, NULL, 10);
}

static const struct item *first_of(const struct item *list)
{
    return list == NULL ? NULL : list->first;
}

/* ---- types */

static unsigned type_of(const struct item *node);

static unsigned link_type(const struct item *link)
{
    const struct item *columns = field(field(link, "subselect"), "targetList");
    unsigned kind = number(link, "subLinkType");

    /* The array of a type is not known here. */
    return kind == EXPRESSION_LINK ? type_of(field(first_of(columns), "expr"))
           : kind == ARRAY_LINK    ? 0
                                   : BOOL;
}

static unsigned type_of(const struct item *node)
{
    static const char *const keys[] = {
        "vartype",      "consttype",  "paramtype", "funcresulttype", "aggtype",
        "opresulttype", "resulttype", "casetype",  "coalescetype",   "minmaxtype",
        "array_typeid", "row_typeid", "wintype",   "type",           "typeId"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (field(node, keys[i]) != NULL)
            return number(node, keys[i]);
    }
    if (field(node, "subLinkType") != NULL)
        return link_type(node);
    if (field(node, "boolop") != NULL || field(node, "useOr") != NULL ||
        field(node, "nulltesttype") != NULL || field(node, "booltesttype") != NULL)
        return BOOL;
    return 0;
}

static unsigned cast_form(const struct item *node)
{
    static const char *const keys[] = {"funcformat", "relabelformat", "coerceformat"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (field(node, keys[i]) != NULL)
            return number(node, keys[i]);
    }
    return 0;
}

/* What an implicit cast was put around. */
static const struct item *uncast(const struct item *node)
{
    while (cast_form(node) == IMPLICIT_CAST) {
        const struct item *inner = field(node, "arg");

        node = inner != NULL ? inner : first_of(field(node, "args"));
    }
    return node;
}

/* ---- uses */

struct reading {
    parse_tree_fn *fn;
    void *payload;
};

static void add_types(struct parse_tree_use *use, const struct item *arguments)
{
    for (const struct item *a = first_of(arguments); a != NULL; a = a->next) {
        const struct item *inner = field(a, "expr"); /* an aggregate's are entries of a list */

        if (field(a, "resno") == NULL)
            inner = a;
        if (use->count < PARSE_TREE_ARGUMENTS)
            use->types[use->count++] = type_of(uncast(inner));
    }
}

static void tell_use(const struct reading *r, const struct item *node, enum parse_tree_kind kind,
                     const char *key)
{
    struct parse_tree_use use = {.kind = kind, .oid = number(node, key), .result = type_of(node)};

    add_types(&use, field(node, "args"));
    r->fn(&use, r->payload);
}

/* (a, b) > (c, d) has an operator for each pair. */
static void tell_row(const struct reading *r, const struct item *node)
{
    const struct item *left = first_of(field(node, "largs"));
    const struct item *right = first_of(field(node, "rargs"));
    const struct item *op = first_of(field(node, "opnos"));

    for (op = op == NULL ? NULL : op->next; op != NULL && left != NULL && right != NULL;
         op = op->next, left = left->next, right = right->next) {
        struct parse_tree_use use = {.kind = PARSE_TREE_OPERATOR,
                                     .oid = (unsigned)strtoul(op->text, NULL, 10),
                                     .result = BOOL,
                                     .count = 2,
                                     .types = {type_of(uncast(left)), type_of(uncast(right))}};

        r->fn(&use, r->payload);
    }
}

static void tell_node(const struct reading *r, const struct item *node)
{
    struct parse_tree_use type = {.kind = PARSE_TREE_TYPE, .oid = type_of(node)};
    unsigned form = cast_form(node);

    if (type.oid != 0)
        r->fn(&type, r->payload);
    if (field(node, "funcid") != NULL && form != IMPLICIT_CAST && form != EXPLICIT_CAST)
        tell_use(r, node, PARSE_TREE_FUNCTION, "funcid");
    if (field(node, "aggfnoid") != NULL)
        tell_use(r, node, PARSE_TREE_AGGREGATE, "aggfnoid");
    if (field(node, "opno") != NULL)
        tell_use(r, node, PARSE_TREE_OPERATOR, "opno");
    if (field(node, "opnos") != NULL)
        tell_row(r, node);
}

static void tell_all(const struct reading *r, const struct item *item)
{
    for (; item != NULL; item = item->next) {
        if (item->kind == '{')
            tell_node(r, item);
        tell_all(r, item->first);
    }
}

int parse_tree_read(const char *text, parse_tree_fn *fn, void *payload)
{
    struct reading r = {fn, payload};
    struct item *tree;

    skip_spaces(&text);
    tree = item_read(&text);
    if (tree == NULL)
        return -1;
    tell_all(&r, tree);
    item_free(tree);
    return 0;
}
