/* SPDX-License-Identifier: Apache-2.0
 * src/base/json_long.h - documents with very long texts in them, read ten times as fast: the
 * library looks at each character by itself. Only for json.c. */
#ifndef BERTH_BASE_JSON_LONG_H
#define BERTH_BASE_JSON_LONG_H

#include <jansson.h>
#include <stddef.h>

/* As json_loadb, which reads all but the long texts. A NUL follows the document. */
json_t *berth_json_load_long(const char *text, size_t len, size_t flags, json_error_t *at);
#endif
