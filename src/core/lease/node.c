/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/node.c - see node.h. */
#include "core/lease/node.h"
#include "core/lock_order.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/time.h"
#include "crypto/hash.h"
#include "os/fs.h"
#include "os/lockfile.h"
#include "os/pool.h"
#include "store/node.h"
#include "store/store.h"

#define FORGET_LAPSES 100 /* lapses for which a dead node's row is kept, for inspection */

#define MACHINE_NAME_SIZE (HOST_NAME_MAX + 1 + sizeof "/12345678")

struct berth_node {
    struct berth_id id;
    struct berth_store *store;
    struct berth_pool *pool;
    int64_t lapse_ms;
    char machine[MACHINE_NAME_SIZE];

    char *directory; /* of the locked files; NULL in a shared store */
    int lock_fd;

    struct berth_lock lock;
    struct berth_map working; /* lease id -> how many threads are at work on it */
    int64_t beat_at_ms;       /* monotonic, of the last beat that arrived */
    bool beating;
};

/* --- one machine: a locked file --- */

static char *node_path(const struct berth_node *node, const char *id)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", node->directory, id) < 0 ? NULL : path;
}

/* Sets *alive to whether the node's file is locked. When it is missing or can be locked, the node
 * is dead. */
static int file_alive(struct berth_node *node, const char *id, bool *alive, struct berth_error *err)
{
    enum berth_lockfile state = BERTH_LOCKFILE_NONE;
    auto_close int fd = -1;
    auto_free char *path = node_path(node, id);
    if (!path)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: node.");
    int rc = berth_lockfile_look(path, &state, &fd, err);
    if (state == BERTH_LOCKFILE_DEAD)
        (void)unlink(path);
    *alive = state == BERTH_LOCKFILE_HELD;
    return rc;
}

static int open_files(struct berth_node *node, struct berth_error *err)
{
    auto_free char *copy = strdup(berth_store_where(node->store));
    if (!copy || asprintf(&node->directory, "%s/nodes", dirname(copy)) < 0) {
        node->directory = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: node.");
    }
    auto_free char *path = node_path(node, node->id.text);
    int rc = path ? berth_fs_mkdirs(node->directory, 0700, err)
                  : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: node.");
    if (rc < 0)
        return rc;
    node->lock_fd = berth_lockfile_make(path, err);
    return node->lock_fd < 0 ? node->lock_fd : BERTH_OK;
}

static void close_files(struct berth_node *node)
{
    if (node->lock_fd < 0)
        return;
    auto_free char *path = node_path(node, node->id.text);
    if (path)
        (void)unlink(path);
    (void)close(node->lock_fd);
}

/* --- many machines: a heartbeat by the database's clock --- */

struct beat {
    struct berth_node *node;
    const char *id; /* of the node */
    bool alive;
    struct berth_arena *arena;
    const char *machine;
};

/* Writes the name of this machine: the host's name and a part of a hash of the machine's id,
 * because two machines may have the same name. It stays the same when the machine starts again. */
static void name_machine(char out[MACHINE_NAME_SIZE])
{
    char id[64] = "", hash[BERTH_SHA256_HEX_SIZE] = "";
    struct berth_error ignored; /* without the id, the host's name has to do */
    (void)gethostname(out, HOST_NAME_MAX + 1);
    out[HOST_NAME_MAX] = '\0';
    auto_close int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, id, sizeof id);
    if (len > 0 && berth_sha256_hex(id, (size_t)len, hash, &ignored) == BERTH_OK)
        (void)sprintf(out + strlen(out), "/%.8s", hash);
}

static int tx_beat(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct beat *beat = ctx;
    return berth_node_beat(db, beat->id, beat->node->machine, getpid(), err);
}

static int tx_machine(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct beat *beat = ctx;
    return berth_node_machine(db, beat->arena, beat->id, &beat->machine, err);
}

static int tx_alive(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct beat *beat = ctx;
    return berth_node_alive(db, beat->id, beat->node->lapse_ms, &beat->alive, err);
}

static int tx_forget_dead(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct beat *beat = ctx;
    return berth_node_remove_dead(db, beat->node->lapse_ms * FORGET_LAPSES, err);
}

static int tx_remove(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct beat *beat = ctx;
    return berth_node_remove(db, beat->id, err);
}

static int beat_once(struct berth_node *node, struct berth_error *err)
{
    struct beat beat = {.node = node, .id = node->id.text};
    int64_t sent_at_ms = berth_time_mono_ms(); /* the row says no later than this */
    int rc = berth_store_tx(node->store, tx_beat, &beat, err);
    if (rc == BERTH_OK) {
        berth_lock_take(&node->lock);
        node->beat_at_ms = sent_at_ms;
        berth_lock_drop(&node->lock);
    }
    return rc;
}

/* Renews itself until the pool, which is freed before the node, drops what is only timed. */
static void beat_job(void *ctx)
{
    struct berth_node *node = ctx;
    struct berth_error ignored; /* may_act tells, by the time of the last beat that arrived */
    (void)beat_once(node, &ignored);
    struct timespec wait = {.tv_nsec = 100 * 1000000};
    while (berth_pool_after(node->pool, node->lapse_ms / 5, beat_job, node, &ignored) < 0)
        (void)nanosleep(&wait, NULL); /* out of memory for now; a node that falls silent is dead */
}

static int start_beating(struct berth_node *node, struct berth_error *err)
{
    int rc = beat_once(node, err);
    if (rc == BERTH_OK)
        rc = berth_pool_after(node->pool, node->lapse_ms / 5, beat_job, node, err);
    node->beating = rc == BERTH_OK;
    return rc;
}

/* --- both --- */

int berth_node_open(struct berth_store *store, struct berth_pool *pool, int64_t lapse_ms,
                    struct berth_node **out, struct berth_error *err)
{
    struct berth_node *node = calloc(1, sizeof *node);
    if (!node)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: node.");
    node->id = berth_id_new();
    node->store = store;
    node->pool = pool;
    node->lapse_ms = lapse_ms;
    node->lock_fd = -1;
    name_machine(node->machine);
    berth_lock_init(&node->lock, BERTH_RANK_NODE);
    int rc = berth_store_shared(store) ? start_beating(node, err) : open_files(node, err);
    if (rc < 0) {
        berth_node_close(node);
        return rc;
    }
    *out = node;
    return BERTH_OK;
}

void berth_node_close(struct berth_node *node)
{
    if (!node)
        return;
    close_files(node);
    if (node->beating) {
        struct beat beat = {.node = node, .id = node->id.text};
        struct berth_error ignored; /* a row that stays counts as dead soon */
        (void)berth_store_tx(node->store, tx_remove, &beat, &ignored);
    }
    berth_lock_destroy(&node->lock);
    berth_map_clear(&node->working);
    free(node->directory);
    free(node);
}

const char *berth_node_id(const struct berth_node *node)
{
    return node->id.text;
}

int berth_node_claim(struct berth_node *node, const char *lease_id, struct berth_error *err)
{
    berth_lock_take(&node->lock);
    uintptr_t count = (uintptr_t)berth_map_get(&node->working, lease_id);
    bool ok = berth_map_put(&node->working, lease_id, (void *)(count + 1));
    berth_lock_drop(&node->lock);
    return ok ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: node.");
}

void berth_node_unclaim(struct berth_node *node, const char *lease_id)
{
    berth_lock_take(&node->lock);
    uintptr_t count = (uintptr_t)berth_map_get(&node->working, lease_id);
    if (count > 1)
        (void)berth_map_put(&node->working, lease_id, (void *)(count - 1)); /* it is there: fits */
    else
        (void)berth_map_remove(&node->working, lease_id);
    berth_lock_drop(&node->lock);
}

int berth_node_at_work(struct berth_node *node, const char *owner, const char *lease_id, int own,
                       bool *out, struct berth_error *err)
{
    *out = false;
    if (!owner)
        return BERTH_OK;
    if (strcmp(owner, node->id.text) == 0) {
        berth_lock_take(&node->lock);
        *out = (uintptr_t)berth_map_get(&node->working, lease_id) > (uintptr_t)own;
        berth_lock_drop(&node->lock);
        return BERTH_OK;
    }
    if (!berth_store_shared(node->store))
        return file_alive(node, owner, out, err);
    struct beat beat = {.node = node, .id = owner};
    int rc = berth_store_read(node->store, tx_alive, &beat, err);
    *out = beat.alive;
    return rc;
}

/* The host's name may change, the machine's id does not: the names count only where an id is
 * missing. */
static bool same_machine(const char *a, const char *b)
{
    const char *id_a = strrchr(a, '/'), *id_b = strrchr(b, '/');
    return id_a && id_b ? strcmp(id_a, id_b) == 0 : strcmp(a, b) == 0;
}

int berth_node_foreign_machine(struct berth_node *node, struct berth_arena *arena, const char *id,
                               const char **out, struct berth_error *err)
{
    struct beat beat = {.node = node, .id = id, .arena = arena};
    int rc = berth_store_shared(node->store) ? berth_store_read(node->store, tx_machine, &beat, err)
                                             : BERTH_OK;
    bool foreign = beat.machine && !same_machine(beat.machine, node->machine);
    *out = foreign ? beat.machine : NULL;
    return rc;
}

int berth_node_forget_dead(struct berth_node *node, struct berth_error *err)
{
    if (berth_store_shared(node->store)) {
        struct beat beat = {.node = node};
        return berth_store_tx(node->store, tx_forget_dead, &beat, err);
    }
    auto_dir *dir = opendir(node->directory);
    if (!dir)
        return berth_fail_errno(err, "Cannot read %s", node->directory);
    int rc = BERTH_OK;
    for (struct dirent *entry; rc == BERTH_OK && (entry = readdir(dir));) {
        bool alive;
        if (berth_id_valid(entry->d_name) && strcmp(entry->d_name, node->id.text) != 0)
            rc = file_alive(node, entry->d_name, &alive, err); /* removes a dead one's file */
    }
    return rc;
}

static int64_t silent_ms(struct berth_node *node)
{
    berth_lock_take(&node->lock);
    int64_t since_ms = berth_time_mono_ms() - node->beat_at_ms;
    berth_lock_drop(&node->lock);
    return since_ms;
}

int berth_node_may_act(struct berth_node *node, struct berth_error *err)
{
    if (!node->beating)
        return BERTH_OK;
    int64_t since_ms = silent_ms(node);
    if (since_ms <= node->lapse_ms / 2)
        return BERTH_OK;
    /* The timer may be late, or the store back; but after a whole lapse others have taken over
     * what this node was at, and only what begins afterwards may act. */
    struct berth_error ignored;
    if (beat_once(node, &ignored) == BERTH_OK && since_ms < node->lapse_ms)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "The store has not been reached for %lld ms: no provider is called until it "
                      "is.",
                      (long long)since_ms);
}
