/* SPDX-License-Identifier: Apache-2.0
 * src/cli/environment.c - berth env ... */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "core/config.h"
#include "core/reference.h"

/* The options create and update share. */
struct form {
    const char *name, *description, *driver, *provider, *status, *config, *metadata;
    struct berth_list set, set_file; /* of KEY=VALUE and KEY=FILE */
    struct berth_json *config_json, *metadata_json;
    char *config_text, *metadata_text; /* of these, for the library */
};

static void form_clear(struct form *form)
{
    berth_json_free(form->config_json);
    berth_json_free(form->metadata_json);
    if (form->config_text) /* it may hold a pasted secret */
        explicit_bzero(form->config_text, strlen(form->config_text));
    free(form->config_text);
    free(form->metadata_text);
}

static void json(struct berth_json_writer *w, const void *item)
{
    berth_environment_json(w, item);
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_environment *e = item;
    cli_field(cli, buf, "id", e->id);
    cli_field(cli, buf, "name", e->name);
    cli_field(cli, buf, "description", e->description ? e->description : "-");
    cli_field(cli, buf, "driver", berth_environment_drivers.names[e->driver]);
    cli_field_status(cli, buf, "status",
                     e->deleting ? "archived (being deleted)"
                                 : berth_environment_statuses.names[e->status]);
    cli_field(cli, buf, "config", e->config_json);
    cli_field(cli, buf, "metadata", e->metadata_json);
    cli_field(cli, buf, "created", cli_when(cli, e->created_at_ms));
    cli_field(cli, buf, "updated", cli_when(cli, e->updated_at_ms));
}

static int show(struct cli *cli, const struct berth_environment *e)
{
    return cli_print_one(cli, e->id, e, json, people);
}

/* --- the config --- */

/* Would this field better not be seen by everybody who can list processes? */
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

/* Sets what "a.b" names, making the objects on the way. `value` is taken over. */
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

/* "KEY=REST": the key, and where the rest begins; NULL after the usage error has been told. */
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

/* A value that is JSON counts as such, anything else is text. */
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

/* What the schema of a provider requires. */
static int ask_by_schema(struct cli *cli, struct form *form, const char *text)
{
    auto_json *schema = NULL;
    if (berth_json_parse(text, strlen(text), BERTH_JSON_OURS, &schema, &cli->err) < 0)
        return cli_fail(cli);
    const struct berth_json *required = berth_json_get(schema, "required");
    int status = CLI_OK;
    for (size_t i = 0; status == CLI_OK && i < berth_json_count(required); i++) {
        const char *key = berth_json_str(berth_json_at(required, i));
        const struct berth_json *property =
            key ? berth_json_get(berth_json_get(schema, "properties"), key) : NULL;
        const char *title = berth_json_str(berth_json_get(property, "title"));
        const char *format = berth_json_str(berth_json_get(property, "format"));
        if (key)
            status = ask_field(cli, form, key, title ? title : key,
                               format && strcmp(format, "secret-ref") == 0);
    }
    return status;
}

static int ask_missing(struct cli *cli, struct form *form, enum berth_environment_driver driver)
{
    static const struct {
        enum berth_environment_driver driver;
        const char *key, *label;
    } fields[] = {{BERTH_DRIVER_SSH, "host", "Host"},
                  {BERTH_DRIVER_SSH, "username", "User name there"},
                  {BERTH_DRIVER_SSH, "remoteWorkspacePath", "Workspace directory there"},
                  {BERTH_DRIVER_SANDBOX, "provider", "Provider"},
                  {BERTH_DRIVER_PLUGIN, "pluginKey", "Plugin"},
                  {BERTH_DRIVER_PLUGIN, "driverKey", "Driver of the plugin"}};
    int status = CLI_OK;
    if (!cli_can_ask())
        return status;
    for (size_t i = 0; status == CLI_OK && i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].driver == driver)
            status = ask_field(cli, form, fields[i].key, fields[i].label, false);
    const char *provider = berth_json_str(berth_json_get(form->config_json, "provider"));
    const struct berth_route *route =
        provider ? berth_registry_find(cli->b->registry, "sandbox", provider) : NULL;
    const char *schema = route ? berth_route_schema(route) : NULL;
    return status == CLI_OK && schema ? ask_by_schema(cli, form, schema) : status;
}

/* --- create and update --- */

/* Reads what the options say; CLI_OK, or what to exit with. */
static int read_form(struct cli *cli, struct form *form, struct berth_environment_input *input)
{
    int status = CLI_OK, chosen = 0;
    if (form->driver && berth_config_driver(form->driver, &input->driver, &cli->err) < 0)
        return cli_usage(cli, "%s It is one of: %s", cli->err.message,
                         cli_choices(cli, &berth_environment_drivers));
    if (cli_choice(cli, "status", form->status, &berth_environment_statuses, &chosen) != CLI_OK)
        return CLI_USAGE;
    input->status = (enum berth_environment_status)chosen;
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

static int fill(struct cli *cli, struct form *form, struct berth_environment_input *input)
{
    if (form->config_json && !(form->config_text = berth_json_canonical(form->config_json)))
        cli->arena.failed = true;
    if (form->metadata_json && !(form->metadata_text = berth_json_canonical(form->metadata_json)))
        cli->arena.failed = true;
    input->config_json = form->config_text;
    input->metadata_json = form->metadata_text;
    input->name = form->name;
    input->description = form->description;
    input->fields |=
        (form->config_json ? BERTH_FIELD_CONFIG : 0u) |
        (form->metadata_json ? BERTH_FIELD_METADATA : 0u) | (form->name ? BERTH_FIELD_NAME : 0u) |
        (form->description ? BERTH_FIELD_DESCRIPTION : 0u) |
        (form->driver ? BERTH_FIELD_DRIVER : 0u) | (form->status ? BERTH_FIELD_STATUS : 0u);
    input->company_id = cli->company_id;
    input->actor = &cli->actor;
    return berth_arena_check(&cli->arena, &cli->err) < 0 ? cli_fail(cli) : CLI_OK;
}

#define FORM_OPTIONS(form)                                                                         \
    {"description", &(form).description}, {"driver", &(form).driver},                              \
        {"provider", &(form).provider}, {"status", &(form).status}, {"config", &(form).config},    \
        {"metadata", &(form).metadata}, {"set", .texts = &(form).set},                             \
    {                                                                                              \
        "set-file", .texts = &(form).set_file                                                      \
    }

static int create(struct cli *cli, int argc, char **argv)
{
    struct form form __attribute__((cleanup(form_clear))) = {0};
    const struct cli_option options[] = {FORM_OPTIONS(form), {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    form.name = argv[0];
    if (!form.driver)
        form.driver = form.provider ? "sandbox" : "local";
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    int status = read_form(cli, &form, &input);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status == CLI_OK)
        status = ask_missing(cli, &form, input.driver);
    if (status == CLI_OK)
        status = fill(cli, &form, &input);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e;
    if (berth_environment_create(cli->b, &cli->arena, &input, &cli->issues, &e, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, e);
}

static int update(struct cli *cli, int argc, char **argv)
{
    struct form form __attribute__((cleanup(form_clear))) = {0};
    const struct cli_option options[] = {FORM_OPTIONS(form), {"name", &form.name}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    int status = read_form(cli, &form, &input);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status == CLI_OK)
        status = fill(cli, &form, &input);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e;
    if (cli_find_environment(cli, argv[0], &e) < 0 ||
        berth_environment_update(cli->b, &cli->arena, e->id, &input, &cli->issues, &e, &cli->err) <
            0)
        return cli_fail(cli);
    return show(cli, e);
}

/* --- one environment --- */

/* Opens the runtime and finds the one environment that is named. */
static int open_one(struct cli *cli, int argc, char **argv, const struct cli_option *options,
                    struct berth_environment **out)
{
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status == CLI_OK && cli_find_environment(cli, argv[0], out) < 0)
        status = cli_fail(cli);
    return status;
}

static int show_one(struct cli *cli, int argc, char **argv)
{
    struct berth_environment *e;
    int status = open_one(cli, argc, argv, NULL, &e);
    return status == CLI_OK ? show(cli, e) : status;
}

static int archive(struct cli *cli, int argc, char **argv)
{
    struct berth_environment *e;
    int status = open_one(cli, argc, argv, NULL, &e);
    if (status != CLI_OK)
        return status;
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    input.fields = BERTH_FIELD_STATUS;
    input.status = BERTH_ENVIRONMENT_ARCHIVED;
    input.actor = &cli->actor;
    if (berth_environment_update(cli->b, &cli->arena, e->id, &input, &cli->issues, &e, &cli->err) <
        0)
        return cli_fail(cli);
    return show(cli, e);
}

static int delete (struct cli *cli, int argc, char **argv)
{
    bool drain = false;
    const struct cli_option options[] = {{"drain", .flag = &drain}, {0}};
    struct berth_environment *e;
    int status = open_one(cli, argc, argv, options, &e);
    if (status != CLI_OK)
        return status;
    if (berth_environment_delete(cli->b, &cli->arena, e->id, drain, &cli->actor, &e, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, e);
}

static int probe(struct cli *cli, int argc, char **argv)
{
    struct berth_environment *e;
    struct berth_probe result;
    int status = open_one(cli, argc, argv, NULL, &e);
    if (status != CLI_OK)
        return status;
    if (berth_environment_probe(cli->b, &cli->arena, e->id, &cli->actor, &result, &cli->err) < 0)
        return cli_fail(cli);
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->json) {
        berth_json_open(&w, '{');
        berth_json_put_bool(&w, "ok", result.ok);
        berth_json_put_str(&w, "driver", berth_environment_drivers.names[e->driver]);
        berth_json_put_str(&w, "summary", result.summary);
        berth_json_put_raw(&w, "details", result.details_json);
        berth_json_close(&w, '}');
    } else if (cli->quiet) {
        berth_buf_puts(&buf, e->id);
    } else {
        berth_buf_printf(&buf, "%s: %s", result.ok ? "ok" : "failed",
                         cli_clean(cli, result.summary));
    }
    status = cli_print(cli, &buf);
    return status == CLI_OK && !result.ok ? CLI_FAILED : status;
}

/* --- all of them --- */

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_environment *e = item;
    cells[0] = e->id;
    cells[1] = e->name;
    cells[2] = berth_environment_drivers.names[e->driver];
    cells[3] = berth_environment_statuses.names[e->status];
    cells[4] = cli_when(cli, e->updated_at_ms);
}

static int list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_column columns[] = {
        {"ID", CLI_ID}, {"NAME", 0}, {"DRIVER", 0}, {"STATUS", CLI_STATUS}, {"UPDATED", 0}, {0}};
    static const struct cli_view view = {columns, row, json};
    const char *driver = NULL, *as = NULL;
    const struct cli_option options[] = {{"driver", &driver}, {"status", &as}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    if (cli_choice(cli, "driver", driver, &berth_environment_drivers, &filter.driver) != CLI_OK ||
        cli_choice(cli, "status", as, &berth_environment_statuses, &filter.status) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    filter.company_id = cli->company_id;
    if (berth_environment_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

#define FORM_USAGE                                                                                 \
    " [--driver local|ssh|sandbox|plugin] [--provider KEY] [--set KEY=VALUE]..."                   \
    " [--set-file KEY=FILE|-]... [--config FILE|-] [--description TEXT] [--metadata FILE|-]"       \
    " [--status active|archived]"

const struct cli_command cli_environment_commands[] = {
    {"env", "create", "NAME" FORM_USAGE,
     "make an environment; local is this machine itself, and no sandbox", create},
    {"env", "list", "[--driver local|ssh|sandbox|plugin] [--status active|archived]",
     "the environments", list},
    {"env", "show", "NAME|ID", "one environment", show_one},
    {"env", "update", "NAME|ID [--name TEXT]" FORM_USAGE,
     "change an environment; open leases keep what they have", update},
    {"env", "archive", "NAME|ID", "let nobody take a new lease", archive},
    {"env", "delete", "NAME|ID [--drain]",
     "delete an environment; --drain gives its open leases back first", delete},
    {"env", "probe", "NAME|ID", "touch the real place and leave nothing behind", probe},
    {0},
};
