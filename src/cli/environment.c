/* SPDX-License-Identifier: Apache-2.0
 * src/cli/environment.c - berth env ... */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/cli.h"

/* The options create and update share. */
struct form {
    const char *name, *description, *driver, *status, *config, *metadata;
    struct berth_list set; /* of KEY=VALUE */
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

static int show(struct cli *cli, const struct berth_environment *e)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->quiet)
        berth_buf_puts(&buf, e->id);
    else if (cli->json)
        berth_environment_json(&w, e);
    else
        berth_buf_printf(&buf,
                         "id           %s\nname         %s\ndescription  %s\ndriver       %s\n"
                         "status       %s%s\nconfig       %s\ncreated      %s\nupdated      %s",
                         e->id, e->name, e->description ? e->description : "-",
                         berth_environment_drivers.names[e->driver],
                         berth_environment_statuses.names[e->status],
                         e->deleting ? " (being deleted)" : "", e->config_json,
                         cli_when(cli, e->created_at_ms), cli_when(cli, e->updated_at_ms));
    return cli_print(cli, &buf);
}

static const char *choices(struct cli *cli, const struct berth_enum *type)
{
    const char *all = type->names[0];
    for (int i = 1; type->names[i] && all; i++)
        all = berth_arena_printf(&cli->arena, "%s, %s", all, type->names[i]);
    return all ? all : "";
}

static int bad_choice(struct cli *cli, const char *option, const char *given,
                      const struct berth_enum *type)
{
    return cli_usage(cli, "--%s \"%s\" is none of: %s", option, given, choices(cli, type));
}

/* key=value; a value that is JSON counts as such, anything else is text. */
static int set_pair(struct cli *cli, struct form *form, const char *pair)
{
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair)
        return cli_usage(cli, "--set wants KEY=VALUE");
    const char *key = berth_arena_copy(&cli->arena, pair, (size_t)(equals - pair));
    struct berth_json *value = NULL;
    struct berth_error ignored;
    if (berth_json_parse(equals + 1, strlen(equals + 1), BERTH_JSON_OURS, &value, &ignored) < 0)
        value = berth_json_new_str(equals + 1);
    if (!form->config_json)
        form->config_json = berth_json_new_object();
    if (!key || !form->config_json || !berth_json_set(form->config_json, key, value)) {
        (void)berth_fail(&cli->err, BERTH_E_INVALID, "--set %.200s cannot be taken: is it UTF-8?",
                         pair);
        return cli_fail(cli);
    }
    return CLI_OK;
}

/* Fills the input from the form; CLI_OK, or what to exit with. */
static int fill(struct cli *cli, struct form *form, struct berth_environment_input *input)
{
    if (form->driver) {
        if (berth_config_driver(form->driver, &input->driver, &cli->err) < 0)
            return cli_usage(cli, "%s It is one of: %s", cli->err.message,
                             choices(cli, &berth_environment_drivers));
        input->fields |= BERTH_FIELD_DRIVER;
    }
    if (form->status) {
        int status = berth_enum_find(&berth_environment_statuses, form->status);
        if (status < 0)
            return bad_choice(cli, "status", form->status, &berth_environment_statuses);
        input->status = (enum berth_environment_status)status;
        input->fields |= BERTH_FIELD_STATUS;
    }
    if (form->config && cli_read_object(cli, form->config, &form->config_json) < 0)
        return cli_fail(cli);
    if (form->metadata && cli_read_object(cli, form->metadata, &form->metadata_json) < 0)
        return cli_fail(cli);
    for (int i = 0; i < form->set.count; i++) {
        int status = set_pair(cli, form, form->set.items[i]);
        if (status != CLI_OK)
            return status;
    }
    form->config_text = form->config_json ? berth_json_canonical(form->config_json) : NULL;
    form->metadata_text = form->metadata_json ? berth_json_canonical(form->metadata_json) : NULL;
    input->config_json = form->config_text;
    input->metadata_json = form->metadata_text;
    input->name = form->name;
    input->description = form->description;
    input->fields |= (form->config_json ? BERTH_FIELD_CONFIG : 0u) |
                     (form->metadata_json ? BERTH_FIELD_METADATA : 0u) |
                     (form->name ? BERTH_FIELD_NAME : 0u) |
                     (form->description ? BERTH_FIELD_DESCRIPTION : 0u);
    input->actor = &cli->actor;
    return CLI_OK;
}

#define FORM_OPTIONS(form)                                                                         \
    {"description", &(form).description}, {"driver", &(form).driver}, {"status", &(form).status},  \
        {"config", &(form).config}, {"metadata", &(form).metadata},                                \
    {                                                                                              \
        "set", .texts = &(form).set                                                                \
    }

static int create(struct cli *cli, int argc, char **argv)
{
    struct form form __attribute__((cleanup(form_clear))) = {.driver = "local"};
    const struct cli_option options[] = {FORM_OPTIONS(form), {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    form.name = argv[0];
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    int status = fill(cli, &form, &input);
    if (status == CLI_OK)
        status = cli_open(cli);
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
    int status = fill(cli, &form, &input);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_environment *e;
    if (cli_find_environment(cli, argv[0], &e) < 0 ||
        berth_environment_update(cli->b, &cli->arena, e->id, &input, &cli->issues, &e, &cli->err) <
            0)
        return cli_fail(cli);
    return show(cli, e);
}

/* Opens the runtime and finds the one environment that is named. */
static int open_one(struct cli *cli, int argc, char **argv, const struct cli_option *options,
                    struct berth_environment **out)
{
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    int status = cli_open(cli);
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
    } else {
        berth_buf_printf(&buf, "%s: %s", result.ok ? "ok" : "failed", result.summary);
    }
    status = cli_print(cli, &buf);
    return status == CLI_OK && !result.ok ? CLI_FAILED : status;
}

static int print_json_list(struct cli *cli, const struct berth_list *list)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '[');
    for (int i = 0; i < list->count; i++)
        berth_environment_json(&w, list->items[i]);
    berth_json_close(&w, ']');
    return cli_print(cli, &buf);
}

static int print_table(struct cli *cli, const struct berth_list *list)
{
    static const char *const heading[] = {"ID", "NAME", "DRIVER", "STATUS", "UPDATED"};
    struct berth_list rows = {0};
    for (int i = 0; i < list->count; i++) {
        const struct berth_environment *e = list->items[i];
        const char **row = berth_arena_alloc(&cli->arena, sizeof heading);
        if (!row || !berth_list_add(&rows, &cli->arena, row))
            break;
        row[0] = e->id;
        row[1] = e->name;
        row[2] = berth_environment_drivers.names[e->driver];
        row[3] = berth_environment_statuses.names[e->status];
        row[4] = cli_when(cli, e->updated_at_ms);
    }
    if (berth_arena_check(&cli->arena, &cli->err) < 0)
        return cli_fail(cli);
    return cli_table(cli, heading, cli->quiet ? 1 : 5, &rows);
}

static int list(struct cli *cli, int argc, char **argv)
{
    const char *driver = NULL, *status = NULL;
    const struct cli_option options[] = {{"driver", &driver}, {"status", &status}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    if (driver && (filter.driver = berth_enum_find(&berth_environment_drivers, driver)) < 0)
        return bad_choice(cli, "driver", driver, &berth_environment_drivers);
    if (status && (filter.status = berth_enum_find(&berth_environment_statuses, status)) < 0)
        return bad_choice(cli, "status", status, &berth_environment_statuses);
    int exit_status = cli_open(cli);
    if (exit_status != CLI_OK)
        return exit_status;
    struct berth_list found;
    if (berth_environment_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli->json ? print_json_list(cli, &found) : print_table(cli, &found);
}

const struct cli_command cli_environment_commands[] = {
    {"env", "create",
     "NAME [--driver local|ssh|sandbox|plugin] [--config FILE|-] [--set KEY=VALUE]..."
     " [--description TEXT] [--metadata FILE|-] [--status active|archived]",
     "make an environment; local is this machine itself, and no sandbox", create},
    {"env", "list", "[--driver DRIVER] [--status STATUS]", "the environments", list},
    {"env", "show", "NAME|ID", "one environment", show_one},
    {"env", "update",
     "NAME|ID [--name TEXT] [--driver DRIVER] [--config FILE|-] [--set KEY=VALUE]..."
     " [--description TEXT] [--metadata FILE|-] [--status active|archived]",
     "change an environment; open leases keep what they have", update},
    {"env", "delete", "NAME|ID [--drain]",
     "delete an environment; --drain gives its open leases back first", delete},
    {"env", "probe", "NAME|ID", "touch the real place and leave nothing behind", probe},
    {0},
};
