/* SPDX-License-Identifier: Apache-2.0
 * src/base/utf8.h - is it UTF-8? Databases and JSON both insist. */
#ifndef BERTH_BASE_UTF8_H
#define BERTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

/* Bytes of the well-formed sequence at p (no overlong form, no surrogate), or 0. */
size_t berth_utf8_step(const char *p);
bool berth_utf8_valid(const char *text);
/* The same for bytes among which there may be NULs; one more is behind them. */
bool berth_utf8_valid_bytes(const char *bytes, size_t len);
/* INVALID, with `what` in the text, when it is longer or not UTF-8. */
int berth_utf8_check(const char *text, size_t max, const char *what, struct berth_error *err);
/* How many of the bytes there are without a sequence that has only begun at the end. */
size_t berth_utf8_whole(const char *bytes, size_t len);
/* Replaces each byte that belongs to no sequence by '?': for texts of others that must be kept. */
void berth_utf8_mend(char *text);
#endif
