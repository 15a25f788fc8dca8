/* SPDX-License-Identifier: Apache-2.0
 * src/base/form.h - checks and normalises a JSON object field by field, and collects all faults.
 * Texts are trimmed; numbers may come as text, as web forms send them. */
#ifndef BERTH_BASE_FORM_H
#define BERTH_BASE_FORM_H

#include "base/arena.h"
#include "base/issues.h"
#include "base/json.h"

struct berth_form {
    const struct berth_json *in;
    struct berth_json *out; /* the caller's */
    struct berth_issues *issues;
    struct berth_arena *arena; /* fails when memory is short */
};

/* Sets a member of `out` and takes the value over. */
void berth_form_put(struct berth_form *f, const char *key, struct berth_json *value);
/* Copies all members of `in`. */
void berth_form_copy(struct berth_form *f);
/* Requires a text that is not blank. Adds the issue `message` and returns NULL when there is none.
 */
const char *berth_form_required_text(struct berth_form *f, const char *key, const char *message);
/* Takes a text; absent, null and blank all become null. */
void berth_form_optional_text(struct berth_form *f, const char *key);
void berth_form_boolean(struct berth_form *f, const char *key, bool absent);
/* Reads a whole number between the limits. Returns false after adding an issue. Does not set a
 * member of `out`. */
bool berth_form_integer(struct berth_form *f, const char *key, int64_t min, int64_t max,
                        int64_t *out);
/* Adds an issue for each member of `object` that is not in `known`, which is closed by NULL. */
void berth_form_refuse_unknown(struct berth_form *f, const struct berth_json *object,
                               const char *prefix, const char *const *known);

/* Parses an object, lets `fill` read its fields, and returns the normalised object as text, in the
 * arena of the issues. What is not an object counts as {}. */
typedef void berth_form_fn(struct berth_form *f, void *ctx);
int berth_form_normalise(const char *json, berth_form_fn *fill, void *ctx,
                         struct berth_issues *issues, const char **out, struct berth_error *err);

/* Returns the text without white space around it, in the arena. */
const char *berth_form_trimmed(struct berth_arena *arena, const char *text);
/* Returns the name of the value's type as messages have it; "undefined" for NULL. */
const char *berth_form_type_name(const struct berth_json *value);
#endif
