/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/sealer.c - see sealer.h. */
#include "core/lock_order.h"
#include "core/secret/sealer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/lock.h"

#define LOCK_WAIT_MS 10000 /* for somebody who changes the key file */

struct berth_sealer {
    char *path;
    struct berth_lock lock;
    struct berth_locked memory; /* of the ring */
    struct berth_keyring *ring; /* as the file was when it was last read; empty before */
};

int berth_sealer_new(const char *key_file, struct berth_sealer **out, struct berth_error *err)
{
    struct berth_sealer *sealer = calloc(1, sizeof *sealer);
    if (!sealer)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: keys.");
    berth_lock_init(&sealer->lock, BERTH_RANK_SEALER);
    sealer->path = strdup(key_file);
    int rc = sealer->path ? berth_keyring_new(&sealer->memory, &sealer->ring, err)
                          : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: keys.");
    if (rc < 0) {
        berth_sealer_free(sealer);
        return rc;
    }
    *out = sealer;
    return BERTH_OK;
}

void berth_sealer_free(struct berth_sealer *sealer)
{
    if (!sealer)
        return;
    berth_locked_clear(&sealer->memory);
    berth_lock_destroy(&sealer->lock);
    free(sealer->path);
    free(sealer);
}

const char *berth_sealer_path(const struct berth_sealer *sealer)
{
    return sealer->path;
}

/* What was read before stays when the file cannot be read now. Lock held. */
static int sealer_reload(struct berth_sealer *sealer, struct berth_error *err)
{
    auto_locked memory = BERTH_LOCKED_INIT;
    struct berth_keyring *ring;
    int rc = berth_keyring_new(&memory, &ring, err);
    if (rc == BERTH_OK)
        rc = berth_keyfile_read(sealer->path, ring, err);
    if (rc == BERTH_OK)
        *sealer->ring = *ring;
    return rc;
}

/* Lock held. */
static int sealer_find(struct berth_sealer *sealer, const char *id, const struct berth_key **out,
                       struct berth_error *err)
{
    *out = berth_keyring_find(sealer->ring, id);
    if (*out)
        return BERTH_OK;
    int rc = sealer_reload(sealer, err);
    if (rc < 0 && rc != BERTH_E_NOT_FOUND)
        return rc;
    *out = rc == BERTH_OK ? berth_keyring_find(sealer->ring, id) : NULL;
    if (*out)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "The secrets of this store are sealed with the key %s, which is not in %s: "
                      "copy the key file from where they were made, or from a backup.",
                      id, sealer->path);
}

/* Adds a key to the file, or makes it with one; lock and the file's lock held. */
static int add_key(struct berth_sealer *sealer, const char *store, struct berth_error *err)
{
    int rc = sealer_reload(sealer, err);
    bool fresh = rc == BERTH_E_NOT_FOUND;
    if (fresh)
        sealer->ring->count = 0;
    berth_keyfile_tidy(sealer->path);
    if (rc == BERTH_OK || fresh)
        rc = berth_keyring_add(sealer->ring, store, err);
    if (rc < 0)
        return rc;
    return fresh ? berth_keyfile_create(sealer->path, sealer->ring, err)
                 : berth_keyfile_replace(sealer->path, sealer->ring, err);
}

int berth_sealer_has(struct berth_sealer *sealer, const char *key_id, struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&sealer->lock);
    int rc = sealer_find(sealer, key_id, &key, err);
    berth_lock_drop(&sealer->lock);
    return rc;
}

int berth_sealer_seal(struct berth_sealer *sealer, const char *key_id, const char *context,
                      const void *plain, size_t len, char **out, struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&sealer->lock);
    int rc = sealer_find(sealer, key_id, &key, err);
    if (rc == BERTH_OK)
        rc = berth_seal(key->bytes, context, plain, len, out, err);
    berth_lock_drop(&sealer->lock);
    return rc;
}

int berth_sealer_unseal(struct berth_sealer *sealer, const char *key_id, const char *context,
                        const char *sealed, struct berth_locked *out, struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&sealer->lock);
    int rc = sealer_find(sealer, key_id, &key, err);
    if (rc == BERTH_OK)
        rc = berth_unseal(key->bytes, context, sealed, out, err);
    berth_lock_drop(&sealer->lock);
    return rc;
}

/* The store's newest key, or NULL. Lock held. */
static const struct berth_key *newest_of(const struct berth_sealer *sealer, const char *store)
{
    for (int i = sealer->ring->count - 1; i >= 0; i--)
        if (strcmp(sealer->ring->keys[i].store, store) == 0)
            return &sealer->ring->keys[i];
    return NULL;
}

/* The file's lock is taken before ours: whoever changes keys holds it for longer. */
int berth_sealer_first_key(struct berth_sealer *sealer, const char *store,
                           char id[BERTH_KEY_ID_SIZE], struct berth_error *err)
{
    auto_close int file_lock = -1;
    int rc = berth_keyfile_lock(sealer->path, LOCK_WAIT_MS, &file_lock, err);
    if (rc < 0)
        return rc;
    berth_lock_take(&sealer->lock);
    rc = sealer_reload(sealer, err);
    if (rc == BERTH_E_NOT_FOUND || (rc == BERTH_OK && !newest_of(sealer, store)))
        rc = add_key(sealer, store, err);
    if (rc == BERTH_OK)
        memcpy(id, newest_of(sealer, store)->id, BERTH_KEY_ID_SIZE);
    berth_lock_drop(&sealer->lock);
    return rc;
}

/* As the file is now, and with that key in it. Lock held. */
static int reload_with(struct berth_sealer *sealer, const char *key_id, struct berth_error *err)
{
    const struct berth_key *key;
    int rc = sealer_reload(sealer, err);
    if (rc == BERTH_E_NOT_FOUND)
        sealer->ring->count = 0;
    return rc < 0 && rc != BERTH_E_NOT_FOUND ? rc : sealer_find(sealer, key_id, &key, err);
}

int berth_sealer_newest_key(struct berth_sealer *sealer, const char *store, const char *key_id,
                            char newest[BERTH_KEY_ID_SIZE], struct berth_error *err)
{
    berth_lock_take(&sealer->lock);
    int rc = reload_with(sealer, key_id, err);
    if (rc == BERTH_OK) {
        const struct berth_key *key = newest_of(sealer, store);
        memcpy(newest, key ? key->id : key_id, BERTH_KEY_ID_SIZE);
    }
    berth_lock_drop(&sealer->lock);
    return rc;
}

int berth_sealer_add_key(struct berth_sealer *sealer, const char *store, char id[BERTH_KEY_ID_SIZE],
                         struct berth_error *err)
{
    berth_lock_take(&sealer->lock);
    int rc = add_key(sealer, store, err);
    if (rc == BERTH_OK)
        memcpy(id, newest_of(sealer, store)->id, BERTH_KEY_ID_SIZE);
    berth_lock_drop(&sealer->lock);
    return rc;
}

static bool is_needed(const struct berth_key *key, const char *key_id,
                      const struct berth_list *needed)
{
    bool wanted = strcmp(key->id, key_id) == 0;
    for (int i = 0; i < needed->count; i++)
        wanted |= strcmp(key->id, needed->items[i]) == 0;
    return wanted;
}

int berth_sealer_keep_only(struct berth_sealer *sealer, const char *store, const char *key_id,
                           const struct berth_list *needed, struct berth_error *err)
{
    berth_lock_take(&sealer->lock);
    int rc = reload_with(sealer, key_id, err);
    for (int i = sealer->ring->count - 1; rc == BERTH_OK && i >= 0; i--) {
        const struct berth_key *key = &sealer->ring->keys[i];
        char id[BERTH_KEY_ID_SIZE];
        memcpy(id, key->id, sizeof id);
        if (strcmp(key->store, store) == 0 && !is_needed(key, key_id, needed))
            berth_keyring_drop(sealer->ring, id);
    }
    if (rc == BERTH_OK)
        rc = berth_keyfile_replace(sealer->path, sealer->ring, err);
    berth_lock_drop(&sealer->lock);
    return rc;
}
