/* SPDX-License-Identifier: Apache-2.0
 * include/berth/berth.h - the whole interface of libberth: opens a store and includes all other
 * headers.
 *
 * A place is where commands run: this machine, a remote machine, a sandbox. A lease is the right to
 * use one. The store is a ledger of all leases: a place stays in it until it is confirmed gone.
 * No daemon is needed. Several processes may use one store at the same time. */
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include <berth/activity.h>
#include <berth/common.h>
#include <berth/company.h>
#include <berth/driver.h>
#include <berth/environment.h>
#include <berth/error.h>
#include <berth/exec.h>
#include <berth/lease.h>
#include <berth/plugin.h>
#include <berth/run.h>
#include <berth/secret.h>
#include <berth/sweep.h>
#include <berth/token.h>
#include <berth/workspace.h>

/* Defaults for leases, calls and clean-up. */
struct berth_settings {
    /* The lifetime of a lease without a run, when its request sets none. */
    int64_t lease_ttl_ms;
    /* The lifetime of a lease of a run, when its request sets none. It is longer, because the end
     * of the run releases the lease. */
    int64_t run_lease_ttl_ms;
    /* The time after which a parked place is destroyed. `idleTtlMs` in the environment's config
     * overrides it. */
    int64_t idle_ttl_ms;
    /* The time for which the place of a failed lease is retained for inspection. */
    int64_t retain_ttl_ms;
    /* The time for which a place that holds work which did not come home is kept. After that it is
     * still kept, and every sweep reports it. */
    int64_t work_ttl_ms;
    /* The time limit of one driver call. It does not apply to drivers whose config has time
     * limits of its own. */
    int64_t call_timeout_ms;
    /* The time without a heartbeat after which a process counts as dead. Used with PostgreSQL; with
     * SQLite a file lock shows whether a process is alive. */
    int64_t node_lapse_ms;
    /* The delay before this process sweeps its own leases after an operation on one failed
     * half-way. 0: it never does. */
    int64_t self_sweep_ms;
    /* The delay before the first retry of a failed clean-up. It doubles with each retry. */
    int64_t cleanup_retry_ms;
    /* The longest delay between two retries of a clean-up. */
    int64_t cleanup_retry_max_ms;
    /* The number of bytes of each output stream that the log of a command keeps. */
    uint64_t log_bytes_max;
    /* Workers of plugins run even where this machine does not let us confine them. They may then do
     * everything that this process may do. */
    bool allow_unconfined_plugins;
};
#define BERTH_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .lease_ttl_ms = INT64_C(86400000), .run_lease_ttl_ms = INT64_C(604800000),                 \
        .idle_ttl_ms = INT64_C(86400000), .retain_ttl_ms = INT64_C(86400000),                      \
        .work_ttl_ms = INT64_C(604800000), .call_timeout_ms = INT64_C(300000),                     \
        .node_lapse_ms = INT64_C(30000), .self_sweep_ms = INT64_C(5000),                           \
        .cleanup_retry_ms = INT64_C(5000), .cleanup_retry_max_ms = INT64_C(3600000),               \
        .log_bytes_max = UINT64_C(67108864)                                                        \
    }

enum berth_log_level {
    BERTH_LOG_DEBUG,
    BERTH_LOG_INFO,
    BERTH_LOG_WARN,
    BERTH_LOG_ERROR,
};

/* The destination of the library's log. */
struct berth_log {
    /* Receives one log line: a JSON object without a newline, valid during the call. Any thread may
     * call it, also several at once. NULL: nothing is logged. */
    void (*write)(void *ctx, enum berth_log_level level, const char *line);
    void *ctx;                      /* passed to `write` */
    enum berth_log_level min_level; /* lines below this level are dropped */
};

/* The arguments of berth_open. Initialise with BERTH_OPTIONS_INIT. */
struct berth_options {
    const char *store; /* required: sqlite:PATH or postgres://user@host/db */
    /* The file with the key that encrypts secrets. NULL: a file in the directory of a SQLite
     * store, or in the user's data directory for PostgreSQL. */
    const char *key_file;
    /* The drivers. berth_open takes ownership, also when it fails. NULL: the built-in drivers. */
    struct berth_registry *registry;
    struct berth_settings settings;
    struct berth_log log;
};
#define BERTH_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .settings = BERTH_SETTINGS_INIT                                                            \
    }

/* Opens a store. The first open creates its tables and the company `default`. The caller owns *out
 * and closes it with berth_close. */
BERTH_API int berth_open(const struct berth_options *options, struct berth **out,
                         struct berth_error *err);
/* Cancels the runs that berth_run_start began, waits until they have released their places, stops
 * plugin workers, and closes the store. Before this call, all other calls with `b` have returned
 * and every exec has been freed. NULL is allowed. */
BERTH_API void berth_close(struct berth *b);
/* Returns the version of the loaded library, such as "0.1.0". */
BERTH_API const char *berth_version(void);
#endif
