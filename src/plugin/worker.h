/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker.h - one worker's life: starting, running, crashing, coming back, stopping. All
 * of it happens on the engine's thread; others look at it under the manager's lock. */
#ifndef BERTH_PLUGIN_WORKER_H
#define BERTH_PLUGIN_WORKER_H

#include <pthread.h>

#include "base/id.h"
#include "driver/workers.h"
#include "net/lines.h"
#include "plugin/launch.h"
#include "plugin/log.h"
#include "plugin/ops.h"

enum berth_worker_state {
    BERTH_WORKER_STOPPED,
    BERTH_WORKER_STARTING,
    BERTH_WORKER_RUNNING,
    BERTH_WORKER_STOPPING,
    BERTH_WORKER_CRASHED, /* for a moment: what comes next is being decided */
    BERTH_WORKER_BACKOFF, /* it will be started again */
};
extern const char *const berth_worker_states[];

/* What all workers of a manager share. */
struct berth_worker_ground {
    struct berth_engine *engine;
    struct berth_pool *pool;
    struct berth_worker_host host;
    pthread_mutex_t lock;   /* of what others look at */
    bool closing;           /* nobody is started again */
    pthread_cond_t changed; /* the state of one */
};

#define BERTH_WORKER_ERROR_SIZE 1000
#define BERTH_WORKER_EXCERPT_BYTES_MAX 8000

struct berth_stream_watch; /* an execute whose output is streamed */

/* A call that came while its worker is on its way; embedded by whoever made it. */
struct berth_parked {
    struct berth_parked *next;
    struct berth_worker *worker;
    struct berth_timer timer;
    void (*go)(struct berth_parked *parked); /* now, whatever the worker's state is */
};

struct berth_worker {
    struct berth_worker_ground *ground;
    struct berth_worker *next; /* among the manager's */
    char id[BERTH_ID_SIZE];

    /* Under the lock: */
    enum berth_worker_state state;
    unsigned attempts;          /* starts that came to an end, well or not */
    unsigned stops;             /* times that it was stopped */
    int64_t row_version;        /* what it was started from, or has heard of since */
    struct berth_json *methods; /* what it says it has */
    int pid, crashes, crashes_in_all, pending;
    int64_t running_since_ms, last_crash_ms, next_restart_ms; /* monotonic, wall, wall */
    char error[BERTH_WORKER_ERROR_SIZE];
    char confinement[BERTH_CONFINE_TEXT_SIZE];

    /* The engine's thread alone: */
    struct berth_rpc *rpc;
    struct berth_worker_log *log;
    struct berth_lines errors; /* of stderr */
    struct berth_buf excerpt;  /* the end of what it said there */
    struct berth_timer restart, health, stopping;
    int missed;     /* health calls without an answer to them or anything else, in a row */
    uint64_t heard; /* messages of it when the last one was sent */
    bool stop_wanted, restart_wanted, shutdown_sent;
    bool failed;        /* its start has: `error` says why, and its end says no more */
    int64_t stop_by_ms; /* calls in flight have until then */
    char *package, *manifest_json, *config_json;
    char *label; /* of what it has started */
    struct berth_stream_watch *watches;
    struct berth_parked *parked;
    struct berth_post reap;            /* its process has ended, and all calls were told */
    struct berth_rpc *dead;            /* that one's */
    char why[BERTH_WORKER_ERROR_SIZE]; /* and how it ended */
};

/* Under no lock, on the engine's thread, as all below. */
void berth_worker_start(struct berth_worker *w);
void berth_worker_stop(struct berth_worker *w, bool and_start);
/* Goes at once, or when a worker that is being started runs; in a few seconds at the latest. */
void berth_worker_enter(struct berth_worker *w, struct berth_parked *parked);
void berth_worker_call(struct berth_worker *w, const struct berth_worker_call *call);
/* What its row says now. */
void berth_worker_follow(struct berth_worker *w, const struct berth_worker_row *row);

struct berth_worker *berth_worker_new(struct berth_worker_ground *ground, const char *plugin_id);
void berth_worker_free(struct berth_worker *w); /* it is stopped */
#endif
