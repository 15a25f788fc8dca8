/* SPDX-License-Identifier: Apache-2.0
 * src/core/id_prefix.h - what people write for an id: the id, or enough of its beginning. */
#ifndef BERTH_CORE_ID_PREFIX_H
#define BERTH_CORE_ID_PREFIX_H

#include "core/berth.h"
#include "store/prefix.h"

#define BERTH_PREFIX_LEN_MIN 4

/* Could the text be the beginning of an id? */
bool berth_id_prefix_valid(const char *text);
/* *out is the whole id, in the arena, of something of the company (NULL: of any). NOT_FOUND: none
 * begins so. CONFLICT: several do. */
int berth_id_prefix_find(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                         const char *company_id, const char *text, const char **out,
                         struct berth_error *err);
/* Whose the thing of that id is; both NULL: there is none. lease_id: of an exec or a lease. */
int berth_id_prefix_owner(struct berth *b, struct berth_arena *arena, enum berth_kind kind,
                          const char *id, const char **company_id, const char **lease_id,
                          struct berth_error *err);
#endif
