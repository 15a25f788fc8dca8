/* SPDX-License-Identifier: Apache-2.0
 * src/core/berth.h - the runtime, and the list of what is built in. */
#ifndef BERTH_CORE_BERTH_H
#define BERTH_CORE_BERTH_H

#include <stdint.h>

#include <berth/berth.h>

#include "base/arena.h"
#include "base/log.h"
#include "core/driver.h"

struct berth_store;
struct berth_node;
struct berth_secret_provider;
struct berth_engine;
struct berth_pool;
struct berth_database;
struct berth_exec_journal;
struct berth_late_places;
struct berth_mask_budget;
struct berth_metrics;
struct berth_lease_execs;
struct berth_plugins;
struct berth_run_jobs;
struct berth_self_sweep;
struct berth_shares;
struct berth_sweep_slots;
struct berth_manager_ops;
struct berth_package_ops;
struct berth_workers;

/* The runtime: handles to what it consists of. Safe to share between threads: each member is set by
 * berth_open and guards its own state. Locks: core/lock_order.h. */
struct berth {
    struct berth_settings settings;
    struct berth_log log;
    char *company_id; /* of the company `default` */
    char *store_id;   /* names the store in a key file */
    const char
        *socket; /* where the daemon of this process listens; or NULL. Outlives the runtime */
    _Atomic int64_t clock_jumped_ms; /* what the log was last told (lease/lease_clock.c) */
    int closing_fd; /* readable when the runtime closes: the cancel_fd of its own calls */

    struct berth_store *store;
    struct berth_registry *registry;
    struct berth_node *node;
    struct berth_secret_provider *secret_provider;
    struct berth_engine *engine;    /* of the registry; its thread starts with the first use */
    struct berth_pool *pool;        /* timers and short work */
    struct berth_shares *providers; /* calls to places, so that nothing else queues behind them */
    struct berth_plugins *plugins;
    struct berth_metrics *metrics;

    struct berth_exec_journal *exec_journal; /* rows of execs, not written yet */
    struct berth_lease_execs *lease_execs;   /* running commands, by lease */
    struct berth_mask_budget *mask_budget;   /* memory for secrets that commands hide */
    struct berth_run_jobs *run_jobs;         /* runs that this process performs */
    struct berth_late_places *late_places;   /* places to write down */
    struct berth_self_sweep *self_sweep;     /* of rows that this process left unfinished */
    struct berth_sweep_slots *sweep_slots;   /* environments being swept */
};

/* Cancels the runtime's calls to places, before berth_close does: the ledger owes what they left.
 * Workers that still run after workers_ms are killed. Only berth_close may follow. */
void berth_cancel_calls(struct berth *b, int64_t workers_ms);

/* Returns whether the runtime's calls to places are cancelled. From any thread. */
bool berth_is_closing(const struct berth *b);

/* What a route to the worker of a plugin is made of; see driver/worker.h. */
struct berth_worker_route {
    struct berth_engine *engine;
    struct berth_workers *workers;
    struct berth_budget *inputs;
    const char *plugin_id, *plugin_key, *driver_key, *schema_json;
    bool sandbox;
    int64_t start_ms, ready_ms, poll_ms;
};

/* The list of what is built in; builtin.c defines it, so that core names no database or driver. */
struct berth_builtins {
    const struct berth_database *const *databases; /* closed by NULL */
    int (*add_drivers)(struct berth_registry *registry, struct berth_error *err);
    const char *provider_default; /* of a sandbox whose config does not name a provider */
    void (*tune_process)(void);   /* for programs, before their first berth_open */
    const struct berth_manager_ops *manager;
    const struct berth_package_ops *packages;
    int (*new_worker)(const struct berth_worker_route *what, struct berth_driver **out,
                      struct berth_error *err);
};
extern const struct berth_builtins berth_builtins;
#endif
