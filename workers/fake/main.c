/* SPDX-License-Identifier: Apache-2.0
 * workers/fake/main.c - the provider for tests and first steps: its sandboxes are directories, and
 * its commands run on this machine. A place is found again by the label in it, also by another
 * process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/time.h"
#include "berth_plugin.h"
#include "os/fs.h"

#define TIMEOUT_MS_DEFAULT 300000
#define OUTPUT_BYTES_MAX (48 * 1024 * 1024)
#define PLACE_PREFIX "paperclip-fake-sandbox-"
#define LABEL_FILE "berth-label"

static char root[1024]; /* where the sandboxes are */

/* --- config --- */

struct config {
    char image_text[256];
    const char *image;
    int64_t timeout_ms;
    bool reuse;
};

static void read_config(const struct berth_json *object, struct config *out)
{
    out->image =
        berth_plugin_text(object, "image", "fake:latest", out->image_text, sizeof out->image_text);
    out->timeout_ms = berth_plugin_int(object, "timeoutMs", TIMEOUT_MS_DEFAULT);
    out->reuse = berth_plugin_bool(object, "reuseLease", false);
}

static void put_config(struct berth_json_writer *w, const struct config *c)
{
    berth_json_put_str(w, "image", c->image);
    berth_json_put_int(w, "timeoutMs", c->timeout_ms);
    berth_json_put_bool(w, "reuseLease", c->reuse);
}

static int fake_validate(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                         struct berth_error *err)
{
    (void)err;
    struct config c;
    read_config(call->config, &c);
    bool ok = c.timeout_ms >= 1 && c.timeout_ms <= 86400000;
    berth_json_put_bool(answer, "ok", ok);
    if (!ok) {
        berth_json_open_in(answer, "errors", '[');
        berth_json_put_str(answer, NULL, "timeoutMs must be between 1 and 86400000.");
        berth_json_close(answer, ']');
        return BERTH_OK;
    }
    berth_json_open_in(answer, "normalizedConfig", '{');
    put_config(answer, &c);
    berth_json_close(answer, '}');
    return BERTH_OK;
}

static int fake_probe(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                      struct berth_error *err)
{
    (void)err;
    struct config c;
    char summary[400];
    read_config(call->config, &c);
    (void)snprintf(summary, sizeof summary, "Fake sandbox provider is ready for image %s.",
                   c.image);
    berth_json_put_bool(answer, "ok", true);
    berth_json_put_str(answer, "summary", summary);
    berth_json_open_in(answer, "metadata", '{');
    berth_json_put_str(answer, "provider", "fake-plugin");
    put_config(answer, &c);
    berth_json_close(answer, '}');
    return BERTH_OK;
}

static int fake_health(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                       struct berth_error *err)
{
    (void)call, (void)err;
    berth_json_put_str(answer, "status", "ok");
    berth_json_put_str(answer, "message", "Fake sandbox provider plugin healthy");
    return BERTH_OK;
}

/* --- places --- */

/* "fake-plugin://ENVIRONMENT", or ".../RUN/LABEL": its directory has the same name, with dashes. */
static int path_of(const char *place_id, const char *inner, char *out, size_t size,
                   struct berth_error *err)
{
    static const char scheme[] = "fake-plugin://";
    const char *name = place_id + strlen(scheme);
    if (strncmp(place_id, scheme, strlen(scheme)) != 0 || !*name || strstr(name, ".."))
        return berth_fail(err, BERTH_E_INVALID, "Not a place of this provider: %s", place_id);
    int len = snprintf(out, size, "%s/" PLACE_PREFIX "%s%s", root, name, inner);
    for (char *c = out + strlen(root) + 1; *c && c < out + len - strlen(inner); c++)
        if (*c == '/')
            *c = '-';
    return len < (int)size ? BERTH_OK : berth_fail(err, BERTH_E_INVALID, "The id is too long.");
}

static void put_lease(struct berth_json_writer *w, const char *place_id, const struct config *c,
                      const char *path, bool resumed)
{
    char cwd[2048];
    (void)snprintf(cwd, sizeof cwd, "%s/workspace", path);
    berth_json_put_str(w, "providerLeaseId", place_id);
    berth_json_open_in(w, "metadata", '{');
    berth_json_put_str(w, "provider", "fake-plugin");
    berth_json_put_str(w, "image", c->image);
    berth_json_put_bool(w, "reuseLease", c->reuse);
    berth_json_put_str(w, "remoteCwd", cwd);
    berth_json_put_str(w, "fakeRootDir", path);
    berth_json_put_bool(w, "resumedLease", resumed);
    berth_json_close(w, '}');
}

/* The label says whose it is, and by which id it is known. */
static int write_label(const char *path, const char *lease_id, const char *environment_id,
                       const char *place_id, struct berth_error *err)
{
    char file[2048], text[1024];
    (void)snprintf(file, sizeof file, "%s/" LABEL_FILE, path);
    int len = snprintf(text, sizeof text, "%s\n%s\n%s\n", lease_id, environment_id, place_id);
    auto_close int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot write %s", file);
    return berth_fs_write_all(fd, text, (size_t)len, err);
}

/* Opens and locks the directory of all places: shared while a place is made, alone to tidy up.
 * Process ids would not tell whether the maker of a place lives, because each worker has a pid
 * namespace of its own. Closing the descriptor unlocks. */
static int lock_root(int operation)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, operation) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* A place is there with its label or not at all, whenever we are killed: it is made under another
 * name, and ends under one. */
static int make_place(const char *path, const char *lease_id, const char *environment_id,
                      const char *place_id, struct berth_error *err)
{
    char making[1600], workspace[1700];
    struct berth_error ignored;
    struct berth_id unique = berth_id_new();
    (void)snprintf(making, sizeof making, "%s/making-%s", root, unique.text);
    (void)snprintf(workspace, sizeof workspace, "%s/workspace", making);
    int rc = berth_fs_mkdirs(root, 0700, err);
    auto_close int lock = rc < 0 ? -1 : lock_root(LOCK_SH);
    if (rc == BERTH_OK && lock < 0)
        rc = berth_fail_errno(err, "Cannot lock %s", root);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(workspace, 0700, err);
    if (rc == BERTH_OK)
        rc = write_label(making, lease_id, environment_id, place_id, err);
    if (rc == BERTH_OK && rename(making, path) < 0 && errno != ENOTEMPTY && errno != EEXIST)
        rc = berth_fail_errno(err, "Cannot make %s", path);
    (void)berth_fs_remove_tree(making, &ignored); /* when the place was there already */
    return rc;
}

static int end_place(const char *path, struct berth_error *err)
{
    char ending[1600];
    struct berth_id unique = berth_id_new();
    (void)snprintf(ending, sizeof ending, "%s/ending-%s", root, unique.text);
    if (rename(path, ending) < 0)
        return errno == ENOENT ? BERTH_OK : berth_fail_errno(err, "Cannot remove %s", path);
    return berth_fs_remove_tree(ending, err);
}

/* Removes what earlier workers left half made or half removed, unless a place is being made. */
static void tidy(void)
{
    auto_close int lock = lock_root(LOCK_EX | LOCK_NB);
    DIR *dir = lock < 0 ? NULL : opendir(root);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[1600];
        struct berth_error ignored;
        (void)snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        if (strncmp(entry->d_name, "ending-", 7) == 0 || strncmp(entry->d_name, "making-", 7) == 0)
            (void)berth_fs_remove_tree(path, &ignored);
    }
    if (dir)
        (void)closedir(dir);
}

static int fake_acquire(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                        struct berth_error *err)
{
    struct config c;
    struct berth_id fresh = berth_id_new();
    char place_id[400], path[1600];
    const char *label = *call->lease_id ? call->lease_id : fresh.text;
    read_config(call->config, &c);
    if (c.reuse)
        (void)snprintf(place_id, sizeof place_id, "fake-plugin://%.100s", call->environment_id);
    else
        (void)snprintf(place_id, sizeof place_id, "fake-plugin://%.100s/%.100s", call->run_id,
                       label);
    int rc = path_of(place_id, "", path, sizeof path, err);
    if (rc == BERTH_OK)
        rc = make_place(path, label, call->environment_id, place_id, err);
    if (rc == BERTH_OK)
        put_lease(answer, place_id, &c, path, false);
    return rc;
}

static int fake_resume(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                       struct berth_error *err)
{
    struct config c;
    struct stat st;
    char path[1600];
    read_config(call->config, &c);
    if (path_of(call->provider_lease_id, "", path, sizeof path, err) == BERTH_OK &&
        stat(path, &st) == 0) {
        put_lease(answer, call->provider_lease_id, &c, path, true);
        return BERTH_OK;
    }
    berth_json_put_str(answer, "providerLeaseId", NULL);
    berth_json_open_in(answer, "metadata", '{');
    berth_json_put_bool(answer, "expired", true);
    berth_json_close(answer, '}');
    return BERTH_OK;
}

static int fake_destroy(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                        struct berth_error *err)
{
    (void)answer;
    char path[1600];
    if (!*call->provider_lease_id ||
        path_of(call->provider_lease_id, "", path, sizeof path, err) < 0)
        return BERTH_OK; /* unknown to us */
    return end_place(path, err);
}

static int fake_release(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                        struct berth_error *err)
{
    struct config c;
    read_config(call->config, &c);
    return c.reuse ? BERTH_OK : fake_destroy(call, answer, err);
}

static bool read_label(const char *name, char lines[3][300])
{
    char file[2048];
    struct berth_error ignored;
    auto_buf text = BERTH_BUF_INIT(1024);
    (void)snprintf(file, sizeof file, "%s/%s/" LABEL_FILE, root, name);
    auto_close int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || berth_fs_read_all(fd, &text, &ignored) < 0)
        return false;
    const char *at = berth_buf_str(&text);
    for (int i = 0; i < 3; i++) {
        size_t len = strcspn(at, "\n");
        if (!at[len] || len >= 300)
            return false;
        (void)snprintf(lines[i], 300, "%.*s", (int)len, at);
        at += len + 1;
    }
    return true;
}

static int fake_find(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                     struct berth_error *err)
{
    DIR *dir = opendir(root);
    if (!dir)
        return errno == ENOENT ? BERTH_OK : berth_fail_errno(err, "Cannot read %s", root);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char lines[3][300];
        bool made = strncmp(entry->d_name, PLACE_PREFIX, strlen(PLACE_PREFIX)) == 0;
        if (made && read_label(entry->d_name, lines) && strcmp(lines[1], call->environment_id) == 0)
            berth_plugin_put_found(answer, lines[0], lines[2]);
    }
    (void)closedir(dir);
    return BERTH_OK;
}

static int fake_realize(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                        struct berth_error *err)
{
    char text[2048], workspace[1700];
    const struct berth_json *wish = berth_json_get(call->params, "workspace");
    const char *cwd = berth_plugin_text(call->metadata, "remoteCwd", NULL, text, sizeof text);
    if (!cwd)
        cwd = berth_plugin_text(wish, "remotePath", NULL, text, sizeof text);
    if (!cwd && path_of(call->provider_lease_id, "/workspace", workspace, sizeof workspace, err) ==
                    BERTH_OK)
        cwd = workspace;
    if (!cwd)
        return berth_fail(err, BERTH_E_INVALID, "There is no place to work in.");
    int rc = berth_fs_mkdirs(cwd, 0700, err);
    if (rc < 0)
        return rc;
    berth_json_put_str(answer, "cwd", cwd);
    berth_json_open_in(answer, "metadata", '{');
    berth_json_put_str(answer, "provider", "fake-plugin");
    berth_json_put_str(answer, "remoteCwd", cwd);
    berth_json_close(answer, '}');
    return BERTH_OK;
}

/* --- commands --- */

static void put_command_line(struct berth_json_writer *w, const struct berth_json *params,
                             int64_t started_ms)
{
    const struct berth_json *args = berth_json_get(params, "args");
    auto_buf line = BERTH_BUF_INIT(OUTPUT_BYTES_MAX);
    berth_buf_puts(&line, berth_json_str(berth_json_get(params, "command")));
    for (size_t i = 0; i < berth_json_count(args); i++) {
        const char *arg = berth_json_str(berth_json_at(args, i));
        berth_buf_printf(&line, " %s", arg ? arg : "");
    }
    berth_json_open_in(w, "metadata", '{');
    berth_json_put_time(w, "startedAt", started_ms);
    berth_json_put_str(w, "commandLine", berth_buf_str(&line));
    berth_json_close(w, '}');
}

static int fake_execute(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                        struct berth_error *err)
{
    if (!*call->provider_lease_id) {
        berth_json_put_int(answer, "exitCode", 1);
        berth_json_put_bool(answer, "timedOut", false);
        berth_json_put_str(answer, "stdout", "");
        berth_json_put_str(answer, "stderr", "No provider lease ID available for execution.");
        return BERTH_OK;
    }
    int64_t started_ms = berth_time_wall_ms();
    int rc = berth_plugin_execute(call, NULL, answer, err);
    if (rc == BERTH_OK)
        put_command_line(answer, call->params, started_ms);
    return rc;
}

/* --- its life --- */

static int fake_setup(const struct berth_json *config, struct berth_error *err)
{
    (void)config;
    const char *state = getenv("BERTH_PLUGIN_STATE"), *temporary = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%.1000s", state ? state : temporary ? temporary : "/tmp");
    (void)err;
    tidy();
    return BERTH_OK;
}

int main(void)
{
    static const struct berth_plugin fake = {
        .name = "Fake sandbox provider plugin",
        .setup = fake_setup,
        .health = fake_health,
        .validate_config = fake_validate,
        .probe = fake_probe,
        .acquire = fake_acquire,
        .resume = fake_resume,
        .release = fake_release,
        .destroy = fake_destroy,
        .realize = fake_realize,
        .execute = fake_execute,
        .find = fake_find,
    };
    return berth_plugin_main(&fake);
}
