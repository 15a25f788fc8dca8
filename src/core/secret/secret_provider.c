/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret_provider.c - see secret_provider.h. */
#include "core/lock_order.h"
#include "core/secret/secret_provider.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/lock.h"

#define LOCK_WAIT_MS 10000 /* for another process that changes the key file */

struct berth_secret_provider {
    char *path;
    struct berth_lock lock;
    struct berth_locked memory; /* of the ring */
    struct berth_keyring *ring; /* as the file was when it was last read; empty before */
};

int berth_secret_provider_new(const char *key_file, struct berth_secret_provider **out,
                              struct berth_error *err)
{
    struct berth_secret_provider *provider = calloc(1, sizeof *provider);
    if (!provider)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: keys.");
    berth_lock_init(&provider->lock, BERTH_RANK_SECRET_PROVIDER);
    provider->path = strdup(key_file);
    int rc = provider->path ? berth_keyring_new(&provider->memory, &provider->ring, err)
                            : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: keys.");
    if (rc < 0) {
        berth_secret_provider_free(provider);
        return rc;
    }
    *out = provider;
    return BERTH_OK;
}

void berth_secret_provider_free(struct berth_secret_provider *provider)
{
    if (!provider)
        return;
    berth_locked_clear(&provider->memory);
    berth_lock_destroy(&provider->lock);
    free(provider->path);
    free(provider);
}

const char *berth_secret_provider_path(const struct berth_secret_provider *provider)
{
    return provider->path;
}

/* What was read before stays when the file cannot be read now. Lock held. */
static int provider_reload(struct berth_secret_provider *provider, struct berth_error *err)
{
    auto_locked memory = BERTH_LOCKED_INIT;
    struct berth_keyring *ring;
    int rc = berth_keyring_new(&memory, &ring, err);
    if (rc == BERTH_OK)
        rc = berth_keyfile_read(provider->path, ring, err);
    if (rc == BERTH_OK)
        *provider->ring = *ring;
    return rc;
}

/* Lock held. */
static int provider_find(struct berth_secret_provider *provider, const char *id,
                         const struct berth_key **out, struct berth_error *err)
{
    *out = berth_keyring_find(provider->ring, id);
    if (*out)
        return BERTH_OK;
    int rc = provider_reload(provider, err);
    if (rc < 0 && rc != BERTH_E_NOT_FOUND)
        return rc;
    *out = rc == BERTH_OK ? berth_keyring_find(provider->ring, id) : NULL;
    if (*out)
        return BERTH_OK;
    return berth_fail(err, BERTH_E_UNPROCESSABLE,
                      "The secrets of this store are sealed with the key %s, which is not in %s: "
                      "copy the key file from where they were made, or from a backup.",
                      id, provider->path);
}

/* Adds a key to the file, or makes it with one; lock and the file's lock held. */
static int add_key(struct berth_secret_provider *provider, const char *store,
                   struct berth_error *err)
{
    int rc = provider_reload(provider, err);
    bool fresh = rc == BERTH_E_NOT_FOUND;
    if (fresh)
        provider->ring->count = 0;
    if (rc == BERTH_OK || fresh)
        rc = berth_keyring_add(provider->ring, store, err);
    if (rc < 0)
        return rc;
    return fresh ? berth_keyfile_create(provider->path, provider->ring, err)
                 : berth_keyfile_replace(provider->path, provider->ring, err);
}

int berth_secret_provider_has(struct berth_secret_provider *provider, const char *key_id,
                              struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&provider->lock);
    int rc = provider_find(provider, key_id, &key, err);
    berth_lock_drop(&provider->lock);
    return rc;
}

int berth_secret_provider_seal(struct berth_secret_provider *provider, const char *key_id,
                               const char *context, const void *plain, size_t len, char **out,
                               struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&provider->lock);
    int rc = provider_find(provider, key_id, &key, err);
    if (rc == BERTH_OK)
        rc = berth_seal(key->bytes, context, plain, len, out, err);
    berth_lock_drop(&provider->lock);
    return rc;
}

int berth_secret_provider_unseal(struct berth_secret_provider *provider, const char *key_id,
                                 const char *context, const char *sealed, struct berth_locked *out,
                                 struct berth_error *err)
{
    const struct berth_key *key;
    berth_lock_take(&provider->lock);
    int rc = provider_find(provider, key_id, &key, err);
    if (rc == BERTH_OK)
        rc = berth_unseal(key->bytes, context, sealed, out, err);
    berth_lock_drop(&provider->lock);
    return rc;
}

/* The store's newest key, or NULL. Lock held. */
static const struct berth_key *newest_of(const struct berth_secret_provider *provider,
                                         const char *store)
{
    for (int i = provider->ring->count - 1; i >= 0; i--)
        if (strcmp(provider->ring->keys[i].store, store) == 0)
            return &provider->ring->keys[i];
    return NULL;
}

/* Takes the file's lock before ours, because a change of keys holds the file's lock for long. */
int berth_secret_provider_first_key(struct berth_secret_provider *provider, const char *store,
                                    char id[BERTH_KEY_ID_SIZE], struct berth_error *err)
{
    auto_close int file_lock = -1;
    int rc = berth_keyfile_lock(provider->path, LOCK_WAIT_MS, &file_lock, err);
    if (rc < 0)
        return rc;
    berth_lock_take(&provider->lock);
    rc = provider_reload(provider, err);
    if (rc == BERTH_E_NOT_FOUND || (rc == BERTH_OK && !newest_of(provider, store)))
        rc = add_key(provider, store, err);
    if (rc == BERTH_OK)
        memcpy(id, newest_of(provider, store)->id, BERTH_KEY_ID_SIZE);
    berth_lock_drop(&provider->lock);
    return rc;
}

/* As the file is now, and with that key in it. Lock held. */
static int reload_with(struct berth_secret_provider *provider, const char *key_id,
                       struct berth_error *err)
{
    const struct berth_key *key;
    int rc = provider_reload(provider, err);
    if (rc == BERTH_E_NOT_FOUND)
        provider->ring->count = 0;
    return rc < 0 && rc != BERTH_E_NOT_FOUND ? rc : provider_find(provider, key_id, &key, err);
}

int berth_secret_provider_newest_key(struct berth_secret_provider *provider, const char *store,
                                     const char *key_id, char newest[BERTH_KEY_ID_SIZE],
                                     struct berth_error *err)
{
    berth_lock_take(&provider->lock);
    int rc = reload_with(provider, key_id, err);
    if (rc == BERTH_OK) {
        const struct berth_key *key = newest_of(provider, store);
        memcpy(newest, key ? key->id : key_id, BERTH_KEY_ID_SIZE);
    }
    berth_lock_drop(&provider->lock);
    return rc;
}

int berth_secret_provider_add_key(struct berth_secret_provider *provider, const char *store,
                                  char id[BERTH_KEY_ID_SIZE], struct berth_error *err)
{
    berth_lock_take(&provider->lock);
    int rc = add_key(provider, store, err);
    if (rc == BERTH_OK)
        memcpy(id, newest_of(provider, store)->id, BERTH_KEY_ID_SIZE);
    berth_lock_drop(&provider->lock);
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

int berth_secret_provider_keep_only(struct berth_secret_provider *provider, const char *store,
                                    const char *key_id, const struct berth_list *needed,
                                    struct berth_error *err)
{
    berth_lock_take(&provider->lock);
    int rc = reload_with(provider, key_id, err);
    for (int i = provider->ring->count - 1; rc == BERTH_OK && i >= 0; i--) {
        const struct berth_key *key = &provider->ring->keys[i];
        char id[BERTH_KEY_ID_SIZE];
        memcpy(id, key->id, sizeof id);
        if (strcmp(key->store, store) == 0 && !is_needed(key, key_id, needed))
            berth_keyring_drop(provider->ring, id);
    }
    if (rc == BERTH_OK)
        rc = berth_keyfile_replace(provider->path, provider->ring, err);
    berth_lock_drop(&provider->lock);
    return rc;
}
