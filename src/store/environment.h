/* SPDX-License-Identifier: Apache-2.0
 * src/store/environment.h - rows of environments. */
#ifndef BERTH_STORE_ENVIRONMENT_H
#define BERTH_STORE_ENVIRONMENT_H

#include <berth/environment.h>

#include "store/row.h"

/* The drivers of the API. This table is the only place outside driver/ and builtin.c that names
 * them. X(enumerator, word, how its implementation is found). */
#define BERTH_DRIVER_WORDS(X)                                                                      \
    X(LOCAL, "local", BUILTIN)                                                                     \
    X(SSH, "ssh", BUILTIN)                                                                         \
    X(SANDBOX, "sandbox", PROVIDER)                                                                \
    X(PLUGIN, "plugin", PLUGIN)
/* The driver of the environment that every company has. */
#define BERTH_DRIVER_DEFAULT BERTH_DRIVER_LOCAL

enum berth_route_kind {
    BERTH_ROUTE_BUILTIN,  /* by the driver's word */
    BERTH_ROUTE_PROVIDER, /* by the config's `provider` */
    BERTH_ROUTE_PLUGIN,   /* by the config's `pluginKey` and `driverKey` */
};
extern const enum berth_route_kind berth_driver_kinds[]; /* by enum berth_environment_driver */
/* Returns the kind of a driver by its word; an unknown word is BUILTIN. */
enum berth_route_kind berth_driver_kind(const char *word);
/* Returns the word of the driver that finds its routes by provider or by plugin. */
const char *berth_driver_word(enum berth_route_kind kind);

extern const struct berth_enum berth_environment_drivers, berth_environment_statuses;

struct berth_environment {
    const char *id, *company_id, *name, *description;
    enum berth_environment_driver driver;
    enum berth_environment_status status;
    const char *config_json;   /* normalised and canonical; holds ids of secrets, not values */
    const char *metadata_json; /* or NULL */
    const char *fingerprint;   /* of driver and config: parked places must match it */
    bool deleting;             /* is deleted when its last lease is closed */
    int64_t created_at_ms;     /* 0: a draft that is probed; not in the lists of a company */
    int64_t updated_at_ms;
    const char *trouble; /* in lists: why the row cannot be read, or NULL */
};

int berth_environment_insert(struct berth_db *db, const struct berth_environment *environment,
                             struct berth_error *err);
/* *out is NULL when there is no such row. INTERNAL: the row cannot be read. */
int berth_environment_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                           enum berth_row_lock lock, struct berth_environment **out,
                           struct berth_error *err);
/* Waits for other transactions that called this for the environment, and makes later ones wait
 * until the commit. */
int berth_environment_take_turns(struct berth_db *db, const char *id, struct berth_error *err);
/* Lists struct berth_environment, last changed first. A row that cannot be read is in the list,
 * with `trouble` set. */
int berth_environment_select(struct berth_db *db, struct berth_arena *arena,
                             const struct berth_environment_filter *filter, struct berth_list *out,
                             struct berth_error *err);
/* Lists the environments that are marked `deleting` and have no standing lease. */
int berth_environment_select_drained(struct berth_db *db, struct berth_arena *arena,
                                     struct berth_list *out, struct berth_error *err);
/* Updates every column except id, company and creation time. */
int berth_environment_save(struct berth_db *db, const struct berth_environment *environment,
                           struct berth_error *err);
int berth_environment_remove(struct berth_db *db, const char *id, struct berth_error *err);
#endif
