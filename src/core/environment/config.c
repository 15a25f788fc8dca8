/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/config.c - see config.h. The texts are those users of the reference know. */
#include "core/environment/config.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "core/driver.h"
#include "crypto/hash.h"

#define TIMEOUT_MS_MAX 86400000

/* One normalisation under way. */
struct form {
    const struct berth_json *in;
    struct berth_json *out;
    struct berth_issues *issues;
    struct berth_arena *arena;
};

static void put(struct form *f, const char *key, struct berth_json *value)
{
    if (!berth_json_set(f->out, key, value))
        f->arena->failed = true;
}

static const char *type_name(const struct berth_json *value)
{
    static const char *const names[] = {"null",   "boolean", "number", "number",
                                        "string", "array",   "object"};
    return value ? names[berth_json_type(value)] : "undefined";
}

static const char *trimmed(struct berth_arena *arena, const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return berth_arena_copy(arena, text, len);
}

/* The trimmed text at `key`; NULL when it is not there. Another type is an issue and gives "". */
static const char *text_at(struct form *f, const char *key)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    if (!value)
        return NULL;
    if (!berth_json_is(value, BERTH_JSON_STRING)) {
        berth_issues_add(f->issues, key, "%s: expected string, received %s", key, type_name(value));
        return "";
    }
    const char *text = trimmed(f->arena, berth_json_str(value));
    return text ? text : "";
}

/* A text that must be there. Returns NULL after an issue. */
static const char *required_text(struct form *f, const char *key, const char *message)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = value && !berth_json_is(value, BERTH_JSON_STRING) ? "" : text_at(f, key);
    if (!text || !*text) {
        berth_issues_add(f->issues, key, "%s", message);
        return NULL;
    }
    put(f, key, berth_json_new_str(text));
    return text;
}

/* A text for which null and blank mean "not set". */
static void optional_text(struct form *f, const char *key)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = berth_json_type(value) == BERTH_JSON_NULL ? NULL : text_at(f, key);
    put(f, key, berth_json_new_str(text && *text ? text : NULL));
}

static void boolean(struct form *f, const char *key, bool absent)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    if (value && !berth_json_is(value, BERTH_JSON_BOOL))
        berth_issues_add(f->issues, key, "%s: expected boolean, received %s", key,
                         type_name(value));
    put(f, key, berth_json_new_bool(value ? berth_json_true(value) : absent));
}

/* Text that holds a number counts as one, as do true and null: that is how forms send them. */
static bool as_number(const struct berth_json *value, double *out)
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

/* An integer between the limits; false after an issue. */
static bool integer(struct form *f, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct berth_json *value = berth_json_get(f->in, key);
    double number;
    if (!as_number(value, &number) || isnan(number)) {
        berth_issues_add(f->issues, key, "%s: expected number, received %s", key, type_name(value));
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

static void refuse_unknown(struct form *f, const struct berth_json *object, const char *prefix,
                           const char *const *known)
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

/* --- local --- */

static void local_form(struct form *f)
{
    berth_json_each (f->in, iter)
        put(f, berth_json_iter_key(iter), berth_json_copy(berth_json_iter_value(iter)));
}

/* --- ssh --- */

static const char *const ssh_keys[] = {"host",       "port",
                                       "username",   "remoteWorkspacePath",
                                       "privateKey", "privateKeySecretRef",
                                       "knownHosts", "strictHostKeyChecking",
                                       NULL};

/* A version is "latest" or a positive integer. */
static struct berth_json *secret_version(struct form *f, const struct berth_json *version)
{
    if (!version)
        return berth_json_new_str("latest");
    const char *text = berth_json_str(version);
    if (text && strcmp(text, "latest") == 0)
        return berth_json_copy(version);
    if (berth_json_is(version, BERTH_JSON_INT) && berth_json_int(version) > 0)
        return berth_json_copy(version);
    berth_issues_add(f->issues, "privateKeySecretRef.version",
                     "privateKeySecretRef.version must be \"latest\" or a positive integer.");
    return berth_json_new_null();
}

static void secret_ref(struct form *f, const char *key)
{
    static const char *const known[] = {"type", "secretId", "version", NULL};
    const struct berth_json *ref = berth_json_get(f->in, key);
    if (berth_json_type(ref) == BERTH_JSON_NULL) {
        put(f, key, berth_json_new_null());
        return;
    }
    const char *type = berth_json_str(berth_json_get(ref, "type"));
    const char *id = berth_json_str(berth_json_get(ref, "secretId"));
    if (!berth_json_is(ref, BERTH_JSON_OBJECT) || !type || strcmp(type, "secret_ref") != 0 || !id ||
        !berth_id_valid(id)) {
        berth_issues_add(f->issues, key,
                         "%s must be null or {\"type\":\"secret_ref\",\"secretId\":<uuid>}.", key);
        return;
    }
    struct berth_id lower;
    struct berth_error ignored;
    (void)berth_id_parse(id, "Secret", &lower, &ignored); /* it is one */
    refuse_unknown(f, ref, "privateKeySecretRef.", known);
    struct berth_json *out = berth_json_new_object();
    if (!out || !berth_json_set(out, "type", berth_json_new_str("secret_ref")) ||
        !berth_json_set(out, "secretId", berth_json_new_str(lower.text)) ||
        !berth_json_set(out, "version", secret_version(f, berth_json_get(ref, "version"))))
        f->arena->failed = true;
    put(f, key, out);
}

/* Keys are kept as secrets, not in the config. */
static void private_key(struct form *f, enum berth_config_use use)
{
    const char *key = "privateKey";
    if (use == BERTH_CONFIG_PROBE) {
        optional_text(f, key);
        return;
    }
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = berth_json_str(value);
    bool blank = berth_json_type(value) == BERTH_JSON_NULL ||
                 (use == BERTH_CONFIG_PERSIST && text && !*trimmed(f->arena, text));
    if (!blank)
        berth_issues_add(f->issues, key,
                         "An SSH private key is not stored in the config: store it as a secret and "
                         "name it in privateKeySecretRef, or let your SSH agent hold it.");
    put(f, key, berth_json_new_null());
}

static void ssh_form(struct form *f, enum berth_config_use use)
{
    const char *host = required_text(f, "host", "SSH environments require a host.");
    int64_t port = 22;
    if (berth_json_get(f->in, "port"))
        (void)integer(f, "port", 1, 65535, &port);
    put(f, "port", berth_json_new_int(port));
    const char *user = required_text(f, "username", "SSH environments require a username.");
    const char *path = required_text(f, "remoteWorkspacePath",
                                     "SSH environments require a remote workspace path.");
    if (path && path[0] != '/')
        berth_issues_add(f->issues, "remoteWorkspacePath",
                         "SSH remote workspace path must be absolute.");
    const char *const texts[] = {host, user, path};
    static const char *const names[] = {"host", "username", "remoteWorkspacePath"};
    for (int i = 0; i < 3; i++)
        for (const char *c = texts[i]; c && *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) {
                berth_issues_add(f->issues, names[i], "It must not contain control characters.");
                break;
            }
    /* They become arguments of ssh(1). */
    if (host && host[0] == '-')
        berth_issues_add(f->issues, "host", "An SSH host must not start with \"-\".");
    if (user && user[0] == '-')
        berth_issues_add(f->issues, "username", "An SSH username must not start with \"-\".");
    private_key(f, use);
    secret_ref(f, "privateKeySecretRef");
    optional_text(f, "knownHosts");
    boolean(f, "strictHostKeyChecking", true);
    refuse_unknown(f, f->in, "", ssh_keys);
}

/* --- sandbox --- */

static bool key_shape(const char *text)
{
    if (!islower((unsigned char)text[0]) && !isdigit((unsigned char)text[0]))
        return false;
    for (; *text; text++)
        if (!islower((unsigned char)*text) && !isdigit((unsigned char)*text) &&
            !strchr("._-", *text))
            return false;
    return true;
}

static void fake_form(struct form *f)
{
    static const char *const known[] = {"provider", "image", "reuseLease", NULL};
    put(f, "provider", berth_json_new_str("fake"));
    if (berth_json_get(f->in, "image"))
        (void)required_text(f, "image", "Fake sandbox environments require an image.");
    else
        put(f, "image", berth_json_new_str("ubuntu:24.04"));
    boolean(f, "reuseLease", false);
    refuse_unknown(f, f->in, "", known);
}

static void provider_form(struct form *f, const char *provider)
{
    berth_json_each (f->in, iter)
        put(f, berth_json_iter_key(iter), berth_json_copy(berth_json_iter_value(iter)));
    put(f, "provider", berth_json_new_str(provider));
    if (!*provider)
        berth_issues_add(f->issues, "provider", "Sandbox provider is required.");
    else if (!key_shape(provider))
        berth_issues_add(f->issues, "provider",
                         "Sandbox provider key must start with a lowercase alphanumeric and "
                         "contain only lowercase letters, digits, dots, hyphens, or underscores");
    int64_t timeout_ms;
    if (berth_json_get(f->in, "timeoutMs") &&
        integer(f, "timeoutMs", 1, TIMEOUT_MS_MAX, &timeout_ms))
        put(f, "timeoutMs", berth_json_new_int(timeout_ms));
    boolean(f, "reuseLease", false);
}

static void sandbox_form(struct form *f)
{
    const char *provider = berth_json_str(berth_json_get(f->in, "provider"));
    if (!provider || !*provider || strcmp(provider, "fake") == 0) {
        fake_form(f);
        return;
    }
    provider = trimmed(f->arena, provider);
    if (provider && strcmp(provider, "fake") == 0)
        fake_form(f);
    else if (provider)
        provider_form(f, provider);
}

/* --- plugin --- */

static void plugin_form(struct form *f)
{
    static const char *const known[] = {"pluginKey", "driverKey", "driverConfig", NULL};
    (void)required_text(f, "pluginKey", "Plugin environments require a plugin key.");
    const char *driver = required_text(f, "driverKey", "Plugin environments require a driver key.");
    if (driver && !key_shape(driver))
        berth_issues_add(f->issues, "driverKey",
                         "Environment driver key must start with a lowercase alphanumeric and "
                         "contain only lowercase letters, digits, dots, hyphens, or underscores");
    const struct berth_json *inner = berth_json_get(f->in, "driverConfig");
    if (inner && !berth_json_is(inner, BERTH_JSON_OBJECT))
        berth_issues_add(f->issues, "driverConfig", "driverConfig: expected object, received %s",
                         type_name(inner));
    put(f, "driverConfig", inner ? berth_json_copy(inner) : berth_json_new_object());
    refuse_unknown(f, f->in, "", known);
}

/* --- what saving asks for besides --- */

/* The implementation has its say, and its word for the config. */
static int ask_route(const struct berth_route *route, struct form *f, struct berth_error *err)
{
    auto_free char *text = berth_json_canonical(f->out);
    if (!text)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = f->arena};
    const char *normalised;
    int rc = berth_driver_validate(route, &call, text, f->issues, &normalised, err);
    if (rc == BERTH_OK)
        rc = berth_issues_check(f->issues, err);
    if (rc < 0)
        return rc;
    struct berth_json *parsed = NULL;
    rc = berth_json_parse(normalised, strlen(normalised), BERTH_JSON_OURS, &parsed, err);
    if (rc < 0)
        return rc;
    /* A provider need not repeat its own name, but the row must keep it. */
    const struct berth_json *name = berth_json_get(f->out, "provider");
    struct berth_json *kept = name ? berth_json_copy(name) : NULL;
    berth_json_free(f->out);
    f->out = parsed;
    if (name)
        put(f, "provider", kept);
    return berth_arena_check(f->arena, err);
}

static int ask_provider(const struct berth_registry *registry, struct form *f,
                        struct berth_error *err)
{
    const char *provider = berth_json_str(berth_json_get(f->out, "provider"));
    if (strcmp(provider, "fake") == 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Built-in fake sandbox environments are reserved for internal probes and "
                          "cannot be saved.");
    const struct berth_route *route = berth_registry_find(registry, "sandbox", provider);
    if (!route && !berth_registry_workers(registry))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Sandbox provider config validation requires a running plugin worker manager.");
    struct berth_error unready;
    if (!route || berth_route_check(route, &unready) < 0)
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Sandbox provider \"%s\" is not installed or its plugin worker is not running.",
            provider);
    return ask_route(route, f, err);
}

static int ask_plugin(const struct berth_registry *registry, struct form *f,
                      struct berth_error *err)
{
    if (!berth_registry_workers(registry))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Plugin environment config validation requires a running plugin worker manager.");
    auto_free char *text = berth_json_canonical(f->out);
    const struct berth_route *route;
    int rc = text ? berth_registry_route(registry, "plugin", text, &route, err)
                  : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    return rc < 0 ? rc : ask_route(route, f, err);
}

static int persist(const struct berth_registry *registry, enum berth_environment_driver driver,
                   struct form *f, struct berth_error *err)
{
    if (driver == BERTH_DRIVER_SANDBOX)
        return ask_provider(registry, f, err);
    return driver == BERTH_DRIVER_PLUGIN ? ask_plugin(registry, f, err) : BERTH_OK;
}

int berth_config_normalise(const struct berth_registry *registry,
                           enum berth_environment_driver driver, const struct berth_json *config,
                           enum berth_config_use use, struct berth_issues *issues,
                           struct berth_json **out, struct berth_error *err)
{
    auto_json *empty = berth_json_new_object();
    struct form f = {.in = berth_json_is(config, BERTH_JSON_OBJECT) ? config : empty,
                     .out = berth_json_new_object(),
                     .issues = issues,
                     .arena = issues->arena};
    if (!f.in || !f.out) {
        berth_json_free(f.out);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    }
    switch (driver) {
    case BERTH_DRIVER_LOCAL:
        local_form(&f);
        break;
    case BERTH_DRIVER_SSH:
        ssh_form(&f, use);
        break;
    case BERTH_DRIVER_SANDBOX:
        sandbox_form(&f);
        break;
    case BERTH_DRIVER_PLUGIN:
        plugin_form(&f);
        break;
    }
    int rc = berth_issues_check(issues, err);
    if (rc == BERTH_OK && use == BERTH_CONFIG_PERSIST)
        rc = persist(registry, driver, &f, err);
    if (rc < 0)
        berth_json_free(f.out);
    else
        *out = f.out;
    return rc;
}

int berth_config_driver(const char *name, enum berth_environment_driver *out,
                        struct berth_error *err)
{
    int driver = berth_enum_find(&berth_environment_drivers, name);
    if (driver < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "Unsupported environment driver \"%s\".",
                          name);
    *out = (enum berth_environment_driver)driver;
    return BERTH_OK;
}

bool berth_config_has_keys(enum berth_environment_driver driver,
                           const struct berth_json *normalised)
{
    return driver != BERTH_DRIVER_SSH ||
           berth_json_is(berth_json_get(normalised, "privateKeySecretRef"), BERTH_JSON_OBJECT);
}

int berth_config_fingerprint(struct berth_arena *arena, enum berth_environment_driver driver,
                             const char *canonical_config, const char **out,
                             struct berth_error *err)
{
    const char *text = berth_arena_printf(arena, "%s\n%s", berth_environment_drivers.names[driver],
                                          canonical_config);
    char hex[BERTH_SHA256_HEX_SIZE];
    if (!text)
        return berth_arena_check(arena, err);
    int rc = berth_sha256_hex(text, strlen(text), hex, err);
    if (rc < 0)
        return rc;
    *out = berth_arena_strdup(arena, hex);
    return berth_arena_check(arena, err);
}
