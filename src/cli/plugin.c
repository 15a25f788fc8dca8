/* SPDX-License-Identifier: Apache-2.0
 * src/cli/plugin.c - berth plugin: installs, configures, lists and removes plugins. */
#include "core/plugin/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/table.h"

#define LOG_BYTES_MAX (16 * 1024 * 1024)

static const char *drivers_of(struct cli *cli, const struct berth_json *plugin)
{
    const struct berth_json *drivers =
        berth_json_get(berth_json_get(plugin, "manifestJson"), "environmentDrivers");
    const char *all = NULL;
    for (size_t i = 0; i < berth_json_count(drivers); i++)
        if (cli_text(berth_json_at(drivers, i), "driverKey"))
            all = berth_arena_printf(&cli->arena, "%s%s%s", all ? all : "", all ? ", " : "",
                                     cli_text(berth_json_at(drivers, i), "driverKey"));
    return all;
}

static const char *config_of(struct cli *cli, const struct berth_json *plugin)
{
    const struct berth_json *config = berth_json_get(plugin, "configJson");
    return berth_json_count(config) ? berth_json_canonical_in(&cli->arena, config) : NULL;
}

/* Returns the variables that the operator lets the worker have: "A=value, B", where the value of B
 * is that of the process which starts the worker. */
static const char *variables_of(struct cli *cli, const struct berth_json *plugin)
{
    const char *all = NULL;
    berth_json_each (berth_json_get(berth_json_get(plugin, "settings"), "env"), iter) {
        const char *value = berth_json_str(berth_json_iter_value(iter));
        all = berth_arena_printf(&cli->arena, "%s%s%s%s%s", all ? all : "", all ? ", " : "",
                                 berth_json_iter_key(iter), value ? "=" : "", value ? value : "");
    }
    return all;
}

/* Returns the Unix sockets that the worker may use: "own, /path"; NULL: none. */
static const char *sockets_of(struct cli *cli, const struct berth_json *plugin)
{
    const struct berth_json *paths =
        berth_json_get(berth_json_get(plugin, "settings"), "unixSockets");
    const char *all = berth_json_is(paths, BERTH_JSON_ARRAY) ? "own" : NULL;
    for (size_t i = 0; i < berth_json_count(paths); i++)
        all = berth_arena_printf(&cli->arena, "%s, %s", all ? all : "",
                                 berth_json_str(berth_json_at(paths, i)));
    return all;
}

static const struct cli_cell lines[] = {{"id", "id"},
                                        {"plugin", "pluginKey"},
                                        {"version", "version"},
                                        {"status", "status", CLI_STATUS},
                                        {"package", "packageName"},
                                        {"path", "packagePath"},
                                        {"drivers", .text = drivers_of},
                                        {"config", .text = config_of},
                                        {"variables", .text = variables_of},
                                        {"unix sockets", .text = sockets_of},
                                        {"error", "lastError"},
                                        {"installed", "installedAt", CLI_WHEN, "-"},
                                        {0}};

static int show_answer(struct cli *cli, int rc, const struct cli_answer *plugin)
{
    return rc < 0 ? cli_fail(cli)
                  : cli_print_one(cli, plugin, cli_text(plugin->json, "pluginKey"), lines);
}

/* Writes the member "configJson" with the object in the file; `file` NULL: none. */
static int put_config(struct cli *cli, const char *file, struct berth_json_writer *w)
{
    auto_json *config = NULL;
    if (!file)
        return CLI_OK;
    if (cli_read_object(cli, file, &config) < 0)
        return cli_fail(cli);
    auto_free char *text = berth_json_canonical(config);
    w->buf->failed |= !text;
    berth_json_put_raw(w, "configJson", text);
    return CLI_OK;
}

/* Writes the package's name, or the absolute path of its directory: a daemon has another cwd. */
static int put_source(struct cli *cli, const char *source, struct berth_json_writer *w)
{
    auto_free char *path = NULL;
    struct stat st;
    if (berth_plugin_is_path(source) && !(path = realpath(source, NULL)))
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND, "Local plugin path does not exist: %s",
                          source);
    if (path && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        return berth_fail(&cli->err, BERTH_E_INVALID, "It is not a directory: %s", source);
    cli_put(cli, w, "packageName", path ? path : source);
    berth_json_put_bool(w, "isLocalPath", path != NULL);
    return BERTH_OK;
}

static int plugin_install(struct cli *cli, int argc, char **argv)
{
    const char *file = NULL, *version = NULL;
    const struct cli_option options[] = {{"version", &version}, {"config", &file}, {0}};
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer plugin;
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    berth_json_open(&w, '{');
    status = put_config(cli, file, &w);
    if (status != CLI_OK)
        return status;
    if (put_source(cli, argv[0], &w) < 0)
        return cli_fail(cli);
    cli_put(cli, &w, "version", version);
    berth_json_close(&w, '}');
    cli->cancel_fd = cli_cancel_fd(); /* an interrupt removes what npm made */
    return show_answer(cli, cli_call(cli, &plugin, "POST", &body, "/api/plugins/install"), &plugin);
}

static int plugin_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"PLUGIN", "pluginKey"},
                                              {"VERSION", "version"},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"DRIVERS", .text = drivers_of},
                                              {"INSTALLED", "installedAt", CLI_WHEN},
                                              {0}};
    struct cli_answer found;
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    return cli_get(cli, &found, "/api/plugins") < 0 ? cli_fail(cli)
                                                    : cli_print_list(cli, &found, columns);
}

/* Prints a plugin with its worker. */
static int print_both(struct cli *cli, const struct cli_answer *plugin,
                      const struct cli_answer *worker)
{
    static const struct cli_cell worker_lines[] = {
        {"worker", "status", CLI_STATUS}, {"pid", "pid"},
        {"methods", "supportedMethods"},  {"confinement", "confinement"},
        {"worker error", "lastError"},    {0}};
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->json) {
        berth_json_open(&w, '{');
        berth_json_put_raw(&w, "plugin", plugin->text);
        berth_json_put_raw(&w, "worker", worker->text);
        berth_json_close(&w, '}');
    } else if (cli->quiet) {
        return cli_print_text(cli, cli_text(plugin->json, "pluginKey"));
    } else {
        cli_put_lines(cli, &buf, plugin->json, lines);
        cli_put_lines(cli, &buf, worker->json, worker_lines);
    }
    return cli_print(cli, &buf);
}

/* Prints the state of the worker. A worker belongs to one process: starts it when it does not run
 * in the one that answers. */
static int show_worker(struct cli *cli, const char *name, bool anew)
{
    struct cli_answer plugin, worker = {0};
    const char *key = cli_encode(cli, name);
    if (cli_get(cli, &plugin, "/api/plugins/%s", key) < 0 ||
        (!anew && cli_get(cli, &worker, "/api/plugins/%s/worker", key) < 0))
        return cli_fail(cli);
    bool ready = cli_is(plugin.json, "status", "ready");
    bool runs = cli_is(worker.json, "status", "running");
    if ((anew || (ready && !runs)) &&
        cli_call(cli, &worker, "POST", NULL, "/api/plugins/%s/restart", key) < 0)
        return cli_fail(cli);
    int status = print_both(cli, &plugin, &worker);
    bool down = ready && !cli_is(worker.json, "status", "running");
    return status == CLI_OK && down ? CLI_FAILED : status;
}

static int plugin_show(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    return status == CLI_OK ? show_worker(cli, argv[0], false) : status;
}

static int plugin_restart(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    return status == CLI_OK ? show_worker(cli, argv[0], true) : status;
}

/* Calls an action on a plugin, with at most one member. */
static int plugin_act(struct cli *cli, const char *name, const char *what, const char *key,
                      const char *value)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer plugin;
    berth_json_open(&w, '{');
    if (key)
        cli_put(cli, &w, key, value);
    berth_json_close(&w, '}');
    return show_answer(
        cli,
        cli_call(cli, &plugin, "POST", &body, "/api/plugins/%s/%s", cli_encode(cli, name), what),
        &plugin);
}

static int plugin_enable(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    return status == CLI_OK ? plugin_act(cli, argv[0], "enable", NULL, NULL) : status;
}

static int plugin_disable(struct cli *cli, int argc, char **argv)
{
    const char *reason = NULL;
    const struct cli_option options[] = {{"reason", &reason}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    return status == CLI_OK ? plugin_act(cli, argv[0], "disable", "reason", reason) : status;
}

static int plugin_upgrade(struct cli *cli, int argc, char **argv)
{
    const char *version = NULL;
    const struct cli_option options[] = {{"version", &version}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    return status == CLI_OK ? plugin_act(cli, argv[0], "upgrade", "version", version) : status;
}

static int plugin_configure(struct cli *cli, int argc, char **argv)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer plugin;
    int status = cli_start(cli, argc, argv, NULL, 2, 2);
    berth_json_open(&w, '{');
    if (status == CLI_OK)
        status = put_config(cli, argv[1], &w);
    berth_json_close(&w, '}');
    if (status != CLI_OK)
        return status;
    return show_answer(
        cli,
        cli_call(cli, &plugin, "POST", &body, "/api/plugins/%s/config", cli_encode(cli, argv[0])),
        &plugin);
}

/* Applies NAME=VALUE, or NAME for the value of the process that starts the worker. */
static bool set_variable(struct cli *cli, struct berth_json *env, const char *pair)
{
    const char *equals = strchr(pair, '=');
    const char *name = equals ? berth_arena_copy(&cli->arena, pair, (size_t)(equals - pair)) : pair;
    return name && berth_json_set(env, name, berth_json_new_str(equals ? equals + 1 : NULL));
}

/* Writes the setting: null for "none", an empty list for "own", else the paths between commas. */
static void put_sockets(struct cli *cli, struct berth_json_writer *w, const char *sockets)
{
    if (strcmp(sockets, "none") == 0) {
        berth_json_put_str(w, "unixSockets", NULL);
        return;
    }
    berth_json_open_in(w, "unixSockets", '[');
    for (const char *at = strcmp(sockets, "own") == 0 ? "" : sockets; *at;) {
        size_t len = strcspn(at, ",");
        cli_put(cli, w, NULL, berth_arena_copy(&cli->arena, at, len));
        at += len + (at[len] == ',');
    }
    berth_json_close(w, ']');
}

static int plugin_set(struct cli *cli, int argc, char **argv)
{
    struct berth_list set = {0}, unset = {0};
    const char *sockets = NULL;
    const struct cli_option options[] = {{"env", .texts = &set},
                                         {"unset", .texts = &unset},
                                         {"unix-sockets", .text = &sockets},
                                         {0}};
    struct cli_answer plugin;
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    if (!set.count && !unset.count && !sockets)
        return cli_usage(cli, "say what to set");
    const char *key = cli_encode(cli, argv[0]);
    if (cli_get(cli, &plugin, "/api/plugins/%s", key) < 0)
        return cli_fail(cli);
    const struct berth_json *now = berth_json_get(berth_json_get(plugin.json, "settings"), "env");
    auto_json *env = now ? berth_json_copy(now) : berth_json_new_object();
    bool ok = env != NULL;
    for (int i = 0; ok && i < unset.count; i++)
        berth_json_remove(env, unset.items[i]);
    for (int i = 0; ok && i < set.count; i++)
        ok = set_variable(cli, env, set.items[i]);
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    auto_free char *text = ok ? berth_json_canonical(env) : NULL;
    body.failed |= !text;
    berth_json_open(&w, '{');
    if (set.count || unset.count)
        berth_json_put_raw(&w, "env", text);
    if (sockets)
        put_sockets(cli, &w, sockets);
    berth_json_close(&w, '}');
    return show_answer(cli, cli_call(cli, &plugin, "POST", &body, "/api/plugins/%s/settings", key),
                       &plugin);
}

static int plugin_uninstall(struct cli *cli, int argc, char **argv)
{
    struct cli_answer done;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    return cli_call(cli, &done, "DELETE", NULL, "/api/plugins/%s", cli_encode(cli, argv[0])) < 0
               ? cli_fail(cli)
               : CLI_OK;
}

/* --- logs --- */

/* Writes a line of the log as "2026-11-15T08:05:00.123Z warn stderr: text", or as it is if it is
 * not of that form. */
static void put_line(struct cli *cli, struct berth_buf *buf, const char *line, size_t len)
{
    auto_json *entry = NULL;
    struct berth_error ignored;
    const char *stream = NULL, *text = NULL;
    if (!cli->json &&
        berth_json_parse(line, len, BERTH_JSON_FOREIGN, &entry, &ignored) == BERTH_OK) {
        stream = berth_json_str(berth_json_get(entry, "stream"));
        text = berth_json_str(berth_json_get(entry, "message"));
    }
    if (!stream || !text) {
        berth_buf_append(buf, line, len);
    } else {
        const char *at = berth_json_str(berth_json_get(entry, "time"));
        const char *level = berth_json_str(berth_json_get(entry, "level"));
        berth_buf_printf(buf, "%s %-5s %s: %s", at ? at : "-", level ? level : "-", stream,
                         cli_clean(cli, text));
    }
    berth_buf_append(buf, "\n", 1);
}

static int plugin_logs(struct cli *cli, int argc, char **argv)
{
    struct cli_answer said;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_get(cli, &said, "/api/plugins/%s/logs", cli_encode(cli, argv[0])) < 0)
        return cli_fail(cli);
    auto_buf out = BERTH_BUF_INIT(4 * LOG_BYTES_MAX);
    for (const char *at = said.text, *end; at && *at; at = end + (*end == '\n')) {
        end = at + strcspn(at, "\n");
        put_line(cli, &out, at, (size_t)(end - at));
    }
    return out.len && fwrite(out.data, 1, out.len, stdout) != out.len ? CLI_FAILED : CLI_OK;
}

const struct cli_command cli_plugin_commands[] = {
    {"plugin", "install", "DIR|PACKAGE [--version VERSION] [--config FILE]",
     "install a plugin from a directory or from npm", plugin_install},
    {"plugin", "list", "", "the plugins", plugin_list},
    {"plugin", "show", "NAME|ID", "one plugin, and how its worker does when it is started",
     plugin_show},
    {"plugin", "enable", "NAME|ID", "use a plugin that is disabled or in error again",
     plugin_enable},
    {"plugin", "disable", "NAME|ID [--reason TEXT]", "stop using a plugin", plugin_disable},
    {"plugin", "configure", "NAME|ID FILE", "the plugin's own config, a JSON object",
     plugin_configure},
    {"plugin", "set",
     "NAME|ID [--env NAME[=VALUE]]... [--unset NAME]... [--unix-sockets none|own|PATH,...]",
     "the variables and the Unix sockets that its worker may have", plugin_set},
    {"plugin", "upgrade", "NAME|ID [--version VERSION]", "read or fetch its package again",
     plugin_upgrade},
    {"plugin", "uninstall", "NAME|ID", "remove a plugin that answers for no lease",
     plugin_uninstall},
    {"plugin", "logs", "NAME|ID", "what its worker said", plugin_logs},
    {"plugin", "check", "DIR [--config FILE] [--only CHECK]...",
     "drive a worker through its life and through faults, and print a score card",
     cli_plugin_check},
    {"plugin", "restart", "NAME|ID", "start its worker anew, and say how that went",
     plugin_restart},
    {0},
};
