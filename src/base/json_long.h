/* SPDX-License-Identifier: Apache-2.0
 * src/base/json_long.h - parses documents with very long strings about ten times as fast as the
 * library, which reads one character at a time. Only json.c uses it. */
#ifndef BERTH_BASE_JSON_LONG_H
#define BERTH_BASE_JSON_LONG_H

#include <jansson.h>
#include <stddef.h>

/* Does what json_loadb does; the library parses all but the long strings. A NUL must follow the
 * document. */
json_t *berth_json_load_long(const char *text, size_t len, size_t flags, json_error_t *at);
/* Returns the code unit of the escape \uXXXX at `p`, or -1. */
int berth_json_unit(const char *p, const char *end);
#endif
