/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/launch.c - see launch.h. */
#include "plugin/launch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "os/spawn.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/local/sbin:/usr/bin:/bin:/usr/sbin:/sbin"
#define GRACE_MS 5000

static const char *value_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static void launch_add(struct berth_launch *l, struct berth_list *list, const char *text)
{
    (void)berth_list_add(list, &l->arena, (char *)(uintptr_t)text);
}

static void launch_add_variable(struct berth_launch *l, struct berth_list *env, const char *name,
                                const char *value)
{
    launch_add(l, env, berth_arena_printf(&l->arena, "%s=%s", name, value));
}

/* The environment is complete: nothing of ours is inherited. */
static const char *const *make_env(struct berth_launch *l, const char *plugin_id,
                                   const struct berth_worker_spec *spec, const char *state)
{
    struct berth_list env = {0};
    struct berth_id id = berth_id_new();
    l->label = berth_arena_printf(&l->arena, "BERTH_WORKER_ID=%s", id.text);
    launch_add(l, &env, l->label); /* the first: what looks for strays does not read far */
    launch_add_variable(l, &env, "PAPERCLIP_DEPLOYMENT_MODE", "");
    launch_add_variable(l, &env, "PAPERCLIP_DEPLOYMENT_EXPOSURE", "");
    launch_add_variable(l, &env, "PATH", value_or("PATH", DEFAULT_PATH));
    launch_add_variable(l, &env, "NODE_PATH", value_or("NODE_PATH", ""));
    launch_add_variable(l, &env, "PAPERCLIP_PLUGIN_ID", plugin_id);
    launch_add_variable(l, &env, "NODE_ENV", value_or("NODE_ENV", "production"));
    launch_add_variable(l, &env, "TZ", value_or("TZ", "UTC"));
    launch_add_variable(l, &env, "HOME", state);
    launch_add_variable(l, &env, "TMPDIR", berth_arena_printf(&l->arena, "%s/tmp", state));
    launch_add_variable(l, &env, "BERTH_PLUGIN_STATE", state);
    for (const char *const *given = spec->env; given && *given; given++)
        launch_add(l, &env, berth_arena_strdup(&l->arena, *given));
    launch_add(l, &env, NULL);
    return (const char *const *)(void *)env.items;
}

/* --- what is run --- */

static bool is_script(const char *entry)
{
    const char *dot = strrchr(entry, '.');
    return dot && (strcmp(dot, ".js") == 0 || strcmp(dot, ".mjs") == 0 || strcmp(dot, ".cjs") == 0);
}

int berth_launch_find(struct berth_arena *arena, const char *name, const char **out,
                      struct berth_error *err)
{
    char file[PATH_MAX];
    int rc = berth_spawn_find(name, value_or("PATH", DEFAULT_PATH), file, sizeof file, err);
    if (rc < 0)
        return rc;
    char real[PATH_MAX]; /* the links to it may not be in the cage */
    *out = berth_arena_strdup(arena, realpath(file, real) ? real : file);
    return berth_arena_check(arena, err);
}

static int find_node(struct berth_launch *l, const char **out, struct berth_error *err)
{
    struct berth_error why;
    if (berth_launch_find(&l->arena, "node", out, &why) == BERTH_OK)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "This plugin needs Node.js: install it, or put its directory into PATH.");
}

/* The real path of the entry, which some workers compare with their own. */
static int find_entry(struct berth_launch *l, const struct berth_worker_spec *spec,
                      const char **out, struct berth_error *err)
{
    char entry[PATH_MAX];
    struct stat st;
    if (stat(spec->package, &st) < 0)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Package root not found for plugin \"%s\"",
                          spec->plugin_key);
    if (!realpath(spec->entry, entry) || stat(entry, &st) < 0 || !S_ISREG(st.st_mode))
        return berth_fail(err, BERTH_E_NOT_FOUND,
                          "Worker entrypoint not found for plugin \"%s\". Checked: %s",
                          spec->plugin_key, spec->entry);
    size_t len = strlen(spec->package);
    if (strncmp(entry, spec->package, len) != 0 || entry[len] != '/')
        return berth_fail(err, BERTH_E_DENIED,
                          "Worker entrypoint of plugin \"%s\" leads out of its package: %s",
                          spec->plugin_key, entry);
    if (!is_script(entry) && access(entry, X_OK) < 0)
        return berth_fail(err, BERTH_E_DENIED,
                          "Worker entrypoint of plugin \"%s\" is not executable: %s",
                          spec->plugin_key, entry);
    *out = berth_arena_strdup(&l->arena, entry);
    return berth_arena_check(&l->arena, err);
}

static void init(struct berth_launch *l)
{
    *l = (struct berth_launch){.options = BERTH_PROCESS_OPTIONS_INIT,
                               .cage = {.confinement = {.ruleset_fd = -1}}};
    l->cage.arena = &l->arena;
}

int berth_launch_check(const struct berth_worker_spec *spec, struct berth_error *err)
{
    struct berth_launch l;
    const char *ignored;
    init(&l);
    int rc = find_entry(&l, spec, &ignored, err);
    berth_launch_clear(&l);
    return rc;
}

static int launch_prepare(struct berth_launch *l, const char *plugin_id,
                          const struct berth_worker_spec *spec, const char *node,
                          struct berth_list *argv, struct berth_error *err)
{
    int rc = berth_plugin_cage_make(&l->cage, plugin_id, spec, node, err);
    if (rc < 0)
        return rc;
    launch_add(l, argv, NULL);
    l->options.argv = (const char *const *)(void *)argv->items;
    l->options.env = make_env(l, plugin_id, spec, l->cage.state);
    l->options.cwd = l->cage.state;
    l->options.grace_ms = GRACE_MS;
    l->options.confinement = &l->cage.confinement;
    return berth_arena_check(&l->arena, err);
}

int berth_launch_prepare_with(const char *plugin_id, const struct berth_worker_spec *spec,
                              const struct berth_launch_extra *extra, struct berth_launch *out,
                              struct berth_error *err)
{
    init(out);
    out->cage.files = extra->files;
    out->cage.file_count = extra->file_count;
    struct berth_list argv = {0};
    const char *entry, *node = NULL;
    int rc = find_entry(out, spec, &entry, err);
    if (rc == BERTH_OK && is_script(entry)) {
        rc = find_node(out, &node, err);
        if (rc == BERTH_OK)
            launch_add(out, &argv, node);
    }
    if (rc < 0)
        return rc;
    launch_add(out, &argv, entry);
    for (const char *const *more = extra->arguments; more && *more; more++)
        launch_add(out, &argv, *more);
    return launch_prepare(out, plugin_id, spec, node, &argv, err);
}

int berth_launch_prepare(const char *plugin_id, const struct berth_worker_spec *spec,
                         struct berth_launch *out, struct berth_error *err)
{
    static const struct berth_launch_extra nothing;
    return berth_launch_prepare_with(plugin_id, spec, &nothing, out, err);
}

int berth_launch_prepare_script(const char *script, const char *argument,
                                const struct berth_worker_spec *spec, struct berth_launch *out,
                                struct berth_error *err)
{
    init(out);
    const char *node;
    int rc = find_node(out, &node, err);
    if (rc < 0)
        return rc;
    struct berth_list argv = {0};
    launch_add(out, &argv, node);
    launch_add(out, &argv, "--input-type=module");
    launch_add(out, &argv, "-e");
    launch_add(out, &argv, script);
    launch_add(out, &argv, "--");
    launch_add(out, &argv, argument);
    return launch_prepare(out, "manifest", spec, node, &argv, err);
}

void berth_launch_clear(struct berth_launch *launch)
{
    berth_confine_close(&launch->cage.confinement);
    berth_arena_clear(&launch->arena);
}
