/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment.h - named places where work can run: create, change, look, end.
 * Every answer lives in the arena that is handed in. */
#ifndef BERTH_CORE_ENVIRONMENT_H
#define BERTH_CORE_ENVIRONMENT_H

#include "base/issues.h"
#include "core/activity.h"
#include "core/berth.h"
#include "core/config.h"
#include "store/environment.h"

enum berth_environment_field {
    BERTH_FIELD_NAME = 1 << 0,
    BERTH_FIELD_DESCRIPTION = 1 << 1,
    BERTH_FIELD_DRIVER = 1 << 2,
    BERTH_FIELD_STATUS = 1 << 3,
    BERTH_FIELD_CONFIG = 1 << 4,
    BERTH_FIELD_METADATA = 1 << 5,
};

/* What create sets and update changes; `fields` says which were given. */
struct berth_environment_input {
    unsigned fields;        /* of enum berth_environment_field */
    const char *company_id; /* create: NULL is the company `default` */
    const char *name, *description;
    enum berth_environment_driver driver;
    enum berth_environment_status status;
    const struct berth_json *config, *metadata; /* borrowed */
    enum berth_config_use use;                  /* PERSIST for what comes from outside */
    const struct berth_actor *actor;
};
#define BERTH_ENVIRONMENT_INPUT_INIT                                                               \
    {                                                                                              \
        .use = BERTH_CONFIG_PERSIST                                                                \
    }

/* `issues` gets all that is wrong with the config. CONFLICT: a second local environment. */
int berth_environment_create(struct berth *b, struct berth_arena *arena,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err);
/* A config is merged over the one there while the driver stays, and stands alone when it changes.
 * Open leases keep what they captured. */
int berth_environment_update(struct berth *b, struct berth_arena *arena, const char *id,
                             const struct berth_environment_input *input,
                             struct berth_issues *issues, struct berth_environment **out,
                             struct berth_error *err);
/* Parked places are ended first; open leases too with `drain`, else they are a CONFLICT. While a
 * place is not confirmed gone the environment stays, archived, and the sweep finishes. */
int berth_environment_delete(struct berth *b, struct berth_arena *arena, const char *id, bool drain,
                             const struct berth_actor *actor, struct berth_environment **out,
                             struct berth_error *err);
/* The last step of a delete, also taken by the sweep; *deleted false: leases stand. */
int berth_environment_finish_delete(struct berth *b, const char *id,
                                    const struct berth_actor *actor, bool *deleted,
                                    struct berth_error *err);
/* The company's local environment; made when there is none. */
int berth_environment_ensure_local(struct berth *b, struct berth_arena *arena,
                                   const char *company_id, struct berth_environment **out,
                                   struct berth_error *err);

int berth_environment_get(struct berth *b, struct berth_arena *arena, const char *id,
                          struct berth_environment **out, struct berth_error *err);
/* A list of struct berth_environment; filter->company_id NULL is the company `default`. */
int berth_environment_list(struct berth *b, struct berth_arena *arena,
                           const struct berth_environment_filter *filter, struct berth_list *out,
                           struct berth_error *err);
int berth_environment_probe(struct berth *b, struct berth_arena *arena, const char *id,
                            const struct berth_actor *actor, struct berth_probe *out,
                            struct berth_error *err);
void berth_environment_json(struct berth_json_writer *w, const struct berth_environment *e);
#endif
