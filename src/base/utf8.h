/* SPDX-License-Identifier: Apache-2.0
 * src/base/utf8.h - checks and repairs UTF-8, which the databases and JSON require. */
#ifndef BERTH_BASE_UTF8_H
#define BERTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

/* Returns the length of the well-formed sequence at p, or 0. Overlong forms and surrogates are not
 * well-formed. Returns 0 at a NUL. */
size_t berth_utf8_step(const char *p);
bool berth_utf8_valid(const char *text);
/* Does the same for bytes that may contain NULs. A NUL must follow the last byte. */
bool berth_utf8_valid_bytes(const char *bytes, size_t len);
/* Returns INVALID, with `what` in the message, when the text is longer than `max` or not UTF-8. */
int berth_utf8_check(const char *text, size_t max, const char *what, struct berth_error *err);
/* Returns the length without an incomplete UTF-8 sequence at the end. */
size_t berth_utf8_whole(const char *bytes, size_t len);
/* Replaces each invalid byte by '?', for foreign text that is stored or shown. */
void berth_utf8_mend(char *text);
#endif
