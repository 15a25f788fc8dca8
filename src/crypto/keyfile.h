/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/keyfile.h - the keys that secrets are sealed with, in a file only its owner may read.
 * A store has one key in it; two while it is being changed. */
#ifndef BERTH_CRYPTO_KEYFILE_H
#define BERTH_CRYPTO_KEYFILE_H

#include "crypto/seal.h"

#define BERTH_KEYS_MAX 256
#define BERTH_KEY_ID_SIZE 17    /* 16 hex digits, derived from key and store, and the NUL */
#define BERTH_KEY_STORE_SIZE 37 /* a UUID and the NUL */

struct berth_key {
    char id[BERTH_KEY_ID_SIZE];
    char store[BERTH_KEY_STORE_SIZE]; /* whose secrets it seals; several may share a file */
    unsigned char bytes[BERTH_KEY_BYTES];
};

/* Lives in locked memory: berth_keyring_new makes room for one. */
struct berth_keyring {
    int count;
    struct berth_key keys[BERTH_KEYS_MAX];
};
int berth_keyring_new(struct berth_locked *memory, struct berth_keyring **out,
                      struct berth_error *err);
const struct berth_key *berth_keyring_find(const struct berth_keyring *ring, const char *id);
/* A fresh key for the store, added as the last. */
int berth_keyring_add(struct berth_keyring *ring, const char *store, struct berth_error *err);
void berth_keyring_drop(struct berth_keyring *ring, const char *id);

/* NOT_FOUND: there is no file. DENIED: its owner or mode is wrong; the text has the cure. INVALID:
 * it is damaged, or no key file. */
int berth_keyfile_read(const char *path, struct berth_keyring *ring, struct berth_error *err);
/* Makes the file; CONFLICT when there is one, perhaps since a moment ago. Never half a file. */
int berth_keyfile_create(const char *path, const struct berth_keyring *ring,
                         struct berth_error *err);
/* Puts another in its place: whoever reads finds the old or the new. */
int berth_keyfile_replace(const char *path, const struct berth_keyring *ring,
                          struct berth_error *err);
/* Takes the lock that a change of the file needs, on a file beside it; *fd is the caller's. Then
 * removes unfinished files (FILE.berth-new-XXXXXX) that a killed writer left. CONFLICT: another
 * process has held the lock for `wait_ms`. */
int berth_keyfile_lock(const char *path, int wait_ms, int *fd, struct berth_error *err);
#endif
