/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/config.c - see config.h. Users of Paperclip know these texts. */
#include "core/environment/config.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/form.h"
#include "core/berth.h"
#include "core/driver.h"
#include "crypto/hash.h"

#define TIMEOUT_MS_MAX 86400000

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

static void provider_form(struct berth_form *f, const char *provider)
{
    berth_form_copy(f);
    berth_form_put(f, "provider", berth_json_new_str(provider));
    if (!*provider)
        berth_issues_add(f->issues, "provider", "Sandbox provider is required.");
    else if (!key_shape(provider))
        berth_issues_add(f->issues, "provider",
                         "Sandbox provider key must start with a lowercase alphanumeric and "
                         "contain only lowercase letters, digits, dots, hyphens, or underscores");
    int64_t timeout_ms;
    if (berth_json_get(f->in, "timeoutMs") &&
        berth_form_integer(f, "timeoutMs", 1, TIMEOUT_MS_MAX, &timeout_ms))
        berth_form_put(f, "timeoutMs", berth_json_new_int(timeout_ms));
    berth_form_boolean(f, "reuseLease", false);
}

/* Returns the provider that the config names, or the default one. */
static const char *provider_of(struct berth_arena *arena, const struct berth_json *config)
{
    const char *provider = berth_json_str(berth_json_get(config, "provider"));
    if (!provider || !*provider)
        return berth_builtins.provider_default;
    provider = berth_form_trimmed(arena, provider);
    return provider ? provider : ""; /* the arena remembers that memory was short */
}

/* --- plugin --- */

static void plugin_form(struct berth_form *f)
{
    static const char *const known[] = {"pluginKey", "driverKey", "driverConfig", NULL};
    (void)berth_form_required_text(f, "pluginKey", "Plugin environments require a plugin key.");
    const char *driver =
        berth_form_required_text(f, "driverKey", "Plugin environments require a driver key.");
    if (driver && !key_shape(driver))
        berth_issues_add(f->issues, "driverKey",
                         "Environment driver key must start with a lowercase alphanumeric and "
                         "contain only lowercase letters, digits, dots, hyphens, or underscores");
    const struct berth_json *inner = berth_json_get(f->in, "driverConfig");
    if (inner && !berth_json_is(inner, BERTH_JSON_OBJECT))
        berth_issues_add(f->issues, "driverConfig", "driverConfig: expected object, received %s",
                         berth_form_type_name(inner));
    berth_form_put(f, "driverConfig", inner ? berth_json_copy(inner) : berth_json_new_object());
    berth_form_refuse_unknown(f, f->in, "", known);
}

/* --- what saving asks for besides --- */

/* Lets the driver check f->out, which becomes what the driver answers. */
static int ask_route(const struct berth_route *route, struct berth_form *f,
                     enum berth_config_use use, struct berth_error *err)
{
    const char *text = berth_json_text_in(f->arena, f->out); /* issues keep the order of the keys */
    if (!text)
        return berth_arena_check(f->arena, err);
    struct berth_call call = {.deadline_ms = INT64_MAX, .cancel_fd = -1, .arena = f->arena};
    const char *normalised;
    int rc = berth_driver_validate(route, &call, text, use, f->issues, &normalised, err);
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
        berth_form_put(f, "provider", kept);
    return berth_arena_check(f->arena, err);
}

static int ask_provider(const struct berth_registry *registry, struct berth_form *f,
                        struct berth_error *err)
{
    const char *provider = berth_json_str(berth_json_get(f->out, "provider"));
    const struct berth_route *route = berth_registry_find_provider(registry, provider);
    if (!route && !berth_registry_workers(registry))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Sandbox provider config validation requires a running plugin worker manager.");
    if (!route)
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Sandbox provider \"%s\" is not installed or its plugin worker is not running.",
            provider);
    int rc = berth_route_check(route, err);
    if (rc < 0)
        return rc;
    return ask_route(route, f, BERTH_CONFIG_PERSIST, err);
}

static int ask_plugin(const struct berth_registry *registry, struct berth_form *f,
                      struct berth_error *err)
{
    if (!berth_registry_workers(registry))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Plugin environment config validation requires a running plugin worker manager.");
    auto_free char *text = berth_json_canonical(f->out);
    const struct berth_route *route;
    int rc = text ? berth_registry_route(registry, berth_driver_word(BERTH_ROUTE_PLUGIN), text,
                                         &route, err)
                  : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    return rc < 0 ? rc : ask_route(route, f, BERTH_CONFIG_PERSIST, err);
}

/* Returns the route whose driver judges the whole config, or NULL. */
static const struct berth_route *owner_of(const struct berth_registry *registry,
                                          enum berth_environment_driver driver,
                                          struct berth_form *f)
{
    const struct berth_route *route = NULL;
    if (berth_driver_kinds[driver] == BERTH_ROUTE_BUILTIN)
        route = berth_registry_find_builtin(registry, berth_environment_drivers.names[driver]);
    else if (berth_driver_kinds[driver] == BERTH_ROUTE_PROVIDER)
        route = berth_registry_find_provider(registry, provider_of(f->arena, f->in));
    return route && berth_route_traits(route)->owns_config ? route : NULL;
}

/* Leaves the config to the driver that owns it. */
static int ask_owner(const struct berth_route *route, struct berth_form *f,
                     enum berth_config_use use, struct berth_error *err)
{
    const char *unsavable = berth_route_traits(route)->unsavable;
    berth_form_copy(f);
    if (berth_driver_kind(route->driver) == BERTH_ROUTE_PROVIDER)
        berth_form_put(f, "provider", berth_json_new_str(route->provider));
    int rc = ask_route(route, f, use, err);
    if (rc == BERTH_OK && use == BERTH_CONFIG_PERSIST && unsavable)
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE, "%s", unsavable);
    return rc;
}

/* Checks the keys that the API itself knows, then asks the provider or plugin. */
static int ask_outside(const struct berth_registry *registry, enum berth_environment_driver driver,
                       struct berth_form *f, enum berth_config_use use, struct berth_error *err)
{
    enum berth_route_kind kind = berth_driver_kinds[driver];
    if (kind == BERTH_ROUTE_PROVIDER)
        provider_form(f, provider_of(f->arena, f->in));
    else if (kind == BERTH_ROUTE_PLUGIN)
        plugin_form(f);
    else if (use != BERTH_CONFIG_SCHEMA)
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Environment driver \"%s\" is not registered in the environment runtime yet.",
            berth_environment_drivers.names[driver]);
    else
        berth_form_copy(f);
    int rc = berth_issues_check(f->issues, err);
    if (rc < 0 || use != BERTH_CONFIG_PERSIST || kind == BERTH_ROUTE_BUILTIN)
        return rc;
    return kind == BERTH_ROUTE_PROVIDER ? ask_provider(registry, f, err)
                                        : ask_plugin(registry, f, err);
}

int berth_config_normalise(const struct berth_registry *registry,
                           enum berth_environment_driver driver, const struct berth_json *config,
                           enum berth_config_use use, struct berth_issues *issues,
                           struct berth_json **out, struct berth_error *err)
{
    auto_json *empty = berth_json_new_object();
    struct berth_form f = {.in = berth_json_is(config, BERTH_JSON_OBJECT) ? config : empty,
                           .out = berth_json_new_object(),
                           .issues = issues,
                           .arena = issues->arena};
    if (!f.in || !f.out) {
        berth_json_free(f.out);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: config.");
    }
    const struct berth_route *owner = owner_of(registry, driver, &f);
    int rc = berth_arena_check(f.arena, err);
    if (rc == BERTH_OK)
        rc = owner ? ask_owner(owner, &f, use, err) : ask_outside(registry, driver, &f, use, err);
    if (rc < 0)
        berth_json_free(f.out);
    else
        *out = f.out;
    return rc;
}

const char *berth_config_schema(const struct berth_registry *registry,
                                enum berth_environment_driver driver)
{
    const char *word = berth_environment_drivers.names[driver];
    const struct berth_route *route = berth_registry_find_builtin(registry, word);
    switch (berth_driver_kinds[driver]) {
    case BERTH_ROUTE_PROVIDER:
        return "{\"required\":[\"provider\"],\"properties\":{\"provider\":{\"title\":\"Provider\"}}"
               "}";
    case BERTH_ROUTE_PLUGIN:
        return "{\"required\":[\"pluginKey\",\"driverKey\"],\"properties\":{"
               "\"pluginKey\":{\"title\":\"Plugin\"},"
               "\"driverKey\":{\"title\":\"Driver of the plugin\"}}}";
    case BERTH_ROUTE_BUILTIN:
        break;
    }
    return route ? berth_route_traits(route)->config_schema : NULL;
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

const char *berth_config_refusal(const struct berth_registry *registry, const char *driver,
                                 const struct berth_json *normalised)
{
    const struct berth_route *route = berth_registry_find_by(registry, driver, normalised);
    const struct berth_driver_secret *secret = route ? berth_route_traits(route)->secret : NULL;
    if (!secret || berth_json_is(berth_json_get(normalised, secret->ref_key), BERTH_JSON_OBJECT))
        return NULL;
    return secret->refusal;
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
