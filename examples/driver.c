/* SPDX-License-Identifier: Apache-2.0
 * examples/driver.c - a driver that is not part of berth: each place is a directory. main() adds it
 * to a registry, creates an environment, and acquires and releases a lease.
 * docs/adding-a-driver.md explains each part. */
#define _GNU_SOURCE 1 /* for CLOCK_BOOTTIME and fts(3) */
#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <jansson.h>

#include <berth/berth.h>

#define LABEL "berth-" /* the place of a lease is the directory berth-LEASE in the root */

/* Returns `root` of the config, in the arena. NULL: it is missing, or memory ran out. */
static const char *config_root(struct berth_call *call, const char *config_json)
{
    json_t *config = json_loads(config_json, 0, NULL);
    const char *root = json_string_value(json_object_get(config, "root"));
    const char *copy = berth_arena_strdup(call->arena, root);
    json_decref(config);
    return copy;
}

static int directory_validate(struct berth_driver *d, struct berth_call *call,
                              const char *config_json, enum berth_config_use use,
                              struct berth_issues *issues, const char **normalised,
                              struct berth_error *err)
{
    (void)d, (void)use, (void)normalised, (void)err;
    const char *root = config_root(call, config_json);
    struct stat status;
    if (!root || *root != '/')
        berth_issues_add(issues, "root", "root: expected the absolute path of a directory");
    else if (stat(root, &status) < 0 || !S_ISDIR(status.st_mode))
        berth_issues_add(issues, "root", "root: %s is not a directory", root);
    return BERTH_OK;
}

/* Finds the name and the path of a place. A place without id is found by its lease. */
static int place_path(struct berth_call *call, const struct berth_place_request *who,
                      const char *place_id, const char **name, const char **path,
                      struct berth_error *err)
{
    const char *root = config_root(call, who->config_json);
    if (!root)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "The config has no root.");
    *name = place_id ? place_id : berth_arena_printf(call->arena, LABEL "%s", who->lease_id);
    *path = *name ? berth_arena_printf(call->arena, "%s/%s", root, *name) : NULL;
    return *path ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
}

static int directory_acquire(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, struct berth_place *out,
                             struct berth_error *err)
{
    (void)d;
    const char *name, *path;
    int rc = place_path(call, who, NULL, &name, &path, err);
    if (rc < 0)
        return rc;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return berth_fail_errno(err, "Cannot make the directory %s", path);
    *out = (struct berth_place){.id = name};
    return BERTH_OK;
}

static int directory_realize(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const struct berth_workspace *workspace, struct berth_realized *out,
                             struct berth_error *err)
{
    (void)d, (void)workspace;
    const char *name;
    *out = (struct berth_realized){0};
    return place_path(call, who, place->id, &name, &out->cwd, err);
}

static bool is_place(const char *name)
{
    return strncmp(name, LABEL, strlen(LABEL)) == 0 && !strchr(name, '/');
}

/* Returns an error when the caller has given up, or the deadline has passed. */
static int check_call(const struct berth_call *call, struct berth_error *err)
{
    struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
    struct timespec now;
    if (poll(&cancel, 1, 0) > 0)
        return berth_fail(err, BERTH_E_CANCELLED, "The caller has given up.");
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    if ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 >= call->deadline_ms)
        return berth_fail(err, BERTH_E_TIMEOUT, "The deadline has passed.");
    return BERTH_OK;
}

static int directory_release(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             enum berth_release_mode mode, struct berth_error *err)
{
    (void)d, (void)mode; /* places are never parked */
    const char *name, *path;
    int rc = place_path(call, who, place->id, &name, &path, err);
    if (rc < 0 || !is_place(name))
        return rc;
    char *paths[] = {(char *)(uintptr_t)path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!tree)
        return berth_fail_errno(err, "Cannot read %s", path);
    for (FTSENT *entry; rc == BERTH_OK && (entry = fts_read(tree));) {
        rc = check_call(call, err);
        if (rc == BERTH_OK && entry->fts_info != FTS_D && remove(entry->fts_path) < 0 &&
            errno != ENOENT)
            rc = berth_fail_errno(err, "Cannot remove %s", entry->fts_path);
    }
    (void)fts_close(tree);
    return rc;
}

static int directory_find(struct berth_driver *d, struct berth_call *call,
                          const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                          struct berth_error *err)
{
    (void)d;
    const char *root = config_root(call, who->config_json);
    if (!root)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "The config has no root.");
    DIR *directory = opendir(root);
    if (!directory)
        return berth_fail_errno(err, "Cannot read %s", root);
    int rc = BERTH_OK;
    for (struct dirent *entry; rc == BERTH_OK && (entry = readdir(directory));)
        if (is_place(entry->d_name))
            rc = each(ctx, entry->d_name + strlen(LABEL), entry->d_name, err);
    (void)closedir(directory);
    return rc;
}

static void directory_free(struct berth_driver *d)
{
    free(d);
}

static const struct berth_driver_ops directory_ops = {
    .validate = directory_validate,
    .acquire = directory_acquire,
    .realize = directory_realize,
    .release = directory_release,
    .free = directory_free,
};
static const struct berth_driver_finder directory_finder = {.find = directory_find};
static const struct berth_driver_traits directory_traits = {
    .name = "directory",
    .finder = &directory_finder,
};

/* Adds the driver to a registry: it serves environments whose provider is `directory`. */
static int add_driver(struct berth_registry *registry, struct berth_error *err)
{
    struct berth_driver *driver = malloc(sizeof *driver);
    if (!driver)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    *driver = (struct berth_driver){.ops = &directory_ops, .traits = &directory_traits};
    return berth_registry_add(registry, "sandbox", "directory", driver, err);
}

/* Creates an environment. The config is checked by directory_validate. */
static int create_environment(struct berth *b, struct berth_arena *arena, const char *root,
                              struct berth_environment **out, struct berth_error *err)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = arena};
    json_t *config = json_pack("{s:s, s:s}", "provider", "directory", "root", root);
    char *config_json = json_dumps(config, 0);
    input.name = root;
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = config_json;
    int rc = berth_environment_create(b, arena, &input, &issues, out, err);
    free(config_json);
    json_decref(config);
    return rc;
}

/* Acquires a lease, and releases it. */
static int use_lease(struct berth *b, struct berth_arena *arena,
                     const struct berth_environment *environment, struct berth_error *err)
{
    struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
    struct berth_release_request end = BERTH_RELEASE_REQUEST_INIT;
    struct berth_workspace workspace = {0};
    struct berth_realized where;
    struct berth_lease *lease;
    request.environment_id = berth_environment_id(environment);
    int rc = berth_lease_acquire(b, arena, &request, &lease, err);
    if (rc < 0)
        return rc;
    rc = berth_lease_realize(b, arena, berth_lease_id(lease), &workspace, &where, err);
    if (rc == BERTH_OK)
        printf("the place is %s\n", where.cwd);
    end.lease_id = berth_lease_id(lease);
    struct berth_error trouble;
    int released = berth_lease_release(b, arena, &end, &lease, rc < 0 ? &trouble : err);
    return rc < 0 ? rc : released;
}

int main(int argc, char **argv)
{
    struct berth_error err;
    struct berth_options options = BERTH_OPTIONS_INIT;
    struct berth_sweep_options sweep = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    struct berth_environment *environment;
    struct berth *b = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: driver STORE ROOT\n");
        return 2;
    }
    options.store = argv[1];
    struct berth_arena *arena = berth_arena_new();
    int rc = arena ? berth_registry_new_builtin(&options.registry, &err)
                   : berth_fail(&err, BERTH_E_NO_MEMORY, "Out of memory.");
    if (rc == BERTH_OK) {
        rc = add_driver(options.registry, &err);
        if (rc < 0)
            berth_registry_free(options.registry);
    }
    if (rc == BERTH_OK)
        rc = berth_open(&options, &b, &err); /* takes the registry over */
    if (rc == BERTH_OK)
        rc = create_environment(b, arena, argv[2], &environment, &err);
    if (rc == BERTH_OK)
        rc = use_lease(b, arena, environment, &err);
    if (rc == BERTH_OK)
        rc = berth_sweep(b, &sweep, &report, &err);
    if (rc == BERTH_OK)
        printf("adopted %d, found %d, owed %d\n", report.adopted, report.found, report.owed);
    else
        fprintf(stderr, "driver: %s\n", err.message);
    berth_arena_free(arena);
    berth_close(b);
    return rc < 0;
}
