/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker.h - one worker of a plugin: starting, running, crashing, restarting, stopping.
 * All of it happens on the engine's thread. Other threads read the fields under the manager's lock.
 */
#ifndef BERTH_PLUGIN_WORKER_H
#define BERTH_PLUGIN_WORKER_H

#include <pthread.h>

#include "base/id.h"
#include "driver/workers.h"
#include "net/lines.h"
#include "plugin/launch.h"
#include "plugin/log.h"
#include "plugin/ops.h"

/* worker.c has the changes that may happen. */
enum berth_worker_state {
    BERTH_WORKER_STOPPED,
    BERTH_WORKER_STARTING, /* until `initialize` is answered */
    BERTH_WORKER_RUNNING,
    BERTH_WORKER_STOPPING,
    BERTH_WORKER_CRASHED, /* the process has ended, and its calls are being told */
    BERTH_WORKER_BACKOFF, /* the restart timer runs */
};
extern const char *const berth_worker_states[];

/* What all workers of a manager share. */
struct berth_worker_ground {
    struct berth_engine *engine;
    struct berth_pool *pool;
    struct berth_worker_host host;
    pthread_mutex_t lock;   /* of `closing`, and of what a worker has under the lock */
    bool closing;           /* workers are not started any more */
    int64_t halt_ms;        /* set before berth_worker_halt is ordered */
    pthread_cond_t changed; /* signalled when the state of a worker changes */
};

#define BERTH_WORKER_ERROR_SIZE 1000
#define BERTH_WORKER_EXCERPT_BYTES_MAX 8000

struct berth_stream_watch; /* a call that waits for its answer; see worker_call.c */

/* A call that waits for its worker to run; embedded in the caller's object. */
struct berth_parked {
    struct berth_parked *next;
    struct berth_worker *worker;
    struct berth_timer timer;
    bool for_start;                          /* the timer is that of a start */
    void (*go)(struct berth_parked *parked); /* called once, whatever the worker's state is then */
};

struct berth_worker {
    struct berth_worker_ground *ground;
    struct berth_worker *next; /* among the manager's */
    char id[BERTH_ID_SIZE];    /* of the plugin */

    /* Under the lock: */
    enum berth_worker_state state; /* changed only by berth_worker_set_state */
    unsigned attempts;             /* starts that came to an end, well or not */
    bool initialized;              /* since the last start began */
    unsigned stops;                /* stops that were completed */
    int64_t row_version;           /* of the row that it was started from, or told of since */
    struct berth_json *methods;    /* supportedMethods */
    int pid, crashes, crashes_in_all, pending;
    int64_t running_since_ms, last_crash_ms, next_restart_ms; /* monotonic, wall, wall */
    char error[BERTH_WORKER_ERROR_SIZE];
    char confinement[BERTH_CONFINE_TEXT_SIZE];
    char *state_path; /* the real path of the directory that it may write */
    uid_t uid;        /* its user; 0: that of this process */

    /* Only for the engine's thread: */
    struct berth_rpc *rpc; /* NULL: there is no process */
    struct berth_worker_log *log;
    struct berth_lines errors; /* what was read of stderr */
    struct berth_buf excerpt;  /* the end of stderr, for the error */
    struct berth_timer restart, health, stopping;
    struct berth_timer halt; /* kills the process; runs until the stop is completed */
    int missed;              /* health calls in a row during which the worker said nothing */
    uint64_t heard;          /* messages of the worker when the last health call was sent */
    bool stop_wanted, restart_wanted, shutdown_sent;
    bool failed;        /* `error` says why the start failed; the end does not replace it */
    int64_t stop_by_ms; /* calls in flight have until then */
    char *package, *manifest_json, *config_json, *settings_json;
    char *label; /* a variable of everything that the process has started */
    struct berth_stream_watch *watches;
    struct berth_parked *parked;
    struct berth_post reap;            /* posted when the process has ended */
    struct berth_rpc *dead;            /* the process that `reap` frees */
    char why[BERTH_WORKER_ERROR_SIZE]; /* how that process ended */
};

/* All functions here are called on the engine's thread, without the lock. */

/* Starts the worker, unless it runs or is being started; after a stop that is under way, if any. */
void berth_worker_start(struct berth_worker *w);
/* Stops the worker. `and_start`: starts it again afterwards. */
void berth_worker_stop(struct berth_worker *w, bool and_start);
/* Stops the worker as its manager closes, and kills it after ground->halt_ms. */
void berth_worker_halt(struct berth_worker *w);
/* Lets the call go at once, or when a worker that is being started runs. It waits for that up to
 * BERTH_WORKER_START_MS, and for a worker that has crashed up to BERTH_WORKER_READY_MS. */
void berth_worker_enter(struct berth_worker *w, struct berth_parked *parked);
/* Sends a call. Refuses it when the worker does not run. */
void berth_worker_call(struct berth_worker *w, const struct berth_worker_call *call);
/* Compares the worker with its row; see berth_manager_ops. */
void berth_worker_follow(struct berth_worker *w, const struct berth_worker_row *row);

/* Returns NULL when memory ran out. */
struct berth_worker *berth_worker_new(struct berth_worker_ground *ground, const char *plugin_id);
void berth_worker_free(struct berth_worker *w); /* has to be STOPPED */

/* --- for the files of a worker ---
 * worker.c is its state machine, worker_start.c brings it up, worker_message.c reads what it says,
 * worker_call.c sends calls to it. Everything below runs on the engine's thread and is called
 * without the lock. */

#define BERTH_WORKER_CALL_MS 30000   /* the time-out of a call that does not name one */
#define BERTH_WORKER_HEALTH_MS 60000 /* between two health calls */

/* worker.c */

/* Changes the state and wakes those who wait for it. Asserts that this change may happen. */
void berth_worker_set_state(struct berth_worker *w, enum berth_worker_state state);
/* Kills the process; its end follows as for any other. */
void berth_worker_kill(struct berth_worker *w);
/* Counts a crash and plans the next start. The worker has no process. */
void berth_worker_crash(struct berth_worker *w, const char *text);
/* Completes a stop: releases parked calls, and starts anew if that was asked for. The worker has no
 * process, and may be freed by another thread as soon as this returns. */
void berth_worker_end_stop(struct berth_worker *w);
/* Handles the end of the process (berth_rpc_handlers). */
void berth_worker_on_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text);
/* Returns a copy of the text, shortened and without any secret that the worker was told. Returns ""
 * rather than a secret when memory ran out, or NULL. The caller frees it. */
char *berth_worker_clean_text(const struct berth_worker *w, const char *text);
/* Logs what happened to the worker, here and in its own log file. */
void berth_worker_report(struct berth_worker *w, enum berth_log_level level, const char *event,
                         const char *text);
/* Sets the error that its status shows. */
void berth_worker_set_error(struct berth_worker *w, const char *text);
void berth_worker_clear_timers(struct berth_worker *w);
/* Replaces *kept by a copy of the text. */
void berth_worker_keep_text(char **kept, const char *text);

/* worker_message.c (berth_rpc_handlers) */

void berth_worker_on_message(void *ctx, const struct berth_message *m);
void berth_worker_on_noise(void *ctx, const char *line, size_t len, const char *why);
void berth_worker_on_stderr(void *ctx, const char *bytes, size_t len);

/* worker_call.c */

/* Lets all parked calls go. */
void berth_worker_release_parked(struct berth_worker *w);
/* Hands streamed output to the call with this invocation id, if there is one. */
void berth_worker_hand_output(struct berth_worker *w, const char *invocation,
                              enum berth_stream stream, const char *bytes, size_t len);
#endif
