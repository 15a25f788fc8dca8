/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/live.h - the commands that this daemon is running. Requests find a command here by
 * its id, write to its standard input, cancel it, and receive its output without delay. */
#ifndef BERTH_API_STREAM_LIVE_H
#define BERTH_API_STREAM_LIVE_H

#include <berth/exec.h>

#include "api/state.h"
#include "api/stream/fan.h"
#include "base/buf.h"
#include "base/id.h"
#include "os/engine.h"

struct berth_api_watch;
struct berth_api_live;

/* Callback for the watches of a command, on the loop's thread. */
struct berth_api_live_listeners {
    /* Serves some watches of a command that has output for them, or is over. Returns whether it has
     * to be called again. */
    bool (*step)(struct berth_api_live *live);
};

/* A writer that waits because the command's standard input is full. */
struct berth_api_waiter {
    void (*on_room)(struct berth_api_waiter *w); /* write again: room, or the command ended */
    struct berth_api_live *live;                 /* NULL: not waiting */
    struct berth_api_waiter *next, *previous;
};

struct berth_api_live {
    struct berth_api *api;
    char id[BERTH_ID_SIZE];
    struct berth_exec *exec; /* api->lives_lock; NULL: not begun yet, or ended */
    struct berth_buf input;  /* for its standard input; api->lives_lock */
    size_t input_at;
    /* Used on the loop's thread only: */
    struct berth_api_watch *watches; /* watches that have read the whole log so far */
    const struct berth_api_live_listeners *listeners; /* set with the first watch */
    struct berth_api_fan fan;                         /* output for the watches */
    struct berth_api_watch *at;                       /* the next watch of this round */
    struct berth_api_waiter *waiters, *last_waiter;   /* the one that came first, and last */
    uint64_t said[2];                                 /* bytes of output of each stream */
    struct berth_post post;                           /* announces the command's end */
    bool over;                  /* it has ended: the log has all output that watches have not got */
    struct berth_work work;     /* serves watches, and frees it after its end */
    void (*on_over)(void *ctx); /* called last; or NULL */
    void *ctx;
};

/* Makes the entry of a command that is not started yet. Its output may come to
 * berth_api_live_output before berth_api_live_begin. UNAVAILABLE: the daemon is about to end. */
int berth_api_live_new(struct berth_api *api, struct berth_api_live **out, struct berth_error *err);
/* Registers the started command under its id, and writes `input` to its standard input. The buffer
 * is taken over; NULL writes nothing. */
void berth_api_live_begin(struct berth_api_live *live, struct berth_exec *exec,
                          struct berth_buf *input);
void berth_api_live_output(struct berth_api_live *live, enum berth_stream stream, const char *bytes,
                           size_t len);
void berth_api_live_room(struct berth_api_live *live); /* its stdin has room */
/* Call it when the command has ended and its log is complete, or when it never began. No other
 * thread uses the exec after this returns. `live` is freed later on the loop's thread, after
 * on_over. */
void berth_api_live_end(struct berth_api_live *live);

/* Cancels the command. CONFLICT: it does not run here. */
int berth_api_live_cancel(struct berth_api *api, const char *id, struct berth_error *err);
/* Writes to the command's standard input, and closes it when `close` is set. UNAVAILABLE: too much
 * is waiting. CONFLICT: the command does not run here, its standard input is closed, or the input
 * of berth_api_live_begin is not all written yet. */
int berth_api_live_write(struct berth_api *api, const char *id, const char *bytes, size_t len,
                         bool close, struct berth_error *err);
int berth_api_live_resize(struct berth_api *api, const char *id, unsigned short rows,
                          unsigned short columns, struct berth_error *err);
/* Adds `by` to the number of watches and listeners that use the API. */
void berth_api_count_stream(struct berth_api *api, int by);
/* Waits until that number is 0. Call it after the server is closed. */
void berth_api_await_streams(struct berth_api *api);
/* Returns the command, or NULL when it does not run here. On the loop's thread. */
struct berth_api_live *berth_api_live_find(struct berth_api *api, const char *id);
/* Waits for room after a write that was UNAVAILABLE; on_room is called once. Returns false when the
 * command has ended; the next write then returns CONFLICT. On the loop's thread. */
bool berth_api_live_wait(struct berth_api *api, const char *id, struct berth_api_waiter *w);
void berth_api_waiter_leave(struct berth_api_waiter *w); /* fine when it does not wait */
/* Waits until end_ms of the monotonic clock for all commands and runs, then cancels the rest and
 * waits until they end. Calls to places that keep them from ending are cancelled, too, after
 * BERTH_STOP_CALLS_MS. */
void berth_api_live_end_all(struct berth_api *api, int64_t end_ms);
#endif
