/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker_ask.h - what the parts of the worker driver share: who it speaks to, how params
 * begin, and asking with an answer to wait for. */
#ifndef BERTH_DRIVER_WORKER_ASK_H
#define BERTH_DRIVER_WORKER_ASK_H

#include <berth/driver.h>

#include "base/buf.h"
#include "base/json.h"
#include "driver/workers.h"

struct berth_worker_driver {
    struct berth_driver base;
    struct berth_driver_traits traits;
    struct berth_worker_driver_options options; /* the texts are ours */
    char *schema;                               /* as the stored config has it */
};

/* Calls that make, keep or end a place wait as long as the config says, and then some. */
#define BERTH_WORKER_OVERHEAD_MS 30000

/* What the worker sees of a stored config; the caller's. NULL: no memory. */
struct berth_json *berth_worker_config(const struct berth_worker_driver *d,
                                       const char *config_json);
/* The number at `key` as a time-out, or 0. */
int64_t berth_worker_timeout(const struct berth_json *config, const char *key);

/* Begins params, in a buffer that is wiped: who asks, and the config. The caller closes the object.
 */
#define BERTH_WORKER_PARAMS_INIT                                                                   \
    {                                                                                              \
        .max = BERTH_MESSAGE_BYTES_MAX, .secret = true                                             \
    }
void berth_worker_begin(struct berth_json_writer *w, const struct berth_worker_driver *d,
                        const struct berth_place_request *who, const struct berth_json *config);
/* The member "lease". */
void berth_worker_put_lease(struct berth_json_writer *w, const struct berth_place *place);
/* What an acquire or a resume answered; out->id is NULL when it names no place. */
int berth_worker_read_lease(struct berth_arena *arena, const struct berth_json *answer,
                            struct berth_place *out, struct berth_error *err);
/* Returns the config's time-out for calls about a place, with some time on top; 0: it has none. */
int64_t berth_worker_place_timeout(const struct berth_worker_driver *d,
                                   const struct berth_json *config);
/* An object as text, else NULL. */
const char *berth_worker_object(struct berth_arena *arena, const struct berth_json *value);

/* Waits for a worker that is starting. UNAVAILABLE: it does not run, and the error says why. */
int berth_worker_ready(struct berth_worker_driver *d, const struct berth_call *call,
                       struct berth_error *err);

/* One call, answered. *out is the caller's. UNAVAILABLE: it does not run (*unsent), or died
 * meanwhile. TIMEOUT. UNSUPPORTED: it has no such method. UPSTREAM: its own error, with its text.
 */
struct berth_worker_question {
    const char *method;
    struct berth_buf *params;
    const struct berth_place_request *who; /* or NULL */
    int64_t timeout_ms;                    /* 0: none is asked for */
    bool acquires;                         /* a late answer goes to who->on_late */
    bool unsent;                           /* answered: the worker has never heard of it */
};
int berth_worker_ask(struct berth_worker_driver *d, const struct berth_call *call,
                     struct berth_worker_question *question, struct berth_json **out,
                     struct berth_error *err);

extern const struct berth_driver_carrier berth_worker_carrier;

int berth_worker_exec_start(struct berth_driver *base, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            const struct berth_command *command,
                            const struct berth_exec_handlers *handlers, struct berth_running **out,
                            struct berth_error *err);
int berth_worker_exec_settle(struct berth_driver *base, struct berth_call *call,
                             const struct berth_place_request *who, const struct berth_place *place,
                             const char *exec_id, struct berth_exec_end *end,
                             struct berth_error *err);
#endif
