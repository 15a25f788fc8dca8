/* SPDX-License-Identifier: Apache-2.0
 * src/cli/plugin.c - berth plugin ... */
#include "core/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "os/fs.h"

#define LOG_BYTES_MAX (16 * 1024 * 1024)

static void json(struct berth_json_writer *w, const void *item)
{
    berth_plugin_json(w, item);
}

static const char *drivers_of(struct cli *cli, const struct berth_plugin *p)
{
    auto_json *manifest = NULL;
    const char *text = NULL;
    if (berth_json_parse(p->manifest_json, strlen(p->manifest_json), BERTH_JSON_OURS, &manifest,
                         &cli->err) < 0)
        return NULL;
    const struct berth_json *drivers = berth_json_get(manifest, "environmentDrivers");
    for (size_t i = 0; i < berth_json_count(drivers); i++) {
        const struct berth_json *d = berth_json_at(drivers, i);
        const char *key = berth_json_str(berth_json_get(d, "driverKey"));
        text = berth_arena_printf(&cli->arena, "%s%s%s", text ? text : "", text ? ", " : "", key);
    }
    return text;
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_plugin *p = item;
    cli_field(cli, buf, "id", p->id);
    cli_field(cli, buf, "plugin", p->plugin_key);
    cli_field(cli, buf, "version", p->version);
    cli_field_status(cli, buf, "status", berth_plugin_status_name(p->status));
    cli_field(cli, buf, "package", p->package_name);
    cli_field(cli, buf, "path", p->package_path);
    cli_field(cli, buf, "drivers", drivers_of(cli, p));
    cli_field(cli, buf, "config", strcmp(p->config_json, "{}") == 0 ? NULL : p->config_json);
    cli_field(cli, buf, "error", p->last_error);
    cli_field(cli, buf, "installed", cli_when(cli, p->installed_at_ms));
}

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_plugin *p = item;
    cells[0] = p->plugin_key;
    cells[1] = p->version;
    cells[2] = berth_plugin_status_name(p->status);
    cells[3] = drivers_of(cli, p);
    cells[4] = cli_when(cli, p->installed_at_ms);
}

static const struct cli_column columns[] = {
    {"PLUGIN", 0}, {"VERSION", 0}, {"STATUS", CLI_STATUS}, {"DRIVERS", 0}, {"INSTALLED", 0}, {0}};
static const struct cli_view view = {columns, row, json};

/* The config in a file, or NULL. */
static int read_config(struct cli *cli, const char *file, const char **out)
{
    auto_json *config = NULL;
    *out = NULL;
    if (!file)
        return CLI_OK;
    if (cli_read_object(cli, file, &config) < 0)
        return cli_fail(cli);
    *out = berth_json_canonical_in(&cli->arena, config);
    return *out ? CLI_OK : cli_fail(cli);
}

static int cancel_fd = -1;

static void on_signal(int number)
{
    (void)number;
    (void)eventfd_write(cancel_fd, 1);
}

/* Ctrl-C ends what was begun, and what npm made is removed. */
static int cancel_by_signal(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    return cancel_fd;
}

static int install(struct cli *cli, int argc, char **argv)
{
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    const char *file = NULL;
    const struct cli_option options[] = {
        {.name = "version", .text = &request.version}, {.name = "config", .text = &file}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status == CLI_OK)
        status = read_config(cli, file, &request.config_json);
    if (status != CLI_OK)
        return status;
    struct berth_plugin *p;
    request.cancel_fd = cancel_by_signal();
    request.source = argv[0];
    request.actor = &cli->actor;
    if (berth_plugin_install(cli->b, &cli->arena, &request, &p, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, p->plugin_key, p, json, people);
}

static int list(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    if (berth_plugin_list(cli->b, &cli->arena, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

/* A plugin with its worker. */
struct shown {
    const struct berth_plugin *plugin;
    struct berth_worker_status worker;
};

static void shown_json(struct berth_json_writer *w, const void *item)
{
    const struct shown *s = item;
    auto_buf plugin = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    auto_buf worker = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_plugin_json(&(struct berth_json_writer){.buf = &plugin}, s->plugin);
    berth_worker_json(&(struct berth_json_writer){.buf = &worker}, &s->worker);
    berth_json_open(w, '{');
    berth_json_put_raw(w, "plugin", berth_buf_str(&plugin));
    berth_json_put_raw(w, "worker", berth_buf_str(&worker));
    berth_json_close(w, '}');
}

static void shown_people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct shown *s = item;
    char pid[24];
    (void)snprintf(pid, sizeof pid, "%d", s->worker.pid);
    people(cli, buf, s->plugin);
    cli_field_status(cli, buf, "worker", s->worker.status);
    cli_field(cli, buf, "pid", s->worker.pid ? pid : NULL);
    cli_field(cli, buf, "methods", s->worker.methods_json);
    cli_field(cli, buf, "confinement", s->worker.confinement);
    cli_field(cli, buf, "worker error", s->worker.last_error);
}

/* A worker belongs to the process that started it, so this starts one and looks at it. */
static int show_worker(struct cli *cli, const char *name, bool must)
{
    struct shown s = {0};
    struct berth_plugin *p;
    if (berth_plugin_get(cli->b, &cli->arena, name, &p, &cli->err) < 0)
        return cli_fail(cli);
    s.plugin = p;
    int rc = p->status == BERTH_PLUGIN_READY || must
                 ? berth_plugin_restart(cli->b, &cli->arena, p->id, &s.worker, &cli->err)
                 : berth_plugin_worker(cli->b, &cli->arena, p->id, &s.worker, &cli->err);
    if (rc < 0)
        return cli_fail(cli);
    int status = cli_print_one(cli, p->plugin_key, &s, shown_json, shown_people);
    bool down = p->status == BERTH_PLUGIN_READY && strcmp(s.worker.status, "running") != 0;
    return status == CLI_OK && down ? CLI_FAILED : status;
}

static int show(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    return status == CLI_OK ? show_worker(cli, argv[0], false) : status;
}

static int restart(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    return status == CLI_OK ? show_worker(cli, argv[0], true) : status;
}

static int enable(struct cli *cli, int argc, char **argv)
{
    struct berth_plugin *p;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_enable(cli->b, &cli->arena, argv[0], &cli->actor, &p, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, p->plugin_key, p, json, people);
}

static int disable(struct cli *cli, int argc, char **argv)
{
    struct berth_plugin *p;
    const char *reason = NULL;
    const struct cli_option options[] = {{.name = "reason", .text = &reason}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_disable(cli->b, &cli->arena, argv[0], reason, &cli->actor, &p, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, p->plugin_key, p, json, people);
}

static int configure(struct cli *cli, int argc, char **argv)
{
    struct berth_plugin *p;
    const char *config;
    int status = cli_start(cli, argc, argv, NULL, 2, 2);
    if (status == CLI_OK)
        status = read_config(cli, argv[1], &config);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_configure(cli->b, &cli->arena, argv[0], config, &cli->actor, &p, &cli->err) <
        0)
        return cli_fail(cli);
    return cli_print_one(cli, p->plugin_key, p, json, people);
}

static int upgrade(struct cli *cli, int argc, char **argv)
{
    struct berth_plugin *p;
    const char *version = NULL;
    const struct cli_option options[] = {{.name = "version", .text = &version}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_upgrade(cli->b, &cli->arena, argv[0], version, &cli->actor, &p, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, p->plugin_key, p, json, people);
}

static int uninstall(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_uninstall(cli->b, &cli->arena, argv[0], &cli->actor, &cli->err) < 0)
        return cli_fail(cli);
    return CLI_OK;
}

/* --- logs --- */

/* "2026-11-15T08:05:00.123Z warn stderr: text", or the line as it is. */
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

static void put_file(struct cli *cli, const char *path, struct berth_buf *out)
{
    auto_buf text = BERTH_BUF_INIT(LOG_BYTES_MAX);
    struct berth_error ignored;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || berth_fs_read_all(fd, &text, &ignored) < 0)
        return; /* it has said nothing yet */
    for (const char *at = berth_buf_str(&text), *end; at && *at; at = end + (*end == '\n')) {
        end = at + strcspn(at, "\n");
        put_line(cli, out, at, (size_t)(end - at));
    }
}

static int logs(struct cli *cli, int argc, char **argv)
{
    const char *path;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (berth_plugin_log(cli->b, &cli->arena, argv[0], &path, &cli->err) < 0)
        return cli_fail(cli);
    auto_buf out = BERTH_BUF_INIT(4 * LOG_BYTES_MAX);
    put_file(cli, berth_arena_printf(&cli->arena, "%s.1", path), &out);
    put_file(cli, path, &out);
    return out.len && fwrite(out.data, 1, out.len, stdout) != out.len ? CLI_FAILED : CLI_OK;
}

const struct cli_command cli_plugin_commands[] = {
    {"plugin", "install", "DIR|PACKAGE [--version VERSION] [--config FILE]",
     "install a plugin from a directory or from npm", install},
    {"plugin", "list", "", "the plugins", list},
    {"plugin", "show", "NAME|ID", "one plugin, and how its worker does when it is started", show},
    {"plugin", "enable", "NAME|ID", "use a plugin that is disabled or in error again", enable},
    {"plugin", "disable", "NAME|ID [--reason TEXT]", "stop using a plugin", disable},
    {"plugin", "configure", "NAME|ID FILE", "the plugin's own config, a JSON object", configure},
    {"plugin", "upgrade", "NAME|ID [--version VERSION]", "read or fetch its package again",
     upgrade},
    {"plugin", "uninstall", "NAME|ID", "remove a plugin that answers for no lease", uninstall},
    {"plugin", "logs", "NAME|ID", "what its worker said", logs},
    {"plugin", "check", "DIR [--config FILE] [--only CHECK]...",
     "drive a worker through its life and through faults, and print a score card",
     cli_plugin_check},
    {"plugin", "restart", "NAME|ID", "start its worker anew, and say how that went", restart},
    {0},
};
