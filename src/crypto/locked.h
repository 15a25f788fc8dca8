/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/locked.h - memory for what must not get out: kept from swap and from core files, not
 * inherited by children, zeroed when it goes. */
#ifndef BERTH_CRYPTO_LOCKED_H
#define BERTH_CRYPTO_LOCKED_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/secret.h>

/* Room for `cap` bytes, and never more: what grows leaves copies. */
int berth_locked_new(size_t cap, struct berth_locked *out, struct berth_error *err);
/* The caller knows that it fits. */
void berth_locked_append(struct berth_locked *locked, const void *bytes, size_t len);
/* A copy of each, in an array of their own. NULL: no memory. */
struct berth_locked *berth_locked_copy_all(const struct berth_locked *values, int count);
void berth_locked_free_all(struct berth_locked *values, int count); /* NULL is fine */
#define auto_locked __attribute__((cleanup(berth_locked_clear))) struct berth_locked

/* All that `fd` gives, up to `max` bytes; TOO_LARGE beyond. */
int berth_locked_read(int fd, size_t max, struct berth_locked *out, struct berth_error *err);
/* Takes the same time wherever they differ; lengths are no secret. */
bool berth_same_bytes(const void *a, size_t a_len, const void *b, size_t b_len);

/* For programs that hold secrets: no core files, and no other process of the user may look in. */
void berth_deny_dumps(void);
#endif
