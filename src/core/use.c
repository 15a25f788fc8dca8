/* SPDX-License-Identifier: Apache-2.0
 * src/core/use.c - see use.h. */
#include "core/use.h"

#include <string.h>

#include "base/auto.h"
#include "core/secret.h"

#define REDACTED "***REDACTED***"
#define SHORT 4 /* a value shorter than this is not looked for inside of others */

static int resolve_all(struct berth *b, struct berth_use *use, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < use->references.count; i++) {
        const struct berth_reference *r = use->references.items[i];
        struct berth_resolve_request request = {
            .company_id = use->who.company_id,
            .secret_id = r->secret_id,
            .version = r->version,
            .consumer_type = "environment",
            .consumer_id = use->who.environment_id,
            .config_path = r->path,
            .lease_id = use->who.lease_id,
            .issue_id = use->who.issue_id,
            .run_id = use->who.run_id,
        };
        rc = berth_secret_resolve(b, &request, &use->values[i], err);
        if (rc < 0)
            return berth_wrap(err, "config.%s", r->path);
    }
    return rc;
}

int berth_use_open(struct berth *b, struct berth_arena *arena, const char *driver,
                   struct berth_use *use, struct berth_error *err)
{
    auto_json *config = NULL;
    const char *text = use->who.config_json;
    int rc = berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &config, err);
    if (rc == BERTH_OK)
        rc = berth_references_of(b->registry, arena, driver, config, &use->references, err);
    if (rc < 0 || use->references.count == 0)
        return rc;
    use->values = berth_arena_alloc(arena, (size_t)use->references.count * sizeof *use->values);
    if (!use->values)
        return berth_arena_check(arena, err);
    rc = resolve_all(b, use, err);
    if (rc == BERTH_OK)
        rc = berth_references_fill(config, &use->references, use->values, &use->config, err);
    if (rc == BERTH_OK)
        use->who.config_json = use->config.bytes;
    return rc;
}

void berth_use_close(struct berth_use *use)
{
    for (int i = 0; use->values && i < use->references.count; i++)
        berth_locked_clear(&use->values[i]);
    berth_locked_clear(&use->config);
    use->who.config_json = NULL;
}

/* The first place in `text` where the value is, or NULL. */
static char *find(const struct berth_locked *value, char *text, size_t len)
{
    if (value->len < SHORT)
        return value->len == len && memcmp(text, value->bytes, len) == 0 ? text : NULL;
    return memmem(text, len, value->bytes, value->len);
}

bool berth_use_shows(const struct berth_use *use, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    for (int i = 0; use->values && i < use->references.count && len; i++)
        if (use->values[i].len && find(&use->values[i], (char *)(uintptr_t)text, len))
            return true;
    return false;
}

void berth_use_mask(const struct berth_use *use, char *text)
{
    for (int i = 0; use->values && i < use->references.count; i++) {
        const struct berth_locked *value = &use->values[i];
        char *at = text;
        while (value->len && (at = find(value, at, strlen(at)))) {
            size_t said = value->len < strlen(REDACTED) ? value->len : strlen(REDACTED);
            memset(at, '*', value->len);
            memcpy(at, REDACTED, said);
            at += value->len;
        }
    }
}

static bool shows(const struct berth_use *use, const struct berth_json *value)
{
    char *text = (char *)(uintptr_t)berth_json_str(value);
    size_t len = berth_json_str_len(value);
    for (int i = 0; text && i < use->references.count; i++)
        if (use->values[i].len && find(&use->values[i], text, len))
            return true;
    return false;
}

/* The same value without the secrets in it; the caller's. Keys can hold one, too. */
static struct berth_json *without(const struct berth_use *use, const struct berth_json *value)
{
    if (berth_json_is(value, BERTH_JSON_STRING))
        return shows(use, value) ? berth_json_new_str(REDACTED) : berth_json_copy(value);
    if (berth_json_is(value, BERTH_JSON_ARRAY)) {
        struct berth_json *out = berth_json_new_array();
        for (size_t i = 0; out && i < berth_json_count(value); i++)
            if (!berth_json_add(out, without(use, berth_json_at(value, i)))) {
                berth_json_free(out);
                return NULL;
            }
        return out;
    }
    if (!berth_json_is(value, BERTH_JSON_OBJECT))
        return berth_json_copy(value);
    struct berth_json *out = berth_json_new_object();
    berth_json_each (value, iter) {
        const char *key = berth_json_iter_key(iter);
        if (!berth_json_set(out, berth_use_shows(use, key) ? REDACTED : key,
                            without(use, berth_json_iter_value(iter)))) {
            berth_json_free(out);
            return NULL;
        }
    }
    return out;
}

int berth_use_clean(const struct berth_use *use, struct berth_arena *arena, const char **json,
                    struct berth_error *err)
{
    if (!use->values || !*json)
        return BERTH_OK;
    auto_json *parsed = NULL;
    struct berth_error ignored; /* what cannot be read is refused by whoever wants to keep it */
    if (berth_json_parse(*json, strlen(*json), BERTH_JSON_OURS, &parsed, &ignored) < 0) {
        *json = "null";
        return BERTH_OK;
    }
    auto_json *clean = without(use, parsed);
    if (!clean)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: metadata.");
    if (berth_json_is(clean, BERTH_JSON_OBJECT))
        berth_references_strip(clean, &use->references);
    *json = berth_json_canonical_in(arena, clean);
    return berth_arena_check(arena, err);
}
