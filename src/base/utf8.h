/* SPDX-License-Identifier: Apache-2.0
 * src/base/utf8.h - checks and repairs UTF-8, which the databases and JSON require. */
#ifndef BERTH_BASE_UTF8_H
#define BERTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

/* Returns the length of the well-formed sequence at p, or 0. Overlong forms and surrogates are not
 * well-formed. Returns 0 at a NUL. */
size_t berth_utf8_step(const char *p);
bool berth_utf8_valid(const char *text);
/* Does the same for bytes that may contain NULs. A NUL must follow the last byte. */
bool berth_utf8_valid_bytes(const char *bytes, size_t len);
/* Returns INVALID, with `what` in the message, when the text is longer than `max` or not UTF-8. */
int berth_utf8_check(const char *text, size_t max, const char *what, struct berth_error *err);
/* Checks a name that a user gives to `whose` ("An environment"). Returns INVALID when it is NULL or
 * empty, too long or not UTF-8, begins or ends with a blank, or contains a control character. */
int berth_utf8_check_name(const char *name, const char *whose, struct berth_error *err);
/* Checks an id that is a free text, as `what` ("agentId"), by the rules of names. Empty is INVALID.
 */
int berth_utf8_check_id(const char *id, const char *what, struct berth_error *err);
/* Returns the code point at p, or 0xfffd for an invalid byte. Its length goes to *step. */
uint32_t berth_utf8_decode(const char *p, size_t *step);
/* Returns whether a terminal does not just show the character: controls, invisible characters, and
 * those that turn the direction of text. */
bool berth_utf8_is_control(uint32_t c);
/* Returns the length without an incomplete UTF-8 sequence at the end. */
size_t berth_utf8_whole(const char *bytes, size_t len);
/* Replaces each invalid byte by '?', for foreign text that is stored or shown. */
void berth_utf8_mend(char *text);
#endif
