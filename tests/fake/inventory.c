/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/inventory.c - see inventory.h. */
#include "inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"

#define SCHEME "inventory://"

struct inventory {
    struct berth_driver base;
    char directory[PATH_MAX];
};

static void path_of(const struct inventory *inv, const char *name, const char *suffix,
                    char out[PATH_MAX * 2])
{
    (void)snprintf(out, PATH_MAX * 2, "%s/%s%s", inv->directory, name, suffix);
}

static bool config_says(const struct berth_place_request *who, const char *key, const char *value)
{
    auto_json *config = NULL;
    struct berth_error err;
    if (berth_json_parse(who->config_json, strlen(who->config_json), BERTH_JSON_OURS, &config,
                         &err) < 0)
        return false;
    const struct berth_json *found = berth_json_get(config, key);
    if (!value)
        return berth_json_true(found);
    return berth_json_str(found) && strcmp(berth_json_str(found), value) == 0;
}

static int answer(struct berth_call *call, const char *name, struct berth_place *out,
                  struct berth_error *err)
{
    out->id = berth_arena_printf(call->arena, SCHEME "%s", name);
    /* It tries to speak for the ledger, too. */
    out->metadata_json = berth_arena_printf(
        call->arena, "{\"sandboxId\":\"%s\",\"driver\":\"evil\",\"reuseLease\":\"maybe\"}", name);
    return berth_arena_check(call->arena, err);
}

static int make_file(const char *path, bool *made, struct berth_error *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    *made = fd >= 0;
    if (fd < 0 && errno != EEXIST)
        return berth_fail_errno(err, "inventory: %s", path);
    return BERTH_OK;
}

static int inventory_acquire(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, struct berth_place *out,
                             struct berth_error *err)
{
    struct inventory *inv = (struct inventory *)d;
    char path[PATH_MAX * 2];
    path_of(inv, who->lease_id, "", path);
    bool made;
    int rc = make_file(path, &made, err);
    if (rc < 0)
        return rc;
    if (config_says(who, "acquire", "fail"))
        return berth_fail(err, BERTH_E_UPSTREAM, "inventory: told to fail after making a place");
    return answer(call, who->lease_id, out, err);
}

/* Returns the file name of a place's id, or "". */
static const char *name_of(const struct berth_place *place)
{
    if (!place->id || strncmp(place->id, SCHEME, strlen(SCHEME)) != 0)
        return "";
    return place->id + strlen(SCHEME);
}

static int inventory_resume(struct berth_driver *d, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            struct berth_place *out, struct berth_error *err)
{
    struct inventory *inv = (struct inventory *)d;
    char path[PATH_MAX * 2], parked[PATH_MAX * 2];
    const char *name = name_of(place);
    path_of(inv, name, "", path);
    path_of(inv, name, ".parked", parked);
    if (config_says(who, "resume", "fail"))
        return berth_fail(err, BERTH_E_UPSTREAM, "stale sandbox");
    if (config_says(who, "resume", "gone")) {
        (void)unlink(path);
        (void)unlink(parked);
    }
    if (config_says(who, "resume", "decline")) {
        (void)unlink(parked); /* it was started, and is not given */
        return BERTH_OK;
    }
    if (access(path, F_OK) < 0)
        return BERTH_OK; /* gone is an answer */
    (void)unlink(parked);
    return answer(call, name, out, err);
}

static int inventory_destroy(const struct inventory *inv, const struct berth_place_request *who,
                             const struct berth_place *place)
{
    const char *name = place->id ? name_of(place) : who->lease_id;
    char path[PATH_MAX * 2];
    if (!berth_id_valid(name))
        return BERTH_OK; /* never one of ours */
    path_of(inv, name, ".parked", path);
    (void)unlink(path);
    path_of(inv, name, "", path);
    (void)unlink(path);
    return BERTH_OK;
}

static int inventory_release(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             enum berth_release_mode mode, struct berth_error *err)
{
    (void)call;
    struct inventory *inv = (struct inventory *)d;
    char path[PATH_MAX * 2];
    if (mode == BERTH_RELEASE_DESTROY || !config_says(who, "reuseLease", NULL) || !place->id)
        return inventory_destroy(inv, who, place);
    path_of(inv, name_of(place), "", path);
    if (access(path, F_OK) < 0)
        return BERTH_OK;
    path_of(inv, name_of(place), ".parked", path);
    bool made;
    return make_file(path, &made, err);
}

static int inventory_find(struct berth_driver *d, struct berth_call *call,
                          const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                          struct berth_error *err)
{
    (void)call, (void)who;
    struct inventory *inv = (struct inventory *)d;
    DIR *dir = opendir(inv->directory);
    if (!dir)
        return berth_fail_errno(err, "inventory: %s", inv->directory);
    int rc = BERTH_OK;
    for (struct dirent *entry; rc == BERTH_OK && (entry = readdir(dir));) {
        if (!berth_id_valid(entry->d_name))
            continue;
        char id[sizeof SCHEME + BERTH_ID_SIZE];
        (void)snprintf(id, sizeof id, SCHEME "%.36s", entry->d_name);
        rc = each(ctx, entry->d_name, id, err);
    }
    (void)closedir(dir);
    return rc;
}

static int inventory_probe(struct berth_driver *d, struct berth_call *call,
                           const struct berth_place_request *who, struct berth_probe *out,
                           struct berth_error *err)
{
    struct berth_place place = {0};
    int rc = inventory_acquire(d, call, who, &place, err);
    if (rc == BERTH_OK)
        rc = inventory_destroy((struct inventory *)d, who, &place);
    *out = (struct berth_probe){.ok = rc == BERTH_OK, .summary = "The inventory can be written."};
    return rc;
}

static int inventory_realize(struct berth_driver *d, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const struct berth_workspace *workspace, struct berth_realized *out,
                             struct berth_error *err)
{
    (void)d, (void)who, (void)place, (void)workspace;
    out->cwd = berth_arena_strdup(call->arena, "/");
    return berth_arena_check(call->arena, err);
}

static void inventory_free(struct berth_driver *d)
{
    free(d);
}

static const struct berth_driver_ops inventory_ops = {
    .probe = inventory_probe,
    .acquire = inventory_acquire,
    .resume = inventory_resume,
    .realize = inventory_realize,
    .release = inventory_release,
    .free = inventory_free,
};

static const struct berth_driver_finder inventory_finder = {.find = inventory_find};

static const struct berth_driver_traits inventory_traits = {.name = "inventory",
                                                            .finder = &inventory_finder};

int inventory_new(const char *directory, struct berth_driver **out, struct berth_error *err)
{
    struct inventory *inv = calloc(1, sizeof *inv);
    if (!inv)
        return berth_fail(err, BERTH_E_NO_MEMORY, "inventory");
    inv->base = (struct berth_driver){.ops = &inventory_ops, .traits = &inventory_traits};
    (void)snprintf(inv->directory, sizeof inv->directory, "%s", directory);
    *out = &inv->base;
    return BERTH_OK;
}

int inventory_count(const char *directory)
{
    int count = 0;
    DIR *dir = opendir(directory);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += berth_id_valid(entry->d_name);
    (void)closedir(dir);
    return count;
}

bool inventory_has(const char *directory, const char *place_id)
{
    char path[PATH_MAX * 2];
    struct berth_place place = {.id = place_id};
    (void)snprintf(path, sizeof path, "%s/%s", directory, name_of(&place));
    return *name_of(&place) && access(path, F_OK) == 0;
}
