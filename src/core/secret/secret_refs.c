/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret_refs.c - see secret_refs.h. */
#include "core/secret/secret_refs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/utf8.h"

#define PATH_BYTES_MAX 1000

/* --- paths --- */

/* The part of the path before its first dot, in `key`; what follows, or NULL. */
static const char *split(const char *path, char key[BERTH_NAME_BYTES_MAX + 1])
{
    size_t len = strcspn(path, ".");
    (void)snprintf(key, BERTH_NAME_BYTES_MAX + 1, "%.*s", (int)len, path);
    return path[len] ? path + len + 1 : NULL;
}

static const struct berth_json *value_at(const struct berth_json *object, const char *path)
{
    char key[BERTH_NAME_BYTES_MAX + 1];
    while (path && object) {
        path = split(path, key);
        object = berth_json_get(object, key);
    }
    return object;
}

/* Removes with a NULL value. The way there exists; `value` is taken over in any case. */
static bool put_at(struct berth_json *object, const char *path, struct berth_json *value)
{
    char key[BERTH_NAME_BYTES_MAX + 1];
    const char *rest = split(path, key);
    if (!rest && !value) {
        berth_json_remove(object, key);
        return true;
    }
    if (!rest)
        return berth_json_set(object, key, value);
    struct berth_json *inner = berth_json_get_mutable(object, key);
    if (berth_json_is(inner, BERTH_JSON_OBJECT))
        return put_at(inner, rest, value);
    berth_json_free(value);
    return true;
}

static void strip(struct berth_json *object, const char *path)
{
    char key[BERTH_NAME_BYTES_MAX + 1];
    const char *rest = split(path, key);
    struct berth_json *inner = berth_json_get_mutable(object, key);
    if (rest && !berth_json_is(inner, BERTH_JSON_OBJECT))
        return;
    if (rest)
        strip(inner, rest);
    if (!rest || berth_json_count(inner) == 0)
        berth_json_remove(object, key);
}

void berth_secret_refs_strip(struct berth_json *object, const struct berth_list *references)
{
    for (int i = 0; i < references->count; i++)
        strip(object, ((const struct berth_secret_ref *)references->items[i])->put_at);
}

/* --- what a schema says --- */

struct walk {
    struct berth_arena *arena;
    struct berth_list *out;
    const char *odd; /* a secret's path that cannot be written with dots */
};

static bool is_listed(const struct berth_list *paths, const char *path)
{
    for (int i = 0; i < paths->count; i++)
        if (strcmp(paths->items[i], path) == 0)
            return true;
    return false;
}

/* `odd`: a name on the way has a dot in it, or is too long. */
static void walk(struct walk *w, const struct berth_json *node, const char *prefix, bool odd)
{
    static const char *const unions[] = {"allOf", "anyOf", "oneOf"};
    for (size_t u = 0; u < sizeof unions / sizeof unions[0]; u++) {
        const struct berth_json *parts = berth_json_get(node, unions[u]);
        for (size_t i = 0; i < berth_json_count(parts); i++)
            walk(w, berth_json_at(parts, i), prefix, odd);
    }
    berth_json_each (berth_json_get(node, "properties"), iter) {
        const struct berth_json *property = berth_json_iter_value(iter);
        const char *key = berth_json_iter_key(iter);
        const char *format = berth_json_str(berth_json_get(property, "format"));
        bool odd_here = odd || !*key || strchr(key, '.') || strlen(key) > BERTH_NAME_BYTES_MAX;
        char *path = berth_arena_printf(w->arena, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (!path)
            return;
        bool secret = format && strcmp(format, "secret-ref") == 0;
        if (secret && (odd_here || strlen(path) > PATH_BYTES_MAX))
            w->odd = path;
        else if (secret && !is_listed(w->out, path))
            (void)berth_list_add(w->out, w->arena, path);
        walk(w, property, path, odd_here);
    }
}

int berth_secret_ref_paths(struct berth_arena *arena, const struct berth_json *schema,
                           struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    struct walk w = {.arena = arena, .out = out};
    walk(&w, schema, "", false);
    if (w.odd)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "The provider's schema marks a secret at \"%.200s\": a name there is "
                          "empty, too long or has a dot in it.",
                          w.odd);
    return berth_arena_check(arena, err);
}

/* The paths for a config of that driver. No schema, no paths. */
static int paths_of(const struct berth_registry *registry, struct berth_arena *arena,
                    const char *driver, const struct berth_json *config, struct berth_list *out,
                    struct berth_error *err)
{
    *out = (struct berth_list){0};
    const struct berth_route *route = berth_registry_find_by(registry, driver, config);
    const char *text = route ? berth_route_traits(route)->config_schema : NULL;
    if (!text)
        return BERTH_OK;
    auto_json *schema = NULL;
    int rc = berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &schema, err);
    return rc < 0 ? berth_wrap(err, "schema of %s", driver)
                  : berth_secret_ref_paths(arena, schema, out, err);
}

/* --- references --- */

bool berth_secret_refs_possible(const struct berth_route *route)
{
    const struct berth_driver_traits *traits = berth_route_traits(route);
    return traits->config_schema || traits->secret;
}

static void ref_add(struct berth_arena *arena, struct berth_list *out,
                    const struct berth_secret_ref *reference)
{
    struct berth_secret_ref *copy = berth_arena_alloc(arena, sizeof *copy);
    if (!copy)
        return; /* the arena remembers */
    *copy = *reference;
    copy->secret_id = berth_arena_strdup(arena, reference->secret_id);
    (void)berth_list_add(out, arena, copy);
}

static const struct berth_driver_secret *secret_of(const struct berth_registry *registry,
                                                   const char *driver,
                                                   const struct berth_json *config)
{
    const struct berth_route *route = berth_registry_find_by(registry, driver, config);
    return route ? berth_route_traits(route)->secret : NULL;
}

/* Adds the secret that the driver wants as an object beside the member for its value. */
static void add_object(struct berth_arena *arena, const struct berth_driver_secret *secret,
                       const struct berth_json *config, struct berth_list *out)
{
    const struct berth_json *ref = berth_json_get(config, secret->ref_key);
    const char *id = berth_json_str(berth_json_get(ref, "secretId"));
    struct berth_secret_ref reference = {
        .path = secret->ref_key,
        .put_at = secret->value_key,
        .secret_id = id,
        .version = berth_json_int(berth_json_get(ref, "version")), /* 0 for "latest" */
    };
    if (id)
        ref_add(arena, out, &reference);
}

int berth_secret_refs_of(const struct berth_registry *registry, struct berth_arena *arena,
                         const char *driver, const struct berth_json *config,
                         struct berth_list *out, struct berth_error *err)
{
    *out = (struct berth_list){0};
    const struct berth_driver_secret *secret = secret_of(registry, driver, config);
    if (secret)
        add_object(arena, secret, config, out);
    struct berth_list paths;
    int rc = paths_of(registry, arena, driver, config, &paths, err);
    for (int i = 0; rc == BERTH_OK && i < paths.count; i++) {
        const char *path = paths.items[i], *id = berth_json_str(value_at(config, path));
        struct berth_secret_ref reference = {.path = path, .put_at = path, .secret_id = id};
        if (id && berth_id_valid(id))
            ref_add(arena, out, &reference);
    }
    return rc < 0 ? rc : berth_arena_check(arena, err);
}

/* --- pasted values --- */

/* "auth.apiKey" -> "auth-apikey" */
static const char *field_of(struct berth_arena *arena, const char *path)
{
    char *field = berth_arena_strdup(arena, path), *to = field;
    for (const char *c = path; field && *c; c++)
        if (isalnum((unsigned char)*c))
            *to++ = (char)tolower((unsigned char)*c);
        else if (to > field && to[-1] != '-')
            *to++ = '-';
    if (field)
        *to = '\0';
    return field;
}

static int take_value(struct berth_arena *arena, const char *path, const char *text, size_t len,
                      struct berth_list *out, const char **id, struct berth_error *err)
{
    struct berth_id fresh = berth_id_new();
    struct berth_pasted *p = berth_arena_alloc(arena, sizeof *p);
    *id = berth_arena_strdup(arena, fresh.text);
    if (!p || !*id)
        return berth_arena_check(arena, err);
    if (len == strlen(BERTH_REDACTED) && memcmp(text, BERTH_REDACTED, len) == 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Refusing to persist redacted placeholder for key: %s", path);
    if (len > BERTH_SECRET_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The value of %s is longer than %d bytes.", path,
                          BERTH_SECRET_BYTES_MAX);
    *p = (struct berth_pasted){.path = path, .field = field_of(arena, path), .secret_id = *id};
    int rc = berth_locked_new(len, &p->value, err);
    if (rc < 0)
        return rc;
    berth_locked_append(&p->value, text, len);
    if (!p->field || !berth_list_add(out, arena, p)) {
        berth_locked_clear(&p->value);
        return berth_arena_check(arena, err);
    }
    return BERTH_OK;
}

/* The text without the white space around it. */
static const char *trim(const struct berth_json *value, size_t *len)
{
    const char *text = berth_json_str(value);
    *len = berth_json_str_len(value);
    while (*len && isspace((unsigned char)*text))
        text++, --*len;
    while (*len && isspace((unsigned char)text[*len - 1]))
        --*len;
    return text;
}

/* Takes a value that was pasted beside the object which should refer to it. */
static int take_object(struct berth_arena *arena, const struct berth_driver_secret *secret,
                       struct berth_json *config, struct berth_list *out, struct berth_error *err)
{
    const struct berth_json *value = berth_json_get(config, secret->value_key);
    if (!berth_json_is(value, BERTH_JSON_STRING))
        return BERTH_OK;
    size_t len;
    const char *text = trim(value, &len), *id;
    if (!len)
        return BERTH_OK;
    int rc = take_value(arena, secret->ref_key, text, len, out, &id, err);
    if (rc < 0)
        return rc;
    ((struct berth_pasted *)out->items[out->count - 1])->field = secret->name;
    struct berth_json *ref = berth_json_new_object();
    if (!berth_json_set(ref, "type", berth_json_new_str("secret_ref")) ||
        !berth_json_set(ref, "secretId", berth_json_new_str(id)) ||
        !berth_json_set(ref, "version", berth_json_new_str("latest"))) {
        berth_json_free(ref);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    }
    if (!berth_json_set(config, secret->ref_key, ref) ||
        !berth_json_set(config, secret->value_key, berth_json_new_null()))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    return BERTH_OK;
}

static int take_at(struct berth_arena *arena, struct berth_json *config, const char *path,
                   struct berth_list *out, struct berth_error *err)
{
    const struct berth_json *value = value_at(config, path);
    if (berth_json_type(value) == BERTH_JSON_NULL)
        return BERTH_OK;
    if (!berth_json_is(value, BERTH_JSON_STRING))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "%s must be a text: a secret's id, or the value itself.", path);
    size_t len;
    struct berth_id given;
    const char *text = trim(value, &len), *id = NULL;
    int rc = BERTH_OK;
    if (berth_id_valid(berth_json_str(value))) {
        rc = berth_id_parse(berth_json_str(value), "Secret", &given, err);
        id = given.text; /* in lower case */
    } else if (len) {
        rc = take_value(arena, path, text, len, out, &id, err);
    }
    if (rc == BERTH_OK && !put_at(config, path, id ? berth_json_new_str(id) : NULL))
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    return rc;
}

int berth_secret_refs_take(const struct berth_registry *registry, struct berth_arena *arena,
                           const char *driver, struct berth_json *config, struct berth_list *out,
                           struct berth_error *err)
{
    const struct berth_driver_secret *secret = secret_of(registry, driver, config);
    int rc = secret ? take_object(arena, secret, config, out, err) : BERTH_OK;
    struct berth_list paths = {0};
    if (rc == BERTH_OK)
        rc = paths_of(registry, arena, driver, config, &paths, err);
    for (int i = 0; rc == BERTH_OK && i < paths.count; i++)
        rc = take_at(arena, config, paths.items[i], out, err);
    return rc;
}

/* Returns whether the answered value is the given one, but for white space around it, or blank. */
static bool is_same_secret(const struct berth_json *given, const struct berth_json *answered)
{
    size_t given_len = 0, len;
    if (berth_json_type(answered) == BERTH_JSON_NULL)
        return true;
    if (!berth_json_is(answered, BERTH_JSON_STRING))
        return false;
    const char *text = trim(answered, &len);
    const char *sent = berth_json_is(given, BERTH_JSON_STRING) ? trim(given, &given_len) : "";
    return len == 0 || (len == given_len && memcmp(text, sent, len) == 0);
}

int berth_secret_refs_compare(const struct berth_registry *registry, struct berth_arena *arena,
                              const char *driver, const struct berth_json *given,
                              const struct berth_json *answered, struct berth_error *err)
{
    struct berth_list paths;
    int rc = paths_of(registry, arena, driver, answered, &paths, err);
    for (int i = 0; rc == BERTH_OK && i < paths.count; i++)
        if (!is_same_secret(value_at(given, paths.items[i]), value_at(answered, paths.items[i])))
            rc =
                berth_fail(err, BERTH_E_UPSTREAM,
                           "The worker answered with another secret at %s than it was asked about.",
                           (const char *)paths.items[i]);
    return rc;
}

void berth_pasted_clear(struct berth_list *pasted)
{
    for (int i = 0; i < pasted->count; i++)
        berth_locked_clear(&((struct berth_pasted *)pasted->items[i])->value);
    *pasted = (struct berth_list){0};
}

/* --- values into a config --- */

struct filling {
    const struct berth_list *references;
    const struct berth_locked *values;
    struct berth_locked *out;
};

static void write_text(struct berth_locked *out, const struct berth_locked *value)
{
    berth_locked_append(out, "\"", 1);
    for (size_t i = 0; i < value->len; i++) {
        unsigned char c = (unsigned char)value->bytes[i];
        if (c == '"' || c == '\\') {
            berth_locked_append(out, "\\", 1);
            berth_locked_append(out, &c, 1);
        } else if (c < 0x20) {
            char escape[8];
            berth_locked_append(out, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        } else {
            berth_locked_append(out, &c, 1);
        }
    }
    berth_locked_append(out, "\"", 1);
}

static bool is_text(const struct berth_locked *value)
{
    for (size_t i = 0; i < value->len;) {
        size_t step = value->bytes[i] ? berth_utf8_step(value->bytes + i) : 1;
        if (!step)
            return false;
        i += step;
    }
    return true;
}

static int write_plain(struct berth_locked *out, const struct berth_json *value,
                       struct berth_error *err)
{
    auto_free char *text = berth_json_canonical(value);
    if (!text)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    berth_locked_append(out, text, strlen(text));
    return BERTH_OK;
}

static int write_object(const struct filling *f, const struct berth_json *object,
                        const char *prefix, struct berth_error *err)
{
    int rc = BERTH_OK;
    const char *comma = "{";
    berth_json_each (object, iter) {
        char path[PATH_BYTES_MAX + 1];
        const char *name = berth_json_iter_key(iter);
        bool odd = strchr(name, '.') || strlen(prefix) + strlen(name) + 1 > PATH_BYTES_MAX;
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", name);
        const struct berth_json *value = berth_json_iter_value(iter);
        int found = 0, inside = 0;
        size_t len = strlen(path);
        for (int i = 0; i < f->references->count && !odd; i++) {
            const char *at = ((const struct berth_secret_ref *)f->references->items[i])->put_at;
            if (strcmp(at, path) == 0)
                found = i + 1;
            inside |= strncmp(at, path, len) == 0 && at[len] == '.';
        }
        auto_json *key = berth_json_new_str(berth_json_iter_key(iter));
        berth_locked_append(f->out, comma, 1);
        comma = ",";
        rc = key ? write_plain(f->out, key, err)
                 : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
        if (rc < 0)
            return rc;
        berth_locked_append(f->out, ":", 1);
        if (found)
            write_text(f->out, &f->values[found - 1]);
        else if (inside && berth_json_is(value, BERTH_JSON_OBJECT))
            rc = write_object(f, value, path, err);
        else
            rc = write_plain(f->out, value, err);
        if (rc < 0)
            return rc;
    }
    berth_locked_append(f->out, *comma == '{' ? "{}" : "}", *comma == '{' ? 2 : 1);
    return rc;
}

int berth_secret_refs_fill(const struct berth_json *config, const struct berth_list *references,
                           const struct berth_locked *values, struct berth_locked *out,
                           struct berth_error *err)
{
    auto_free char *text = berth_json_canonical(config);
    if (!text)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    size_t room = strlen(text);
    for (int i = 0; i < references->count; i++) {
        const struct berth_secret_ref *r = references->items[i];
        room += values[i].len * 6 + 2; /* every byte escaped, and the quotes */
        if (!is_text(&values[i]))
            return berth_fail(err, BERTH_E_UNPROCESSABLE,
                              "The secret at %s is not UTF-8 text and cannot stand in a config.",
                              r->path);
    }
    struct filling f = {.references = references, .values = values, .out = out};
    int rc = berth_locked_new(room, out, err);
    if (rc == BERTH_OK)
        rc = write_object(&f, config, "", err);
    if (rc < 0)
        berth_locked_clear(out);
    return rc;
}
