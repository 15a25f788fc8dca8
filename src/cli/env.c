/* SPDX-License-Identifier: Apache-2.0
 * src/cli/env.c - berth env: creates, lists, changes and probes environments. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/prompt.h"
#include "cli/table.h"
#include "core/environment/config.h"
#include "core/environment/environment.h"

/* The options that create and update share. */
struct form {
    const char *name, *description, *driver, *provider, *status, *config, *metadata;
    struct berth_list set, set_file; /* of KEY=VALUE and KEY=FILE */
    struct berth_json *config_json, *metadata_json;
};

static void form_clear(struct form *form)
{
    berth_json_free(form->config_json);
    berth_json_free(form->metadata_json);
}

static const char *env_status_text(struct cli *cli, const struct berth_json *environment)
{
    (void)cli;
    return berth_json_true(berth_json_get(environment, "deleting"))
               ? "archived (being deleted)"
               : cli_text(environment, "status");
}

static int env_print(struct cli *cli, const struct cli_answer *environment)
{
    static const struct cli_cell lines[] = {{"id", "id"},
                                            {"name", "name"},
                                            {"description", "description", .otherwise = "-"},
                                            {"driver", "driver"},
                                            {"status", NULL, CLI_STATUS, .text = env_status_text},
                                            {"config", "config"},
                                            {"metadata", "metadata"},
                                            {"created", "createdAt", CLI_WHEN, "-"},
                                            {"updated", "updatedAt", CLI_WHEN, "-"},
                                            {0}};
    return cli_print_one(cli, environment, cli_text(environment->json, "id"), lines);
}

/* --- the config --- */

/* Says whether the field holds a secret, which others would see in the list of processes. */
static bool looks_secret(const char *key)
{
    static const char *const words[] = {"apikey",   "token",      "secret",     "passwd",
                                        "password", "credential", "privatekey", "authorization"};
    char plain[128];
    size_t len = strlen(key);
    if (strstr(key, "Ref.") || (len >= 3 && strcmp(key + len - 3, "Ref") == 0))
        return false; /* a reference holds an id */
    len = 0;
    for (; *key && len < sizeof plain - 1; key++)
        if (isalnum((unsigned char)*key))
            plain[len++] = (char)tolower((unsigned char)*key);
    plain[len] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(plain, words[i]))
            return true;
    return false;
}

/* Sets the member "a.b" and creates the objects on its path. Takes over `value`. */
static bool set_at(struct berth_json *object, const char *path, struct berth_json *value)
{
    const char *dot = strchr(path, '.');
    if (!dot)
        return berth_json_set(object, path, value);
    auto_free char *key = strndup(path, (size_t)(dot - path));
    struct berth_json *inner = key ? berth_json_get_mutable(object, key) : NULL;
    if (key && !berth_json_is(inner, BERTH_JSON_OBJECT) &&
        berth_json_set(object, key, berth_json_new_object()))
        inner = berth_json_get_mutable(object, key);
    if (inner)
        return set_at(inner, dot + 1, value);
    berth_json_free(value);
    return false;
}

static int set_value(struct cli *cli, struct form *form, const char *key, struct berth_json *value)
{
    if (!form->config_json)
        form->config_json = berth_json_new_object();
    if (form->config_json && set_at(form->config_json, key, value))
        return CLI_OK;
    (void)berth_fail(&cli->err, BERTH_E_INVALID, "%.200s cannot be set to that: is it UTF-8?", key);
    return cli_fail(cli);
}

/* Splits "KEY=REST". Returns the key, or NULL after the usage error has been printed. */
static const char *split_pair(struct cli *cli, const char *option, const char *pair,
                              const char **rest)
{
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair) {
        (void)cli_usage(cli, "--%s wants KEY=%s", option,
                        strcmp(option, "set") == 0 ? "VALUE" : "FILE");
        return NULL;
    }
    *rest = equals + 1;
    return berth_arena_copy(&cli->arena, pair, (size_t)(equals - pair));
}

/* Sets a value: JSON if it parses as such, else text. */
static int set_pair(struct cli *cli, struct form *form, const char *pair)
{
    const char *text, *key = split_pair(cli, "set", pair, &text);
    if (!key)
        return CLI_USAGE;
    if (looks_secret(key) && *text && !berth_id_valid(text))
        return cli_usage(cli,
                         "--set %s=... would show the value to everybody on this machine: write "
                         "--set-file %s=FILE (or -), or give the id of a secret",
                         key, key);
    struct berth_json *value = NULL;
    struct berth_error ignored;
    if (berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &value, &ignored) < 0)
        value = berth_json_new_str(text);
    return set_value(cli, form, key, value);
}

static int set_file(struct cli *cli, struct form *form, const char *pair)
{
    const char *path, *key = split_pair(cli, "set-file", pair, &path);
    if (!key)
        return CLI_USAGE;
    auto_locked value = BERTH_LOCKED_INIT;
    if (cli_read_secret(cli, path, key, &value) == BERTH_OK && strlen(value.bytes) != value.len)
        (void)berth_fail(&cli->err, BERTH_E_INVALID,
                         "%s cannot hold a NUL: a config is text. Store the value with \"berth "
                         "secret create\", and set the id.",
                         key);
    if (!value.bytes || strlen(value.bytes) != value.len)
        return cli_fail(cli);
    return set_value(cli, form, key, berth_json_new_str(value.bytes));
}

/* --- asking for what is missing --- */

static int ask_field(struct cli *cli, struct form *form, const char *key, const char *label,
                     bool hidden)
{
    if (berth_json_get(form->config_json, key))
        return CLI_OK;
    auto_locked secret = BERTH_LOCKED_INIT;
    const char *text = NULL;
    int rc = hidden ? cli_ask_secret(cli, label, false, &secret) : cli_ask(cli, label, &text);
    if (rc < 0)
        return cli_fail(cli);
    return set_value(cli, form, key, berth_json_new_str(hidden ? secret.bytes : text));
}

/* Asks for the members that a schema requires and the config lacks. */
static int ask_required(struct cli *cli, struct form *form, const struct berth_json *schema)
{
    const struct berth_json *required = berth_json_get(schema, "required");
    int status = CLI_OK;
    for (size_t i = 0; status == CLI_OK && i < berth_json_count(required); i++) {
        const char *key = berth_json_str(berth_json_at(required, i));
        const struct berth_json *property =
            key ? berth_json_get(berth_json_get(schema, "properties"), key) : NULL;
        const char *title = cli_text(property, "title"), *format = cli_text(property, "format");
        if (key)
            status = ask_field(cli, form, key, title ? title : key,
                               format && strcmp(format, "secret-ref") == 0);
    }
    return status;
}

static int ask_by_schema(struct cli *cli, struct form *form, const char *provider)
{
    struct cli_answer known;
    if (cli_get(cli, &known, "/api/companies/%s/environments/capabilities", cli->company_id) < 0)
        return cli_fail(cli);
    const struct berth_json *all = berth_json_get(known.json, "sandboxProviders");
    return ask_required(cli, form, berth_json_get(berth_json_get(all, provider), "configSchema"));
}

/* Asks for the members that every config of the driver must have. */
static int ask_for_driver(struct cli *cli, struct form *form, enum berth_environment_driver driver)
{
    struct berth_registry *registry = NULL;
    auto_json *schema = NULL;
    int status = CLI_OK;
    if (berth_registry_new_builtin(&registry, &cli->err) < 0)
        return cli_fail(cli);
    const char *text = berth_config_schema(registry, driver);
    if (text && berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &schema, &cli->err) < 0)
        status = cli_fail(cli);
    berth_registry_free(registry);
    return status == CLI_OK ? ask_required(cli, form, schema) : status;
}

static int ask_missing(struct cli *cli, struct form *form, enum berth_environment_driver driver)
{
    if (!cli_can_ask())
        return CLI_OK;
    int status = ask_for_driver(cli, form, driver);
    const char *provider = cli_text(form->config_json, "provider");
    return status == CLI_OK && provider ? ask_by_schema(cli, form, provider) : status;
}

/* --- create and update --- */

/* Reads the options. Returns CLI_OK, or the exit status after the error has been printed. */
static int read_form(struct cli *cli, struct form *form, enum berth_environment_driver *driver)
{
    int status = CLI_OK, ignored = 0;
    if (form->driver && berth_config_driver(form->driver, driver, &cli->err) < 0)
        return cli_usage(cli, "%s It is one of: %s", cli->err.message,
                         cli_choices(cli, &berth_environment_drivers));
    if (cli_choice(cli, "status", form->status, &berth_environment_statuses, &ignored) != CLI_OK)
        return CLI_USAGE;
    if (form->config && cli_read_object(cli, form->config, &form->config_json) < 0)
        return cli_fail(cli);
    if (form->metadata && cli_read_object(cli, form->metadata, &form->metadata_json) < 0)
        return cli_fail(cli);
    if (form->provider)
        status = set_value(cli, form, "provider", berth_json_new_str(form->provider));
    for (int i = 0; status == CLI_OK && i < form->set.count; i++)
        status = set_pair(cli, form, form->set.items[i]);
    for (int i = 0; status == CLI_OK && i < form->set_file.count; i++)
        status = set_file(cli, form, form->set_file.items[i]);
    return status;
}

static void put_object(struct berth_json_writer *w, const char *key, const struct berth_json *value)
{
    auto_free char *text = value ? berth_json_canonical(value) : NULL;
    if (value && !text)
        w->buf->failed = true;
    if (!text)
        return;
    berth_json_put_raw(w, key, text);
    explicit_bzero(text, strlen(text)); /* it may hold a pasted secret */
}

static int env_send(struct cli *cli, const struct form *form, const char *method,
                    const char *target)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer environment;
    body.secret = true;
    berth_json_open(&w, '{');
    cli_put(cli, &w, "name", form->name);
    cli_put(cli, &w, "description", form->description);
    cli_put(cli, &w, "driver", form->driver);
    cli_put(cli, &w, "status", form->status);
    put_object(&w, "config", form->config_json);
    put_object(&w, "metadata", form->metadata_json);
    berth_json_close(&w, '}');
    return cli_call(cli, &environment, method, &body, "%s", target) < 0
               ? cli_fail(cli)
               : env_print(cli, &environment);
}

#define FORM_OPTIONS(form)                                                                         \
    {"description", &(form).description}, {"driver", &(form).driver},                              \
        {"provider", &(form).provider}, {"status", &(form).status}, {"config", &(form).config},    \
        {"metadata", &(form).metadata}, {"set", .texts = &(form).set},                             \
    {                                                                                              \
        "set-file", .texts = &(form).set_file                                                      \
    }

static int env_create(struct cli *cli, int argc, char **argv)
{
    struct form form __attribute__((cleanup(form_clear))) = {0};
    const struct cli_option options[] = {FORM_OPTIONS(form), {0}};
    enum berth_environment_driver driver;
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    form.name = argv[0];
    if (!form.driver)
        form.driver = form.provider ? berth_driver_word(BERTH_ROUTE_PROVIDER)
                                    : berth_environment_drivers.names[BERTH_DRIVER_DEFAULT];
    int status = read_form(cli, &form, &driver);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status == CLI_OK)
        status = ask_missing(cli, &form, driver);
    if (status != CLI_OK)
        return status;
    const char *target =
        berth_arena_printf(&cli->arena, "/api/companies/%s/environments", cli->company_id);
    return target ? env_send(cli, &form, "POST", target) : cli_fail(cli);
}

static const char *env_target(struct cli *cli, const struct berth_json *environment)
{
    const char *target =
        berth_arena_printf(&cli->arena, "/api/environments/%s", cli_text(environment, "id"));
    return target ? target : "";
}

static int env_update(struct cli *cli, int argc, char **argv)
{
    struct form form __attribute__((cleanup(form_clear))) = {0};
    const struct cli_option options[] = {FORM_OPTIONS(form), {"name", &form.name}, {0}};
    enum berth_environment_driver ignored;
    const struct berth_json *e;
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    int status = read_form(cli, &form, &ignored);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_find_environment(cli, argv[0], &e) < 0)
        return cli_fail(cli);
    return env_send(cli, &form, "PATCH", env_target(cli, e));
}

/* --- one environment --- */

/* Connects, and finds the environment that argv[0] names. */
static int env_open(struct cli *cli, int argc, char **argv, const struct cli_option *options,
                    const struct berth_json **out)
{
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status == CLI_OK && cli_find_environment(cli, argv[0], out) < 0)
        status = cli_fail(cli);
    return status;
}

static int env_show(struct cli *cli, int argc, char **argv)
{
    struct cli_answer e;
    int status = env_open(cli, argc, argv, NULL, &e.json);
    if (status != CLI_OK)
        return status;
    e.text = berth_json_text_in(&cli->arena, e.json);
    return e.text ? env_print(cli, &e) : cli_fail(cli);
}

static int env_archive(struct cli *cli, int argc, char **argv)
{
    static const struct form form = {.status = "archived"};
    const struct berth_json *e;
    int status = env_open(cli, argc, argv, NULL, &e);
    return status == CLI_OK ? env_send(cli, &form, "PATCH", env_target(cli, e)) : status;
}

static int env_delete(struct cli *cli, int argc, char **argv)
{
    bool drain = false;
    const struct cli_option options[] = {{"drain", .flag = &drain}, {0}};
    const struct berth_json *e;
    struct cli_answer gone;
    int status = env_open(cli, argc, argv, options, &e);
    if (status != CLI_OK)
        return status;
    return cli_call(cli, &gone, "DELETE", NULL, "%s%s", env_target(cli, e),
                    drain ? "?drain=true" : "") < 0
               ? cli_fail(cli)
               : env_print(cli, &gone);
}

static int env_probe(struct cli *cli, int argc, char **argv)
{
    const struct berth_json *e;
    struct cli_answer found;
    int status = env_open(cli, argc, argv, NULL, &e);
    if (status != CLI_OK)
        return status;
    if (cli_call(cli, &found, "POST", NULL, "%s/probe", env_target(cli, e)) < 0)
        return cli_fail(cli);
    bool ok = berth_json_true(berth_json_get(found.json, "ok"));
    const char *summary = cli_text(found.json, "summary");
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    if (cli->json || cli->quiet)
        berth_buf_puts(&buf, cli->json ? found.text : cli_text(e, "id"));
    else
        berth_buf_printf(&buf, "%s: %s", ok ? "ok" : "failed",
                         summary ? cli_clean(cli, summary) : "-");
    status = cli_print(cli, &buf);
    return status == CLI_OK && !ok ? CLI_FAILED : status;
}

/* --- all of them --- */

static int env_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                              {"NAME", "name"},
                                              {"DRIVER", "driver"},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"UPDATED", "updatedAt", CLI_WHEN},
                                              {0}};
    const char *driver = NULL, *as = NULL;
    const struct cli_option options[] = {{"driver", &driver}, {"status", &as}, {0}};
    struct cli_answer found;
    int ignored;
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 ||
        cli_choice(cli, "driver", driver, &berth_environment_drivers, &ignored) != CLI_OK ||
        cli_choice(cli, "status", as, &berth_environment_statuses, &ignored) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    return cli_get(cli, &found, "/api/companies/%s/environments?%s%s%s%s", cli->company_id,
                   driver ? "driver=" : "", driver ? driver : "", as ? "&status=" : "",
                   as ? as : "") < 0
               ? cli_fail(cli)
               : cli_print_list(cli, &found, columns);
}

#define FORM_USAGE                                                                                 \
    " [--driver local|ssh|sandbox|plugin] [--provider KEY] [--set KEY=VALUE]..."                   \
    " [--set-file KEY=FILE|-]... [--config FILE|-] [--description TEXT] [--metadata FILE|-]"       \
    " [--status active|archived]"

const struct cli_command cli_env_commands[] = {
    {"env", "create", "NAME" FORM_USAGE,
     "make an environment; local is this machine itself, and no sandbox", env_create},
    {"env", "list", "[--driver local|ssh|sandbox|plugin] [--status active|archived]",
     "the environments", env_list},
    {"env", "show", "NAME|ID", "one environment", env_show},
    {"env", "update", "NAME|ID [--name TEXT]" FORM_USAGE,
     "change an environment; open leases keep what they have", env_update},
    {"env", "archive", "NAME|ID", "refuse new leases; open ones go on", env_archive},
    {"env", "delete", "NAME|ID [--drain]",
     "delete an environment; --drain gives its open leases back first", env_delete},
    {"env", "probe", "NAME|ID", "touch the real place and leave nothing behind", env_probe},
    {0},
};
