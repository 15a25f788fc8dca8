/* SPDX-License-Identifier: Apache-2.0
 * src/api/resource/plugins.c - plugins, which serve the whole instance. */
#include "core/plugin/plugin.h"

#include <stddef.h>
#include <fcntl.h>
#include <string.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/limits.h"
#include "os/fs.h"

static void plugin_item(struct berth_json_writer *w, const void *plugin)
{
    berth_plugin_json(w, plugin);
}

static int plugin_say(struct berth_api_call *c, int rc, const struct berth_plugin *plugin)
{
    if (rc == BERTH_OK)
        berth_plugin_json(&c->w, plugin);
    return rc;
}

static int plugin_list(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_page page;
    struct berth_list found;
    int rc = berth_api_query_page(c, &page, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_list_page(c->b, &c->arena, &page, &found, err);
    if (rc == BERTH_OK)
        berth_api_say_list(c, &found, plugin_item);
    return rc;
}

static int plugin_get(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_plugin *plugin = NULL;
    int rc = berth_plugin_get(c->b, &c->arena, c->params[0], &plugin, err);
    return plugin_say(c, rc, plugin);
}

/* A path is one only where it is said to be: a package's name has no slash but behind a scope. */
static int install(struct berth_api_call *c, struct berth_error *err)
{
    struct body {
        const char *name, *version, *config;
        bool local;
    } body = {0};
    static const struct berth_api_field fields[] = {
        {"packageName", BERTH_API_TEXT, offsetof(struct body, name), .required = true},
        {"version", BERTH_API_TEXT, offsetof(struct body, version), .nullable = true},
        {"configJson", BERTH_API_OBJECT, offsetof(struct body, config)},
        {"isLocalPath", BERTH_API_FLAG, offsetof(struct body, local)},
        {0}};
    struct berth_plugin *plugin = NULL;
    struct berth_plugin_install request = BERTH_PLUGIN_INSTALL_INIT;
    int rc = berth_api_body(c, fields, &body, NULL, err);
    if (rc == BERTH_OK && body.local != (body.name[0] == '/'))
        rc = berth_fail(err, BERTH_E_INVALID,
                        "packageName is an absolute path with isLocalPath, and a name without.");
    if (rc < 0)
        return rc;
    request.source = body.name;
    request.version = body.version;
    request.config_json = body.config;
    request.cancel_fd = berth_api_left_fd(c);
    request.actor = &c->actor;
    c->status = 201;
    rc = berth_plugin_install(c->b, &c->arena, &request, &plugin, err);
    return plugin_say(c, rc, plugin);
}

static int enable(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_plugin *plugin = NULL;
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_enable(c->b, &c->arena, c->params[0], &c->actor, &plugin, err);
    return plugin_say(c, rc, plugin);
}

static int disable(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {{"reason", BERTH_API_TEXT, 0, .nullable = true},
                                                    {0}};
    const char *reason = NULL;
    struct berth_plugin *plugin = NULL;
    int rc = berth_api_body(c, fields, &reason, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_disable(c->b, &c->arena, c->params[0], reason, &c->actor, &plugin, err);
    return plugin_say(c, rc, plugin);
}

static int configure(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"configJson", BERTH_API_OBJECT, 0, .required = true}, {0}};
    const char *config = NULL;
    struct berth_plugin *plugin = NULL;
    int rc = berth_api_body(c, fields, &config, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_configure(c->b, &c->arena, c->params[0], config, &c->actor, &plugin, err);
    return plugin_say(c, rc, plugin);
}

struct settings_body {
    const char *env;
    struct berth_list sockets; /* count -1: null */
};

enum { SETTINGS_ENV = 1, SETTINGS_SOCKETS = 2 }; /* bits of the fields below */

/* Writes the members that the body has, as JSON text in the arena. */
static const char *settings_change(struct berth_api_call *c, const struct settings_body *body,
                                   unsigned given)
{
    auto_buf text = BERTH_BUF_INIT(BERTH_CONFIG_BYTES_MAX);
    struct berth_json_writer w = {.buf = &text};
    berth_json_open(&w, '{');
    if (given & SETTINGS_ENV)
        berth_json_put_raw(&w, "env", body->env);
    if (given & SETTINGS_SOCKETS && body->sockets.count < 0)
        berth_json_put_str(&w, "unixSockets", NULL);
    else if (given & SETTINGS_SOCKETS) {
        berth_json_open_in(&w, "unixSockets", '[');
        for (int i = 0; i < body->sockets.count; i++)
            berth_json_put_str(&w, NULL, body->sockets.items[i]);
        berth_json_close(&w, ']');
    }
    berth_json_close(&w, '}');
    return text.failed ? NULL : berth_arena_strdup(&c->arena, berth_buf_str(&text));
}

static int set_settings(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"env", BERTH_API_OBJECT, offsetof(struct settings_body, env)},
        {"unixSockets", BERTH_API_TEXTS, offsetof(struct settings_body, sockets), .nullable = true},
        {0}};
    struct settings_body body = {.sockets = {.count = -1}};
    unsigned given;
    struct berth_plugin *plugin = NULL;
    int rc = berth_api_body(c, fields, &body, &given, err);
    if (rc < 0)
        return rc;
    const char *change = settings_change(c, &body, given);
    if (!change)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The settings are longer than %d bytes.",
                          BERTH_CONFIG_BYTES_MAX);
    rc = berth_plugin_set(c->b, &c->arena, c->params[0], change, &c->actor, &plugin, err);
    return plugin_say(c, rc, plugin);
}

static int upgrade(struct berth_api_call *c, struct berth_error *err)
{
    static const struct berth_api_field fields[] = {
        {"version", BERTH_API_TEXT, 0, .nullable = true}, {0}};
    const char *version = NULL;
    struct berth_plugin *plugin = NULL;
    int rc = berth_api_body(c, fields, &version, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_upgrade(c->b, &c->arena, c->params[0], version, &c->actor, &plugin, err);
    return plugin_say(c, rc, plugin);
}

static int uninstall(struct berth_api_call *c, struct berth_error *err)
{
    int rc = berth_plugin_uninstall(c->b, &c->arena, c->params[0], &c->actor, err);
    if (rc == BERTH_OK)
        berth_api_say_ok(c);
    return rc;
}

static int worker(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_worker_status status;
    int rc = berth_plugin_worker(c->b, &c->arena, c->params[0], &status, err);
    if (rc == BERTH_OK)
        berth_worker_json(&c->w, &status);
    return rc;
}

static int restart(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_worker_status status;
    int rc = berth_api_body(c, berth_api_nothing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = berth_plugin_restart(c->b, &c->arena, c->params[0], &status, err);
    if (rc == BERTH_OK)
        berth_worker_json(&c->w, &status);
    return rc;
}

static int put_file(struct berth_api_call *c, const char *path, struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? BERTH_OK : berth_fs_read_all(fd, &c->out, err); /* it may have said nothing */
}

/* What its worker said, one object a line; the file before this one first. */
static int logs(struct berth_api_call *c, struct berth_error *err)
{
    const char *path, *before = NULL;
    int rc = berth_plugin_log(c->b, &c->arena, c->params[0], &path, err);
    if (rc == BERTH_OK)
        before = berth_arena_printf(&c->arena, "%s.1", path);
    if (rc == BERTH_OK)
        rc = before ? put_file(c, before, err) : berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        rc = put_file(c, path, err);
    c->type = "application/x-ndjson";
    return rc;
}

const struct berth_api_route berth_api_plugin_routes[] = {
    {"GET", "/api/plugins", plugin_list, BERTH_API_INSTANCE, .query = "limit before"},
    {"POST", "/api/plugins/install", install, BERTH_API_INSTANCE, .slow = true},
    {"GET", "/api/plugins/:id", plugin_get, BERTH_API_INSTANCE},
    {"DELETE", "/api/plugins/:id", uninstall, BERTH_API_INSTANCE, .slow = true},
    {"POST", "/api/plugins/:id/enable", enable, BERTH_API_INSTANCE},
    {"POST", "/api/plugins/:id/disable", disable, BERTH_API_INSTANCE, .slow = true},
    {"POST", "/api/plugins/:id/upgrade", upgrade, BERTH_API_INSTANCE, .slow = true},
    {"POST", "/api/plugins/:id/config", configure, BERTH_API_INSTANCE, .slow = true},
    {"POST", "/api/plugins/:id/settings", set_settings, BERTH_API_INSTANCE, .slow = true},
    {"GET", "/api/plugins/:id/logs", logs, BERTH_API_INSTANCE},
    {"GET", "/api/plugins/:id/worker", worker, BERTH_API_INSTANCE},
    {"POST", "/api/plugins/:id/restart", restart, BERTH_API_INSTANCE, .slow = true},
    {0},
};
