/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/secret_provider.h - the keys that this process seals secrets with, from the key
 * file. The store says which of them is in use; a key that is missing here is looked for in the
 * file again. */
#ifndef BERTH_CORE_SECRET_SECRET_PROVIDER_H
#define BERTH_CORE_SECRET_SECRET_PROVIDER_H

#include <stdbool.h>

#include <berth/common.h>

#include "crypto/keyfile.h"

struct berth_secret_provider; /* safe to share between threads */

int berth_secret_provider_new(const char *key_file, struct berth_secret_provider **out,
                              struct berth_error *err);
void berth_secret_provider_free(struct berth_secret_provider *provider); /* NULL is fine */
const char *berth_secret_provider_path(const struct berth_secret_provider *provider);

/* Makes a key for a store that has no key yet. Makes the key file when it does not exist. */
int berth_secret_provider_first_key(struct berth_secret_provider *provider, const char *store,
                                    char id[BERTH_KEY_ID_SIZE], struct berth_error *err);
/* Checks that the key is available. UNPROCESSABLE: it is not; the error says what to do. */
int berth_secret_provider_has(struct berth_secret_provider *provider, const char *key_id,
                              struct berth_error *err);
int berth_secret_provider_seal(struct berth_secret_provider *provider, const char *key_id,
                               const char *context, const void *plain, size_t len, char **out,
                               struct berth_error *err);
int berth_secret_provider_unseal(struct berth_secret_provider *provider, const char *key_id,
                                 const char *context, const char *sealed, struct berth_locked *out,
                                 struct berth_error *err);

/* --- for changing the key; the caller holds berth_keyfile_lock --- */

/* Finds the store's newest key in the file. The file must contain `key_id`. */
int berth_secret_provider_newest_key(struct berth_secret_provider *provider, const char *store,
                                     const char *key_id, char newest[BERTH_KEY_ID_SIZE],
                                     struct berth_error *err);
/* Adds a new key for the store. The key is on disk when this returns. */
int berth_secret_provider_add_key(struct berth_secret_provider *provider, const char *store,
                                  char id[BERTH_KEY_ID_SIZE], struct berth_error *err);
/* Removes the store's keys from the file, except `key_id` and those in the list of ids. */
int berth_secret_provider_keep_only(struct berth_secret_provider *provider, const char *store,
                                    const char *key_id, const struct berth_list *needed,
                                    struct berth_error *err);
#endif
