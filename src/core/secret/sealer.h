/* SPDX-License-Identifier: Apache-2.0
 * src/core/secret/sealer.h - the keys that this process seals secrets with, from the key file. The
 * store says which of them is in use; a key that is missing here is looked for in the file again.
 */
#ifndef BERTH_CORE_SECRET_SEALER_H
#define BERTH_CORE_SECRET_SEALER_H

#include <stdbool.h>

#include <berth/common.h>

#include "crypto/keyfile.h"

struct berth_sealer; /* safe to share between threads */

int berth_sealer_new(const char *key_file, struct berth_sealer **out, struct berth_error *err);
void berth_sealer_free(struct berth_sealer *sealer); /* NULL is fine */
const char *berth_sealer_path(const struct berth_sealer *sealer);

/* A key for a store that has none yet; the file is made when there is none. */
int berth_sealer_first_key(struct berth_sealer *sealer, const char *store,
                           char id[BERTH_KEY_ID_SIZE], struct berth_error *err);
/* Is the key at hand? UNPROCESSABLE when it is not, with the cure. */
int berth_sealer_has(struct berth_sealer *sealer, const char *key_id, struct berth_error *err);
int berth_sealer_seal(struct berth_sealer *sealer, const char *key_id, const char *context,
                      const void *plain, size_t len, char **out, struct berth_error *err);
int berth_sealer_unseal(struct berth_sealer *sealer, const char *key_id, const char *context,
                        const char *sealed, struct berth_locked *out, struct berth_error *err);

/* --- for changing the key; the caller holds berth_keyfile_lock --- */

/* The store's newest key in the file, which holds them by age; `key_id` is one of them. */
int berth_sealer_newest_key(struct berth_sealer *sealer, const char *store, const char *key_id,
                            char newest[BERTH_KEY_ID_SIZE], struct berth_error *err);
/* One more; on the disk when this returns. */
int berth_sealer_add_key(struct berth_sealer *sealer, const char *store, char id[BERTH_KEY_ID_SIZE],
                         struct berth_error *err);
/* Of the store's keys only `key_id` and those in the list (of ids) stay. */
int berth_sealer_keep_only(struct berth_sealer *sealer, const char *store, const char *key_id,
                           const struct berth_list *needed, struct berth_error *err);
#endif
