/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment.h - what the sweep and the programs need besides
 * berth/environment.h. */
#ifndef BERTH_CORE_ENVIRONMENT_ENVIRONMENT_H
#define BERTH_CORE_ENVIRONMENT_ENVIRONMENT_H

#include <berth/environment.h>

#include "base/issues.h"
#include "core/activity.h"
#include "core/berth.h"
#include "core/environment/config.h"
#include "store/environment.h"

/* The last step of a delete, also taken by the sweep; *deleted false: leases stand. */
int berth_environment_finish_delete(struct berth *b, const char *id,
                                    const struct berth_actor *actor, bool *deleted,
                                    struct berth_error *err);
/* One that is tried and not kept. It is checked like one that is to be created; then `ready` says
 * whether it is to be stored, and `also` writes a lease of it in the same transaction. It stands as
 * one that is being deleted, so that whatever happens a sweep removes it with its last lease; lists
 * do not show it. */
struct berth_draft {
    int (*ready)(void *ctx, struct berth_environment *e, bool *stored, struct berth_error *err);
    int (*also)(struct berth_db *db, void *ctx, struct berth_error *err);
    void *ctx;
};
int berth_environment_draft(struct berth *b, struct berth_arena *arena,
                            const struct berth_environment_input *input,
                            const struct berth_draft *draft, struct berth_issues *issues,
                            struct berth_error *err);
/* Returns whether the environment is this machine itself: only an operator of the instance may use
 * it, and a company has one. */
bool berth_environment_in_place(const struct berth *b, const struct berth_environment *e);
void berth_environment_json(struct berth_json_writer *w, const struct berth_environment *e);
/* For those who may know that it is there, and not how it is configured. */
void berth_environment_json_redacted(struct berth_json_writer *w,
                                     const struct berth_environment *e);
#endif
