/* SPDX-License-Identifier: MIT
 *
 * The functions, operators and types of a statement, read out of the server's own parse tree: the
 * text that debug_print_parse makes. */
#ifndef TEST_PARSE_TREE_H
#define TEST_PARSE_TREE_H

enum { PARSE_TREE_ARGUMENTS = 8 };

enum parse_tree_kind {
    PARSE_TREE_FUNCTION = 'f',
    PARSE_TREE_AGGREGATE = 'a',
    PARSE_TREE_OPERATOR = 'o',
    PARSE_TREE_TYPE = 't' /* of an expression; no arguments */
};

/* Numbers are those of the system catalogs. */
struct parse_tree_use {
    enum parse_tree_kind kind;
    unsigned oid;
    unsigned result;                      /* the type of what it returns */
    int count;                            /* of arguments */
    unsigned types[PARSE_TREE_ARGUMENTS]; /* as they were before implicit casts; 0: not known. The
                                           * second of "= ANY (array)" is the array. */
};

typedef void parse_tree_fn(const struct parse_tree_use *use, void *payload);

/* Casts are left out: they are not found by a name. 0; -1: the text is not understood. */
int parse_tree_read(const char *text, parse_tree_fn *fn, void *payload);

#endif
