/* SPDX-License-Identifier: Apache-2.0
 * src/api/stream/live.h - the commands that this daemon runs: whoever asks for one finds it here
 * while it does, writes to it, ends it, and hears what it says at once. */
#ifndef BERTH_API_STREAM_LIVE_H
#define BERTH_API_STREAM_LIVE_H

#include <berth/exec.h>

#include "api/state.h"
#include "base/buf.h"
#include "base/id.h"
#include "os/engine.h"

struct berth_api_watch;
struct berth_api_live;

/* How the watches of a command hear of it, all at once, on the loop's thread. */
struct berth_api_live_listeners {
    void (*hear)(struct berth_api_live *live, enum berth_stream stream, uint64_t offset,
                 const char *bytes, size_t len);
    void (*let_go)(struct berth_api_live *live); /* the command is over: the log has the rest */
};

/* Somebody for whose bytes its standard input has no room. */
struct berth_api_waiter {
    void (*on_room)(struct berth_api_waiter *w); /* there may be some, or it is over: write again */
    struct berth_api_waiter *next, **link;       /* NULL: he does not wait */
};

struct berth_api_live {
    struct berth_api *api;
    char id[BERTH_ID_SIZE];
    struct berth_exec *exec; /* api->lives_lock; NULL: it has no name yet, or is over */
    struct berth_buf input;  /* for its standard input; api->lives_lock */
    size_t input_at;
    /* Of the loop's thread: */
    struct berth_api_watch *watches; /* those that have read the whole log so far */
    const struct berth_api_live_listeners *listeners; /* set with the first watch */
    struct berth_api_waiter *waiters;
    uint64_t said[2];           /* bytes of each stream */
    struct berth_post post;     /* of its end */
    void (*on_over)(void *ctx); /* after all; or NULL */
    void *ctx;
};

/* Its output comes to berth_api_live_output from the beginning on, whatever it is called. */
int berth_api_live_new(struct berth_api *api, struct berth_api_live **out, struct berth_error *err);
/* It runs: it can be found, and what is to be its input (taken over; NULL: none) is written. */
void berth_api_live_begin(struct berth_api_live *live, struct berth_exec *exec,
                          struct berth_buf *input);
void berth_api_live_output(struct berth_api_live *live, enum berth_stream stream, const char *bytes,
                           size_t len);
void berth_api_live_room(struct berth_api_live *live); /* its stdin has room */
/* It has ended, and its log is whole; nobody uses the exec when this returns. Frees `live`, later,
 * on the loop's thread, after on_over. Also for one that was never begun. */
void berth_api_live_end(struct berth_api_live *live);

/* CONFLICT: it does not run here. */
int berth_api_live_cancel(struct berth_api *api, const char *id, struct berth_error *err);
/* UNAVAILABLE: too much is waiting. CONFLICT: also when its stdin is closed. `close`: nothing more
 * comes. */
int berth_api_live_write(struct berth_api *api, const char *id, const char *bytes, size_t len,
                         bool close, struct berth_error *err);
int berth_api_live_resize(struct berth_api *api, const char *id, unsigned short rows,
                          unsigned short columns, struct berth_error *err);
/* One more watch or listener knows the API, or one less. */
void berth_api_count_stream(struct berth_api *api, int by);
/* Until there is none, once the server is closed. */
void berth_api_await_streams(struct berth_api *api);
/* On the loop's thread; NULL: it does not run here. */
struct berth_api_live *berth_api_live_find(struct berth_api *api, const char *id);
/* On the loop's thread, after a write that was UNAVAILABLE; on_room comes once. False: the command
 * is over, and whoever writes again hears of it. */
bool berth_api_live_wait(struct berth_api *api, const char *id, struct berth_api_waiter *w);
void berth_api_waiter_leave(struct berth_api_waiter *w); /* also one that does not wait */
/* Waits so long for them and for our runs, ends those that are left, and waits for that. */
void berth_api_live_end_all(struct berth_api *api, int64_t wait_ms);
#endif
