/* SPDX-License-Identifier: Apache-2.0
 * src/core/environment/environment_change.h - what creating and updating an environment share. */
#ifndef BERTH_CORE_ENVIRONMENT_ENVIRONMENT_CHANGE_H
#define BERTH_CORE_ENVIRONMENT_ENVIRONMENT_CHANGE_H

#include "core/environment/environment.h"
#include "core/secret/secret_refs.h"

/* One change in progress. */
struct berth_environment_change {
    struct berth *b;
    struct berth_arena *arena;
    const struct berth_environment_input *input;
    struct berth_json *config, *metadata; /* as given, or NULL */
    const char *id;
    struct berth_environment *environment;  /* as it will be stored */
    const struct berth_environment *before; /* update: as it was read */
    const char *details_json;               /* of the activity */
    bool configured;                        /* there is a config to store, with: */
    struct berth_list references;           /* of struct berth_secret_ref */
    struct berth_list pasted;               /* of struct berth_pasted: secrets to create */
    const struct berth_draft *draft;
    bool again; /* update: the environment has changed since it was read */
};

/* Checks the input, and reads its two documents. berth_environment_change_end frees them, also
 * after an error. */
int berth_environment_change_begin(struct berth_environment_change *c, struct berth_error *err);
void berth_environment_change_end(struct berth_environment_change *c);
/* Normalises `config` and sets it in the environment, with its fingerprint. */
int berth_environment_change_config(struct berth_environment_change *c,
                                    const struct berth_json *config, struct berth_issues *issues,
                                    struct berth_error *err);
int berth_environment_change_metadata(struct berth_environment_change *c, struct berth_error *err);

/* --- in the transaction that stores the environment --- */

/* CONFLICT: the company has another local environment. A unique index makes sure of it, too. */
int berth_environment_refuse_second_local(struct berth_db *db,
                                          const struct berth_environment_change *c,
                                          struct berth_error *err);
/* Creates the pasted secrets, binds all secrets of the config, and deletes those that are unused
 * now. */
int berth_environment_store_secrets(struct berth_db *db, const struct berth_environment_change *c,
                                    struct berth_error *err);
#endif
