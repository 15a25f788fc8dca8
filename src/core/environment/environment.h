/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment.h - environments for the rest of core/, the API and the command
 * line. */
#ifndef BERTH_CORE_ENVIRONMENT_ENVIRONMENT_H
#define BERTH_CORE_ENVIRONMENT_ENVIRONMENT_H

#include <berth/environment.h>

#include "base/issues.h"
#include "core/activity.h"
#include "core/berth.h"
#include "core/environment/config.h"
#include "store/environment.h"

/* Takes the last step of a delete, for the sweep too. *deleted is false while leases stand. */
int berth_environment_finish_delete(struct berth *b, const char *id,
                                    const struct berth_actor *actor, bool *deleted,
                                    struct berth_error *err);
/* An environment that is tried and not kept. It is checked like a new one. Then `ready` says
 * whether to store it, and `also` writes a lease of it in the same transaction. Its row is marked
 * as being deleted, so that a sweep removes it with its last lease. Lists do not show it. */
struct berth_draft {
    int (*ready)(void *ctx, struct berth_environment *e, bool *stored, struct berth_error *err);
    int (*also)(struct berth_db *db, void *ctx, struct berth_error *err);
    void *ctx;
};
int berth_environment_draft(struct berth *b, struct berth_arena *arena,
                            const struct berth_environment_input *input,
                            const struct berth_draft *draft, struct berth_issues *issues,
                            struct berth_error *err);
int berth_environment_not_found(struct berth_error *err); /* fills the error, returns its code */
/* Writes the activity details of an environment: name, driver and status as JSON, in the arena. */
int berth_environment_details(struct berth_arena *arena, const struct berth_environment *e,
                              const char **out, struct berth_error *err);
/* Returns whether the environment is this machine itself: only an operator of the instance may use
 * it, and a company has one. */
bool berth_environment_in_place(const struct berth *b, const struct berth_environment *e);
void berth_environment_json(struct berth_json_writer *w, const struct berth_environment *e);
/* Writes the view for callers who may see the environment but not its config. */
void berth_environment_json_redacted(struct berth_json_writer *w,
                                     const struct berth_environment *e);
#endif
