/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/package.c - see package.h. */
#include "plugin/package.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/capture.h"
#include "os/fs.h"
#include "plugin/launch.h"
#include "plugin/npm.h"
#include "plugin/package_tree.h"

#define NPM_MS 120000
#define MANIFEST_MS 15000
#define OUTPUT_BYTES_MAX (4 * 1024 * 1024)

/* --- npm --- */

static int64_t sooner(const struct berth_package_call *call, int64_t within_ms)
{
    int64_t at_ms = berth_time_mono_ms() + within_ms;
    return at_ms < call->deadline_ms ? at_ms : call->deadline_ms;
}

static int check_name(const char *name, struct berth_error *err)
{
    if (!*name)
        return berth_fail(err, BERTH_E_INVALID, "packageName cannot be empty");
    const char *bare = name[0] == '@' ? strchr(name, '/') : name;
    bare = bare && name[0] == '@' ? bare + 1 : bare;
    bool ok = bare && isalnum((unsigned char)bare[0]) && !strchr(bare, '/');
    for (const char *c = name; ok && *c; c++)
        ok = isalnum((unsigned char)*c) || strchr("._-~", *c) || (*c == '@' && c == name) ||
             (*c == '/' && name[0] == '@');
    return ok ? BERTH_OK
              : berth_fail(err, BERTH_E_INVALID, "packageName contains invalid characters");
}

/* Its last words, for the error. */
static const char *last_lines(struct berth_capture *c)
{
    const char *text = berth_buf_str(&c->streams[BERTH_STDERR]);
    size_t len = text ? strlen(text) : 0;
    return len > 600 ? text + len - 600 : len ? text : "it said nothing";
}

static int check_version(const char *version, struct berth_error *err)
{
    for (const char *c = version; c && *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-+^~", *c))
            return berth_fail(err, BERTH_E_INVALID, "The version contains invalid characters.");
    return BERTH_OK;
}

/* Runs npm to its end. `spec` is the name with the version. */
static int run_npm(const struct berth_package_call *call, const char *spec,
                   const struct berth_worker_spec *cage, struct berth_error *err)
{
    auto_npm npm = {0};
    int rc = berth_npm_prepare(&npm, spec, cage, err);
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "npm install failed for %s: npm is not there. Install Node.js, or give a "
                          "directory instead.",
                          spec);
    if (rc < 0)
        return rc;
    auto_capture c = BERTH_CAPTURE_INIT(OUTPUT_BYTES_MAX);
    c.options = npm.launch.options;
    c.name = "npm";
    c.deadline_ms = sooner(call, NPM_MS);
    c.cancel_fd = call->cancel_fd;
    rc = berth_capture_run(call->engine, &c, err);
    if (rc == BERTH_OK && c.end.exit_code != 0)
        rc = berth_fail(err, BERTH_E_UPSTREAM, "npm install failed for %s: %s", spec,
                        last_lines(&c));
    return rc;
}

static int package_fetch(const struct berth_package_call *call, const char *name,
                         const char *version, const struct berth_worker_spec *cage,
                         const char **path, struct berth_error *err)
{
    int rc = check_name(name, err);
    if (rc == BERTH_OK)
        rc = check_version(version, err);
    if (rc < 0)
        return rc;
    const char *spec = version ? berth_arena_printf(call->arena, "%s@%s", name, version) : name;
    *path = berth_arena_printf(call->arena, "%s/node_modules/%s", cage->state, name);
    rc = berth_arena_check(call->arena, err);
    if (rc == BERTH_OK)
        rc = run_npm(call, spec, cage, err);
    if (rc == BERTH_OK)
        rc = berth_npm_tidy(cage->state, err);
    if (rc == BERTH_OK)
        rc = berth_package_take_over(cage->state, err);
    struct stat st;
    if (rc == BERTH_OK && (lstat(*path, &st) < 0 || !S_ISDIR(st.st_mode)))
        rc = berth_fail(err, BERTH_E_UPSTREAM, "Package directory not found after installation: %s",
                        *path);
    return rc;
}

/* --- manifests --- */

/* The file as JSON. *out stays NULL when it is not there. */
static int read_json(int root, const char *path, struct berth_json **out, struct berth_error *err)
{
    struct berth_error why;
    auto_close int fd = berth_fs_open_beneath(root, path, O_RDONLY | O_NONBLOCK, 0, &why);
    if (fd < 0 && why.os_errno == ENOENT)
        return BERTH_OK;
    if (fd < 0)
        return berth_fail(err, BERTH_E_INVALID, "%s", why.message);
    auto_buf text = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    int rc = berth_fs_read_all(fd, &text, &why);
    if (rc == BERTH_OK)
        rc = berth_json_parse(berth_buf_str(&text), text.len, BERTH_JSON_OURS, out, &why);
    return rc < 0 ? berth_fail(err, rc, "%s cannot be read: %.900s", path, why.message) : rc;
}

static bool is_there(int root, const char *path)
{
    struct berth_error ignored;
    auto_close int fd = berth_fs_open_beneath(root, path, O_PATH, 0, &ignored);
    return fd >= 0;
}

/* A manifest that is a script says what it is when it is run, which is done in a cage. */
static int run_manifest(const struct berth_package_call *call, const char *package,
                        const char *file, const struct berth_worker_spec *cage,
                        struct berth_json **out, struct berth_error *err)
{
    static const char script[] = "import{pathToFileURL as u}from'node:url';"
                                 "const m=await import(u(process.argv[1]).href);"
                                 "process.stdout.write('\\x1e'+JSON.stringify(m.default??m)+'\\n')";
    const char *path = berth_arena_printf(call->arena, "%s/%s", package, file);
    struct berth_worker_spec spec = *cage;
    spec.package = package;
    spec.entry = path;
    struct berth_launch launch;
    auto_capture c = BERTH_CAPTURE_INIT(OUTPUT_BYTES_MAX);
    int rc = berth_launch_prepare_script(script, path, &spec, &launch, err);
    if (rc == BERTH_OK) {
        c.options = launch.options;
        c.name = "node";
        c.deadline_ms = sooner(call, MANIFEST_MS);
        c.cancel_fd = call->cancel_fd;
        rc = berth_capture_run(call->engine, &c, err);
    }
    berth_launch_clear(&launch);
    if (rc == BERTH_E_CANCELLED || rc == BERTH_E_UNPROCESSABLE || rc == BERTH_E_UNSUPPORTED)
        return rc;
    const char *said = berth_buf_str(&c.streams[BERTH_STDOUT]);
    const char *mark = said ? strrchr(said, '\x1e') : NULL;
    struct berth_error why = {0};
    if (rc == BERTH_OK && c.end.exit_code == 0 && mark &&
        berth_json_parse(mark + 1, strlen(mark + 1), BERTH_JSON_OURS, out, &why) == BERTH_OK)
        return BERTH_OK;
    char first[600];
    (void)snprintf(first, sizeof first, "%.599s",
                   rc < 0           ? err->message
                   : why.message[0] ? why.message
                                    : last_lines(&c));
    return berth_fail(err, BERTH_E_INVALID, "Failed to load manifest module at %s: %s", path,
                      first);
}

static bool is_json(const char *file)
{
    size_t len = strlen(file);
    return len > 5 && strcmp(file + len - 5, ".json") == 0;
}

/* Which file it is, or NULL. */
static const char *manifest_file(int root, const struct berth_json *package_json)
{
    static const char *const usual[] = {"dist/manifest.js", "manifest.js", "manifest.json"};
    const char *named =
        berth_json_str(berth_json_get(berth_json_get(package_json, "paperclipPlugin"), "manifest"));
    if (named && strncmp(named, "./", 2) == 0)
        named += 2;
    if (named)
        return is_there(root, named) ? named : NULL;
    for (size_t i = package_json ? 0 : 2; i < 3; i++)
        if (is_there(root, usual[i]))
            return usual[i];
    return NULL;
}

static int package_read(const struct berth_package_call *call, const char *path,
                        const struct berth_worker_spec *cage, struct berth_package *out,
                        struct berth_error *err)
{
    char *real = realpath(path, NULL);
    if (!real)
        return berth_fail(err, BERTH_E_NOT_FOUND, "Local plugin path does not exist: %s", path);
    out->path = berth_arena_strdup(call->arena, real);
    free(real);
    auto_close int root =
        out->path ? berth_fs_open_real(AT_FDCWD, out->path, O_PATH | O_DIRECTORY) : -1;
    if (root < 0)
        return berth_fail(err, BERTH_E_INVALID, "It is not a directory: %s", path);
    auto_json *package = NULL;
    int rc = read_json(root, "package.json", &package, err);
    if (rc < 0)
        return rc;
    if (!package && !is_there(root, "manifest.json"))
        return berth_fail(err, BERTH_E_NOT_FOUND,
                          "Missing package.json at %s (and there is no manifest.json)", out->path);
    const char *name = berth_json_str(berth_json_get(package, "name"));
    const char *slash = strrchr(out->path, '/');
    out->name = berth_arena_strdup(call->arena, name ? name : slash ? slash + 1 : out->path);
    const char *file = manifest_file(root, package);
    rc = berth_arena_check(call->arena, err);
    if (rc == BERTH_OK && !file)
        rc = berth_fail(err, BERTH_E_INVALID,
                        "Package %s at %s does not appear to be a Paperclip plugin (no manifest "
                        "found).",
                        out->name, out->path);
    if (rc < 0)
        return rc;
    return is_json(file) ? read_json(root, file, &out->manifest, err)
                         : run_manifest(call, out->path, file, cage, &out->manifest, err);
}

static int package_check(const struct berth_package_call *call, const char *path,
                         const char *plugin_key, const char *worker, struct berth_error *err)
{
    struct berth_worker_spec spec = {
        .plugin_key = plugin_key,
        .package = path,
        .entry =
            worker[0] == '/' ? worker : berth_arena_printf(call->arena, "%s/%s", path, worker)};
    int rc = berth_arena_check(call->arena, err);
    return rc < 0 ? rc : berth_launch_check(&spec, err);
}

const struct berth_package_ops berth_plugin_packages = {
    .fetch = package_fetch, .read = package_read, .check = package_check};
