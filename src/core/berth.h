/* SPDX-License-Identifier: Apache-2.0
 * src/core/berth.h - the runtime: a store, drivers, and this process's name among others. */
#ifndef BERTH_CORE_BERTH_H
#define BERTH_CORE_BERTH_H

#include <pthread.h>
#include <stdint.h>

#include <berth/berth.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "core/driver.h"
#include "core/metrics.h"

struct berth_store;
struct berth_node;
struct berth_sealer;
struct berth_engine;
struct berth_pool;
struct berth_database;
struct berth_late_place;
struct berth_exec_note;
struct berth_journal;
struct berth_run_job;
struct berth_lease_exec;
struct berth_plugins;
struct berth_manager_ops;
struct berth_package_ops;
struct berth_workers;
struct berth_check_request;
struct berth_check_result;

/* Safe to share between threads. */
struct berth {
    struct berth_store *store;
    struct berth_registry *registry;
    struct berth_node *node;
    struct berth_sealer *vault;
    struct berth_engine *engine; /* runs commands; its thread comes with the first */
    pthread_mutex_t strays_lock; /* and of the notes and their journal */
    char **strays; /* labels of execs that are over: what carries one is to be ended */
    int stray_count, stray_cap;
    bool strays_set;                            /* it is going to be, soon */
    struct berth_exec_note *notes, **notes_end; /* of execs, to be written; core/run/exec_rows.c */
    bool notes_set;
    struct berth_journal *journal; /* that has them meanwhile */
    pthread_mutex_t notes_lock;    /* one writes them at a time, and whoever reads waits for that */
    pthread_mutex_t roster_lock;
    pthread_cond_t roster_changed;
    struct berth_lease_exec *roster; /* execs that run; core/lease/lease_execs.c */
    int roster_waiters;
    bool roster_set; /* their leases are going to be looked at */
    struct berth_plugins *plugins;
    struct berth_pool *pool;      /* timers and short work */
    struct berth_pool *providers; /* calls to places, so that nothing else queues behind them */
    struct berth_log log;
    struct berth_settings settings;
    struct berth_histogram metrics[BERTH_METRICS];
    pthread_mutex_t runs_lock;
    pthread_cond_t runs_changed; /* one is over */
    struct berth_run_job *runs;  /* that nobody waits for; core/run/run_job.c */
    bool runs_closing;
    pthread_mutex_t sweeping_lock;
    struct berth_map sweeping;     /* environments that a sweep is at work on */
    struct berth_map lanes;        /* provider -> how many jobs sweep its environments */
    _Atomic unsigned sweeps;       /* passes so far */
    bool sweep_set;                /* one is to come by itself */
    _Atomic bool sweep_missed;     /* one should, but there was no memory for it */
    bool closing;                  /* none is, any more */
    struct berth_late_place *late; /* places to be recorded; core/lease/late_place.c */
    bool late_set;                 /* they are going to be, soon */
    char *company_id;              /* of the company `default` */
    char *store_id;                /* the name that the store goes by in a key file */
    int closing_fd; /* readable when the runtime closes: the cancel_fd of its own calls */
};

/* Where the key of a store's secrets is kept unless it is said otherwise: beside a store that is a
 * file (secrets.key for berth.db, NAME.key for any other NAME), in the data directory of the user
 * for one that is not. The caller's. */
int berth_key_file(const struct berth_store *store, char **out, struct berth_error *err);
/* NAME/ in the same directory: logs/ has the output of commands. The caller's. */
int berth_directory(const struct berth *b, const char *name, char **out, struct berth_error *err);
/* The address of the user's own store; the caller's. */
int berth_default_store(char **out, struct berth_error *err);
/* $XDG_DATA_HOME/berth, else ~/.local/share/berth; the caller's. */
int berth_data_directory(char **out, struct berth_error *err);

/* What a route to the worker of a plugin is made of; see driver/worker.h. */
struct berth_worker_route {
    struct berth_workers *workers;
    const char *plugin_id, *plugin_key, *driver_key, *schema_json;
    bool sandbox;
    int64_t ready_ms, poll_ms;
};

/* The list of what is built in; builtin.c defines it, so that core names no database or driver. */
struct berth_builtins {
    const struct berth_database *const *databases; /* closed by NULL */
    int (*add_drivers)(struct berth_registry *registry, struct berth_error *err);
    void (*tune_process)(void); /* for programs, before their first berth_open */
    const struct berth_manager_ops *manager;
    const struct berth_package_ops *packages;
    int (*check)(struct berth_engine *engine, const struct berth_check_request *request,
                 void (*each)(void *ctx, const struct berth_check_result *result), void *ctx,
                 struct berth_error *err); /* a berth_check_fn */
    int (*new_worker)(const struct berth_worker_route *what, struct berth_driver **out,
                      struct berth_error *err);
};
extern const struct berth_builtins berth_builtins;
#endif
