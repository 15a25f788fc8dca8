/* SPDX-License-Identifier: Apache-2.0
 * src/base/form.c - see form.h. */
#include "base/form.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void berth_form_put(struct berth_form *f, const char *key, struct berth_json *value)
{
    if (!berth_json_set(f->out, key, value))
        f->arena->failed = true;
}

void berth_form_copy(struct berth_form *f)
{
    berth_json_each (f->in, iter)
        berth_form_put(f, berth_json_iter_key(iter), berth_json_copy(berth_json_iter_value(iter)));
}

const char *berth_form_type_name(const struct berth_json *value)
{
    static const char *const names[] = {"null",   "boolean", "number", "number",
                                        "string", "array",   "object"};
    return value ? names[berth_json_type(value)] : "undefined";
}

const char *berth_form_trimmed(struct berth_arena *arena, const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return berth_arena_copy(arena, text, len);
}

/* Returns the trimmed text, or NULL when there is none. Another type is an issue and gives "". */
static const char *form_text(struct berth_form *f, const char *key)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    if (!value)
        return NULL;
    if (!berth_json_is(value, BERTH_JSON_STRING)) {
        berth_issues_add(f->issues, key, "%s: expected string, received %s", key,
                         berth_form_type_name(value));
        return "";
    }
    const char *text = berth_form_trimmed(f->arena, berth_json_str(value));
    return text ? text : "";
}

const char *berth_form_required_text(struct berth_form *f, const char *key, const char *message)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = value && !berth_json_is(value, BERTH_JSON_STRING) ? "" : form_text(f, key);
    if (!text || !*text) {
        berth_issues_add(f->issues, key, "%s", message);
        return NULL;
    }
    berth_form_put(f, key, berth_json_new_str(text));
    return text;
}

void berth_form_optional_text(struct berth_form *f, const char *key)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = berth_json_type(value) == BERTH_JSON_NULL ? NULL : form_text(f, key);
    berth_form_put(f, key, berth_json_new_str(text && *text ? text : NULL));
}

void berth_form_boolean(struct berth_form *f, const char *key, bool absent)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    if (value && !berth_json_is(value, BERTH_JSON_BOOL))
        berth_issues_add(f->issues, key, "%s: expected boolean, received %s", key,
                         berth_form_type_name(value));
    berth_form_put(f, key, berth_json_new_bool(value ? berth_json_true(value) : absent));
}

/* Text that holds a number counts as one, and so do true and null: web forms send them so. */
static bool form_number(const struct berth_json *value, double *out)
{
    switch (berth_json_type(value)) {
    case BERTH_JSON_INT:
    case BERTH_JSON_REAL:
        *out = berth_json_number(value);
        return true;
    case BERTH_JSON_BOOL:
        *out = berth_json_true(value) ? 1 : 0;
        return true;
    case BERTH_JSON_NULL:
        *out = 0;
        return true;
    case BERTH_JSON_STRING: {
        const char *text = berth_json_str(value);
        char *end;
        *out = strtod(text, &end);
        while (isspace((unsigned char)*end))
            end++;
        return !*end && strlen(text) == berth_json_str_len(value);
    }
    default:
        return false;
    }
}

bool berth_form_integer(struct berth_form *f, const char *key, int64_t min, int64_t max,
                        int64_t *out)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    double number;
    if (!form_number(value, &number) || isnan(number)) {
        berth_issues_add(f->issues, key, "%s: expected number, received %s", key,
                         berth_form_type_name(value));
        return false;
    }
    if (number != trunc(number) || number < (double)min || number > (double)max) {
        berth_issues_add(f->issues, key, "%s must be a whole number between %lld and %lld.", key,
                         (long long)min, (long long)max);
        return false;
    }
    *out = (int64_t)number;
    return true;
}

void berth_form_refuse_unknown(struct berth_form *f, const struct berth_json *object,
                               const char *prefix, const char *const *known)
{
    berth_json_each (object, iter) {
        const char *key = berth_json_iter_key(iter);
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k)
            berth_issues_add(f->issues, key, "Unrecognized key in config: %s%.200s", prefix, key);
    }
}

int berth_form_normalise(const char *json, berth_form_fn *fill, void *ctx,
                         struct berth_issues *issues, const char **out, struct berth_error *err)
{
    auto_json *in = NULL, *normalised = berth_json_new_object(), *empty = berth_json_new_object();
    int rc = berth_json_parse(json, strlen(json), BERTH_JSON_OURS, &in, err);
    if (rc < 0)
        return rc;
    if (!normalised || !empty)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    struct berth_form f = {.in = berth_json_is(in, BERTH_JSON_OBJECT) ? in : empty,
                           .out = normalised,
                           .issues = issues,
                           .arena = issues->arena};
    fill(&f, ctx);
    *out = berth_json_canonical_in(issues->arena, normalised);
    return berth_arena_check(issues->arena, err);
}
