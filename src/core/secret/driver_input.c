/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/driver_input.c - see driver_input.h. */
#include "core/secret/driver_input.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "core/secret/secret.h"
#include "crypto/matcher.h"

#define SHORT 4    /* a value shorter than this is not looked for inside of others */
#define PART_MIN 8 /* nor a part of one that is shorter than this */

static struct berth_resolve_request request_for(const struct berth_driver_input *use,
                                                const struct berth_secret_ref *r)
{
    return (struct berth_resolve_request){
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
}

/* Leaves the references that may be resolved; the config keeps the ids of the others. */
static int keep_allowed(struct berth *b, struct berth_driver_input *use, struct berth_error *err)
{
    int kept = 0, rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < use->references.count; i++) {
        struct berth_resolve_request request = request_for(use, use->references.items[i]);
        bool allowed;
        rc = berth_secret_may_resolve(b, &request, &allowed, err);
        if (allowed)
            use->references.items[kept++] = use->references.items[i];
    }
    use->references.count = kept;
    return rc;
}

static int resolve_all(struct berth *b, struct berth_driver_input *use, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < use->references.count; i++) {
        const struct berth_secret_ref *r = use->references.items[i];
        struct berth_resolve_request request = request_for(use, r);
        rc = berth_secret_resolve(b, &request, &use->values[i], err);
        if (rc < 0)
            return berth_wrap(err, "config.%s", r->path);
    }
    return rc;
}

/* --- what is looked for --- */

struct pattern {
    const char *bytes; /* in the locked memory of a value */
    size_t len;
    bool whole; /* only where nothing stands beside it */
};

/* Makes the matcher of the patterns that may have text beside them. */
static int make_matcher(struct berth_arena *arena, struct berth_driver_input *use,
                        struct berth_error *err)
{
    size_t count = (size_t)use->patterns.count;
    struct berth_pattern *all = berth_arena_alloc(arena, (count + 1) * sizeof *all);
    if (!all)
        return berth_arena_check(arena, err);
    for (size_t i = 0; i < count; i++) {
        const struct pattern *p = use->patterns.items[i];
        all[i] = (struct berth_pattern){p->bytes, p->whole ? 0 : p->len};
    }
    return berth_matcher_new(all, count, &use->inside, err);
}

static void add_pattern(struct berth_arena *arena, struct berth_driver_input *use,
                        const char *bytes, size_t len)
{
    struct pattern *p = berth_arena_alloc(arena, sizeof *p);
    if (!p)
        return; /* the arena remembers */
    *p = (struct pattern){bytes, len, len < SHORT};
    (void)berth_list_add(&use->patterns, arena, p);
}

static int longest_first(const void *a, const void *b)
{
    const struct pattern *x = *(const struct pattern *const *)a;
    const struct pattern *y = *(const struct pattern *const *)b;
    return x->len < y->len ? 1 : x->len > y->len ? -1 : 0;
}

static bool stays_in_quotes(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* Adds each value as a pattern, and the parts of it that stay the same when it is quoted. */
static int set_patterns(struct berth_arena *arena, struct berth_driver_input *use,
                        struct berth_error *err)
{
    for (int i = 0; i < use->references.count; i++) {
        const struct berth_locked *v = &use->values[i];
        if (v->len)
            add_pattern(arena, use, v->bytes, v->len);
        for (size_t from = 0, to; from < v->len; from = to + 1) {
            to = from;
            while (to < v->len && stays_in_quotes(v->bytes[to]))
                to++;
            if (to - from >= PART_MIN && to - from < v->len)
                add_pattern(arena, use, v->bytes + from, to - from);
        }
    }
    int rc = berth_arena_check(arena, err);
    if (rc < 0 || !use->patterns.count)
        return rc;
    qsort(use->patterns.items, (size_t)use->patterns.count, sizeof *use->patterns.items,
          longest_first);
    return make_matcher(arena, use, err);
}

/* The first place in the text where the pattern is, or NULL. */
static const char *find(const struct pattern *p, const char *text, size_t len)
{
    if (p->whole)
        return p->len == len && memcmp(text, p->bytes, len) == 0 ? text : NULL;
    return memmem(text, len, p->bytes, p->len);
}

static bool shows(const struct berth_driver_input *use, const char *text, size_t len)
{
    for (int i = use->patterns.count - 1; i >= 0; i--) { /* those that must be all of it are last */
        const struct pattern *p = use->patterns.items[i];
        if (!p->whole)
            break;
        if (find(p, text, len))
            return true;
    }
    return berth_matcher_finds(use->inside, text, len);
}

bool berth_driver_input_shows(const struct berth_driver_input *use, const char *text)
{
    return text && shows(use, text, strlen(text));
}

static void blot(char *at, size_t len)
{
    memset(at, '*', len);
    memcpy(at, BERTH_REDACTED, len < strlen(BERTH_REDACTED) ? len : strlen(BERTH_REDACTED));
}

/* A text that was cut may end in the beginning of a value. */
static void mask_end(const struct pattern *p, char *text)
{
    size_t have = strlen(text);
    for (size_t len = p->len - 1 < have ? p->len - 1 : have; len >= SHORT; len--)
        if (memcmp(text + have - len, p->bytes, len) == 0) {
            blot(text + have - len, len);
            return;
        }
}

void berth_driver_input_mask(const struct berth_driver_input *use, char *text)
{
    for (int i = 0; i < use->patterns.count; i++) {
        const struct pattern *p = use->patterns.items[i];
        const char *found;
        for (char *at = text; (found = find(p, at, strlen(at))); at += p->len) {
            at += found - at;
            blot(at, p->len);
        }
        mask_end(p, text);
    }
}

void berth_driver_input_mask_error(const struct berth_driver_input *use, struct berth_error *err)
{
    berth_driver_input_mask(use, err->message);
    berth_driver_input_mask(use, err->where);
}

/* --- open and closed --- */

int berth_driver_input_open(struct berth *b, struct berth_arena *arena, const char *driver,
                            struct berth_driver_input *use, struct berth_error *err)
{
    auto_json *config = NULL;
    const char *text = use->who.config_json;
    int rc = berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &config, err);
    if (rc == BERTH_OK)
        rc = berth_secret_refs_of(b->registry, arena, driver, config, &use->references, err);
    if (rc == BERTH_OK && use->ends)
        rc = keep_allowed(b, use, err);
    if (rc < 0 || use->references.count == 0)
        return rc;
    use->values = berth_arena_alloc(arena, (size_t)use->references.count * sizeof *use->values);
    if (!use->values)
        return berth_arena_check(arena, err);
    rc = resolve_all(b, use, err);
    use->who.secrets = use->values;
    use->who.secret_count = rc == BERTH_OK ? use->references.count : 0;
    if (rc == BERTH_OK)
        rc = set_patterns(arena, use, err);
    if (rc == BERTH_OK)
        rc = berth_secret_refs_fill(config, &use->references, use->values, &use->config, err);
    if (rc == BERTH_OK)
        use->who.config_json = use->config.bytes;
    return rc;
}

void berth_driver_input_close(struct berth_driver_input *use)
{
    for (int i = 0; use->values && i < use->references.count; i++)
        berth_locked_clear(&use->values[i]);
    use->patterns = (struct berth_list){0};
    berth_matcher_free(take_ptr(use->inside));
    berth_locked_clear(&use->config);
    use->who.config_json = NULL;
    use->who.secrets = NULL;
    use->who.secret_count = 0;
}

/* --- answers --- */

/* The same value without the secrets in it; the caller's. Keys can hold one, and so can numbers. */
static struct berth_json *without(const struct berth_driver_input *use,
                                  const struct berth_json *value)
{
    if (berth_json_is(value, BERTH_JSON_STRING))
        return shows(use, berth_json_str(value), berth_json_str_len(value))
                   ? berth_json_new_str(BERTH_REDACTED)
                   : berth_json_copy(value);
    if (berth_json_is(value, BERTH_JSON_ARRAY)) {
        struct berth_json *out = berth_json_new_array();
        for (size_t i = 0; out && i < berth_json_count(value); i++)
            if (!berth_json_add(out, without(use, berth_json_at(value, i)))) {
                berth_json_free(out);
                return NULL;
            }
        return out;
    }
    if (!berth_json_is(value, BERTH_JSON_OBJECT)) {
        auto_free char *text = berth_json_canonical(value);
        return !text || berth_driver_input_shows(use, text) ? berth_json_new_str(BERTH_REDACTED)
                                                            : berth_json_copy(value);
    }
    struct berth_json *out = berth_json_new_object();
    berth_json_each (value, iter) {
        const char *key = berth_json_iter_key(iter);
        if (!berth_json_set(out, berth_driver_input_shows(use, key) ? BERTH_REDACTED : key,
                            without(use, berth_json_iter_value(iter)))) {
            berth_json_free(out);
            return NULL;
        }
    }
    return out;
}

int berth_driver_input_clean(const struct berth_driver_input *use, struct berth_arena *arena,
                             const char **json, struct berth_error *err)
{
    if (!use->patterns.count || !*json)
        return BERTH_OK;
    auto_json *parsed = NULL;
    struct berth_error ignored; /* unreadable text is replaced by null */
    if (berth_json_parse(*json, strlen(*json), BERTH_JSON_OURS, &parsed, &ignored) < 0) {
        *json = "null";
        return BERTH_OK;
    }
    auto_json *clean = without(use, parsed);
    if (!clean)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: metadata.");
    if (berth_json_is(clean, BERTH_JSON_OBJECT))
        berth_secret_refs_strip(clean, &use->references);
    *json = berth_json_canonical_in(arena, clean);
    return berth_arena_check(arena, err);
}
