/* SPDX-License-Identifier: Apache-2.0
 * src/core/id_prefix.h - what people write for an id: the id, or enough of its beginning. */
#ifndef BERTH_CORE_ID_PREFIX_H
#define BERTH_CORE_ID_PREFIX_H

#include "core/berth.h"
#include "store/prefix.h"

#define BERTH_PREFIX_LEN_MIN 4

/* Returns whether the text could be the beginning of an id. */
bool berth_id_prefix_valid(const char *text);
/* Finds the whole id that begins with the text, among the company's things (NULL: any company's).
 * *out is in the arena. NOT_FOUND: no id begins with it. CONFLICT: several do. */
int berth_id_prefix_find(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                         const char *company_id, const char *text, const char **out,
                         struct berth_error *err);
/* Finds the company of the thing with that id, and the lease of an exec or a lease. Both are NULL
 * when no thing has the id. */
int berth_id_prefix_owner(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                          const char *id, const char **company_id, const char **lease_id,
                          struct berth_error *err);
#endif
