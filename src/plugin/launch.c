/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/launch.c - see launch.h. */
#include "plugin/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "os/fs.h"
#include "os/spawn.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/local/sbin:/usr/bin:/bin:/usr/sbin:/sbin"
#define UID_FIRST 61184 /* where a system keeps users that exist only for a while */
#define UID_COUNT 4000
#define HASH_SEED 5381 /* djb2 */
#define GRACE_MS 5000

/* What any program needs to read of this machine, and nothing that is somebody's own. */
static const char *const system_paths[] = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/run/systemd/resolve",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
};

static const char *value_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* Returns a user id that another plugin is not likely to have. */
static uid_t uid_of(const char *plugin_id)
{
    unsigned hash = HASH_SEED;
    for (const char *c = plugin_id; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    return UID_FIRST + hash % UID_COUNT;
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
static const char *const *make_env(struct berth_launch *l, const char *plugin_id, const char *state)
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
    launch_add_variable(l, &env, "TMPDIR", berth_arena_printf(&l->arena, "%s/tmp", state));
    launch_add_variable(l, &env, "BERTH_PLUGIN_STATE", state);
    launch_add(l, &env, NULL);
    return (const char *const *)(void *)env.items;
}

/* --- what it may see --- */

static char *parent_of(struct berth_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash > path ? berth_arena_copy(arena, path, (size_t)(slash - path)) : NULL;
}

/* Node looks for packages in the node_modules of every directory above. A link there could lead
 * anywhere, and the package's own is in the package. */
static void add_modules(struct berth_launch *l, struct berth_list *readable, const char *package)
{
    struct stat st;
    for (const char *at = parent_of(&l->arena, package); at; at = parent_of(&l->arena, at)) {
        const char *path = berth_arena_printf(&l->arena, "%s/node_modules", at);
        if (path && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            launch_add(l, readable, path);
    }
}

/* Node itself, wherever it was unpacked, and its libraries; nothing else that is beside it. */
static void add_node(struct berth_launch *l, struct berth_list *readable, const char *file)
{
    char real[PATH_MAX];
    const char *bin = realpath(file, real) ? parent_of(&l->arena, real) : NULL;
    const char *above = bin ? parent_of(&l->arena, bin) : NULL;
    if (bin)
        launch_add(l, readable, berth_arena_strdup(&l->arena, real));
    if (above)
        launch_add(l, readable, berth_arena_printf(&l->arena, "%s/lib", above));
}

/* The directory of the state with its tmp/, its worker's: it may have put anything in their place,
 * so nothing here follows a link. */
static int give_state(const char *path, uid_t uid, struct berth_error *err)
{
    auto_close int state = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state < 0)
        return berth_fail_errno(err, "Cannot open %s", path);
    int tries = 0, inner;
    do {
        (void)mkdirat(state, "tmp", 0700);
        inner = openat(state, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0)
            (void)unlinkat(state, "tmp", 0);
    } while (inner < 0 && ++tries < 3);
    auto_close int temporary = inner;
    if (temporary < 0)
        return berth_fail_errno(err, "Cannot make %s/tmp", path);
    if (uid && (fchown(state, uid, (gid_t)uid) < 0 || fchown(temporary, uid, (gid_t)uid) < 0))
        return berth_fail_errno(err, "Cannot give %s to its worker", path);
    return BERTH_OK;
}

static int confine(struct berth_launch *l, const char *plugin_id,
                   const struct berth_worker_spec *spec, const char *node, struct berth_error *err)
{
    struct berth_list readable = {0};
    for (size_t i = 0; i < sizeof system_paths / sizeof system_paths[0]; i++)
        launch_add(l, &readable, system_paths[i]);
    launch_add(l, &readable, spec->package);
    if (node) {
        add_modules(l, &readable, spec->package);
        add_node(l, &readable, node);
    }
    launch_add(l, &readable, NULL);
    const char *const writable[] = {spec->state, "/dev/null", "/dev/zero", "/dev/full", NULL};
    int rc = berth_arena_check(&l->arena, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(spec->state, 0700, err);
    /* The directory itself will be its worker's. */
    const char *const reachable[] = {spec->package, parent_of(&l->arena, spec->state), node, NULL};
    struct berth_confine_request request = {.readable = (const char *const *)(void *)readable.items,
                                            .writable = writable,
                                            .reachable = reachable,
                                            .uid = uid_of(plugin_id)};
    if (rc == BERTH_OK)
        rc = berth_confine_open(&request, &l->confinement, err);
    if (rc < 0)
        return rc;
    berth_confine_say(&l->confinement, l->confinement_text);
    return give_state(spec->state, l->confinement.uid, err);
}

/* --- what is run --- */

static bool is_script(const char *entry)
{
    const char *dot = strrchr(entry, '.');
    return dot && (strcmp(dot, ".js") == 0 || strcmp(dot, ".mjs") == 0 || strcmp(dot, ".cjs") == 0);
}

static int find_node(struct berth_launch *l, const char **out, struct berth_error *err)
{
    char file[PATH_MAX];
    struct berth_error why;
    if (berth_spawn_find("node", value_or("PATH", DEFAULT_PATH), file, sizeof file, &why) < 0)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "This plugin needs Node.js: install it, or put its directory into PATH.");
    *out = berth_arena_strdup(&l->arena, file);
    return berth_arena_check(&l->arena, err);
}

/* The real path of the entry, which some workers compare with their own. */
static int find_entry(struct berth_launch *l, const struct berth_worker_spec *spec,
                      const char **out, struct berth_error *err)
{
    char entry[PATH_MAX], package[PATH_MAX];
    struct stat st;
    if (!realpath(spec->package, package))
        return berth_fail(err, BERTH_E_NOT_FOUND, "Package root not found for plugin \"%s\"",
                          spec->plugin_key);
    if (!realpath(spec->entry, entry) || stat(entry, &st) < 0 || !S_ISREG(st.st_mode))
        return berth_fail(err, BERTH_E_NOT_FOUND,
                          "Worker entrypoint not found for plugin \"%s\". Checked: %s",
                          spec->plugin_key, spec->entry);
    size_t len = strlen(package);
    if (strncmp(entry, package, len) != 0 || entry[len] != '/')
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
                               .confinement = {.ruleset_fd = -1}};
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
    launch_add(l, argv, NULL);
    l->options.argv = (const char *const *)(void *)argv->items;
    l->options.env = make_env(l, plugin_id, spec->state);
    l->options.cwd = berth_arena_strdup(&l->arena, spec->state);
    l->options.grace_ms = GRACE_MS;
    int rc = berth_arena_check(&l->arena, err);
    if (rc == BERTH_OK)
        rc = confine(l, plugin_id, spec, node, err);
    l->options.confinement = &l->confinement;
    return rc;
}

int berth_launch_prepare(const char *plugin_id, const struct berth_worker_spec *spec,
                         struct berth_launch *out, struct berth_error *err)
{
    init(out);
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
    return launch_prepare(out, plugin_id, spec, node, &argv, err);
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
    berth_confine_close(&launch->confinement);
    berth_arena_clear(&launch->arena);
}
