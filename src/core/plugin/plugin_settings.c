/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/plugin_settings.c - see plugin_settings.h. */
#include "core/plugin/plugin_settings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/redact_text.h"

/* Says whether the variable is one that berth sets itself. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"PATH", "NODE_PATH", "NODE_ENV", "TZ", "HOME", "TMPDIR"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "BERTH_", 6) == 0 || strncmp(name, "PAPERCLIP_", 10) == 0;
}

static bool is_variable(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    size_t len = strlen(name);
    return len && len <= BERTH_NAME_BYTES_MAX && strchr(first, name[0]) &&
           strspn(name + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") ==
               len - 1;
}

static int check_variable(const char *name, const struct berth_json *value, struct berth_error *err)
{
    if (!is_variable(name))
        return berth_fail(err, BERTH_E_INVALID, "\"%.60s\" is not the name of a variable.", name);
    if (is_ours(name))
        return berth_fail(err, BERTH_E_INVALID, "berth itself sets the variable %.60s.", name);
    if (berth_json_type(value) == BERTH_JSON_NULL)
        return BERTH_OK;
    if (!berth_json_is(value, BERTH_JSON_STRING))
        return berth_fail(err, BERTH_E_INVALID, "The value of %.60s is a text or null.", name);
    if (berth_json_str_len(value) > BERTH_PLUGIN_VARIABLE_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The value of %.60s is longer than %d bytes.",
                          name, BERTH_PLUGIN_VARIABLE_BYTES_MAX);
    if (berth_redact_is_secret((struct berth_span){name, strlen(name)}))
        return berth_fail(
            err, BERTH_E_INVALID,
            "The value of %.60s would be stored and shown as it is. Put secrets into "
            "the config of an environment, or let the worker have the variable of the "
            "process that starts it: give the name without a value.",
            name);
    return BERTH_OK;
}

static int check_env(const struct berth_json *env, struct berth_error *err)
{
    if (!berth_json_is(env, BERTH_JSON_OBJECT))
        return berth_fail(err, BERTH_E_INVALID, "env is an object of variables by name.");
    if (berth_json_count(env) > BERTH_PLUGIN_VARIABLES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "A worker has at most %d variables.",
                          BERTH_PLUGIN_VARIABLES_MAX);
    int rc = BERTH_OK;
    berth_json_each (env, iter)
        if (rc == BERTH_OK)
            rc = check_variable(berth_json_iter_key(iter), berth_json_iter_value(iter), err);
    return rc;
}

static int check_sockets(const struct berth_json *paths, struct berth_error *err)
{
    if (berth_json_type(paths) == BERTH_JSON_NULL)
        return BERTH_OK;
    if (!berth_json_is(paths, BERTH_JSON_ARRAY) || berth_json_count(paths) > BERTH_SOCKETS_MAX)
        return berth_fail(err, BERTH_E_INVALID,
                          "unixSockets is null or a list of at most %d paths.", BERTH_SOCKETS_MAX);
    for (size_t i = 0; i < berth_json_count(paths); i++) {
        const char *path = berth_json_str(berth_json_at(paths, i));
        if (!path || path[0] != '/' || strstr(path, "/..") || !path[1] ||
            strlen(path) > BERTH_OPTION_BYTES_MAX)
            return berth_fail(err, BERTH_E_INVALID,
                              "unixSockets has absolute paths without \"..\", not \"%.100s\".",
                              path ? path : "");
    }
    return BERTH_OK;
}

static int check_setting(const char *key, const struct berth_json *value, struct berth_error *err)
{
    if (strcmp(key, "env") == 0)
        return check_env(value, err);
    if (strcmp(key, "unixSockets") == 0)
        return check_sockets(value, err);
    return berth_fail(err, BERTH_E_INVALID, "A plugin has no setting \"%.60s\".", key);
}

int berth_plugin_settings_change(struct berth_arena *arena, const char *settings_json,
                                 const char *change_json, const char **out, struct berth_error *err)
{
    auto_json *settings = NULL, *change = NULL;
    int rc =
        berth_json_parse(settings_json, strlen(settings_json), BERTH_JSON_OURS, &settings, err);
    if (rc == BERTH_OK)
        rc = berth_json_parse(change_json, strlen(change_json), BERTH_JSON_OURS, &change, err);
    if (rc == BERTH_OK && !berth_json_is(change, BERTH_JSON_OBJECT))
        rc = berth_fail(err, BERTH_E_INVALID, "The settings of a plugin are a JSON object.");
    berth_json_each (change, iter) {
        const char *key = berth_json_iter_key(iter);
        if (rc == BERTH_OK)
            rc = check_setting(key, berth_json_iter_value(iter), err);
        if (rc == BERTH_OK &&
            !berth_json_set(settings, key, berth_json_copy(berth_json_iter_value(iter))))
            rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: settings.");
    }
    if (rc < 0)
        return rc;
    *out = berth_json_canonical_in(arena, settings);
    return berth_arena_check(arena, err);
}

int berth_plugin_settings_env(struct berth_arena *arena, const char *settings_json,
                              const char *const **out, struct berth_error *err)
{
    auto_json *settings = NULL;
    struct berth_list env = {0};
    int rc =
        berth_json_parse(settings_json, strlen(settings_json), BERTH_JSON_OURS, &settings, err);
    if (rc < 0)
        return rc;
    berth_json_each (berth_json_get(settings, "env"), iter) {
        const char *name = berth_json_iter_key(iter);
        const char *value = berth_json_str(berth_json_iter_value(iter));
        if (!value)
            value = getenv(name);
        if (value)
            (void)berth_list_add(&env, arena, berth_arena_printf(arena, "%s=%s", name, value));
    }
    (void)berth_list_add(&env, arena, NULL);
    *out = (const char *const *)(void *)env.items;
    return berth_arena_check(arena, err);
}

int berth_plugin_settings_sockets(struct berth_arena *arena, const char *settings_json,
                                  const char *const **out, struct berth_error *err)
{
    auto_json *settings = NULL;
    struct berth_list list = {0};
    int rc =
        berth_json_parse(settings_json, strlen(settings_json), BERTH_JSON_OURS, &settings, err);
    if (rc < 0)
        return rc;
    const struct berth_json *paths = berth_json_get(settings, "unixSockets");
    for (size_t i = 0; i < berth_json_count(paths); i++)
        (void)berth_list_add(&list, arena,
                             berth_arena_strdup(arena, berth_json_str(berth_json_at(paths, i))));
    (void)berth_list_add(&list, arena, NULL);
    bool allowed = berth_json_is(paths, BERTH_JSON_ARRAY);
    *out = allowed ? (const char *const *)(void *)list.items : NULL;
    return berth_arena_check(arena, err);
}
