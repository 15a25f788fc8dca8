/* SPDX-License-Identifier: Apache-2.0
 * src/core/berth.h - the runtime: a store, drivers, and this process's name among others. */
#ifndef BERTH_CORE_BERTH_H
#define BERTH_CORE_BERTH_H

#include <pthread.h>
#include <stdint.h>

#include <berth/driver.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "core/driver.h"

struct berth_store;
struct berth_node;
struct berth_vault;
struct berth_pool;
struct berth_database;

/* What is not said otherwise, in milliseconds. */
struct berth_settings {
    int64_t lease_ttl_ms;     /* of a lease without a run */
    int64_t run_lease_ttl_ms; /* of a lease with one: its run's end comes first */
    int64_t idle_ttl_ms;      /* of a parked place; the config's idleTtlMs wins */
    int64_t retain_ttl_ms;    /* of a place kept after a failure */
    int64_t call_timeout_ms;  /* of one call to a driver, when the config sets none */
    int64_t node_lapse_ms;    /* without a heartbeat for so long, a node counts as dead */
    int64_t self_sweep_ms;    /* after a store error in the middle of something; 0: never */
    int64_t cleanup_retry_ms; /* before the first retry of a failed clean-up; doubles */
    int64_t cleanup_retry_max_ms;
};
#define BERTH_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .lease_ttl_ms = INT64_C(86400000), .run_lease_ttl_ms = INT64_C(604800000),                 \
        .idle_ttl_ms = INT64_C(86400000), .retain_ttl_ms = INT64_C(86400000),                      \
        .call_timeout_ms = INT64_C(300000), .node_lapse_ms = INT64_C(30000),                       \
        .self_sweep_ms = INT64_C(5000), .cleanup_retry_ms = INT64_C(5000),                         \
        .cleanup_retry_max_ms = INT64_C(3600000)                                                   \
    }

/* Safe to share between threads. */
struct berth {
    struct berth_store *store;
    struct berth_registry *registry;
    struct berth_node *node;
    struct berth_vault *vault;
    struct berth_pool *pool;      /* timers and short work */
    struct berth_pool *providers; /* calls to places, so that nothing else queues behind them */
    struct berth_log log;
    struct berth_settings settings;
    pthread_mutex_t sweeping_lock;
    struct berth_map sweeping; /* environments that a sweep is at work on */
    struct berth_map lanes;    /* provider -> how many jobs sweep its environments */
    _Atomic unsigned sweeps;   /* passes so far */
    bool sweep_set;            /* one is to come by itself */
    bool closing;              /* none is, any more */
    char *company_id;          /* of the company `default` */
    int closing_fd; /* readable when the runtime closes: the cancel_fd of its own calls */
};

struct berth_options {
    const char *store;               /* address; required */
    const char *key_file;            /* of the secrets; NULL: as berth_key_file says */
    struct berth_registry *registry; /* taken over in any case; NULL: the built-in drivers */
    struct berth_settings settings;
    struct berth_log log;
};
#define BERTH_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .settings = BERTH_SETTINGS_INIT                                                            \
    }

/* Where the key of a store's secrets is kept unless it is said otherwise: beside a store that is a
 * file (secrets.key for berth.db, NAME.key for any other NAME), in the data directory of the user
 * for one that is not. The caller's. */
int berth_key_file(const struct berth_store *store, char **out, struct berth_error *err);
/* $XDG_DATA_HOME/berth, else ~/.local/share/berth; the caller's. */
int berth_data_directory(char **out, struct berth_error *err);

int berth_open(const struct berth_options *options, struct berth **out, struct berth_error *err);
void berth_close(struct berth *b); /* NULL is fine */

/* The list of what is built in; builtin.c defines it, so that core names no database or driver. */
struct berth_builtins {
    const struct berth_database *const *databases; /* closed by NULL */
    int (*add_drivers)(struct berth_registry *registry, struct berth_error *err);
    void (*tune_process)(void); /* for programs, before their first berth_open */
};
extern const struct berth_builtins berth_builtins;
#endif
