/* SPDX-License-Identifier: Apache-2.0
 * include/berth/berth.h - everything an embedding program needs: places to work, leased from a
 * ledger that never forgets one. No daemon is needed; processes may share a store. */
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
    uint64_t log_bytes_max; /* of each stream of a command, kept in its log */
};
#define BERTH_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .lease_ttl_ms = INT64_C(86400000), .run_lease_ttl_ms = INT64_C(604800000),                 \
        .idle_ttl_ms = INT64_C(86400000), .retain_ttl_ms = INT64_C(86400000),                      \
        .call_timeout_ms = INT64_C(300000), .node_lapse_ms = INT64_C(30000),                       \
        .self_sweep_ms = INT64_C(5000), .cleanup_retry_ms = INT64_C(5000),                         \
        .cleanup_retry_max_ms = INT64_C(3600000), .log_bytes_max = UINT64_C(67108864)              \
    }

enum berth_log_level {
    BERTH_LOG_DEBUG,
    BERTH_LOG_INFO,
    BERTH_LOG_WARN,
    BERTH_LOG_ERROR,
};

/* `line` is one JSON object without a newline, borrowed for the call. Any thread may call. */
struct berth_log {
    void (*write)(void *ctx, enum berth_log_level level, const char *line);
    void *ctx;
    enum berth_log_level min_level;
};

struct berth_options {
    const char *store;               /* sqlite:PATH or postgres://user@host/db; required */
    const char *key_file;            /* of the secrets; NULL: beside the store */
    struct berth_registry *registry; /* taken over in any case; NULL: the built-in drivers */
    struct berth_settings settings;
    struct berth_log log; /* without `write` nothing is logged */
};
#define BERTH_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .settings = BERTH_SETTINGS_INIT                                                            \
    }

/* The first open of a store makes its tables and the company `default`. */
BERTH_API int berth_open(const struct berth_options *options, struct berth **out,
                         struct berth_error *err);
/* Ends the runs that berth_run_start began, and waits for calls under way; no other call on it may
 * be running or follow, and every exec has been freed. NULL is fine. */
BERTH_API void berth_close(struct berth *b);
BERTH_API const char *berth_version(void); /* of the library that runs */
#endif
