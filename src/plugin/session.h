/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/session.h - one worker process, spoken to by somebody who may wait: for the
 * conformance suite. */
#ifndef BERTH_PLUGIN_SESSION_H
#define BERTH_PLUGIN_SESSION_H

#include <pthread.h>

#include "base/json.h"
#include "net/rpc.h"
#include "os/pool.h"
#include "plugin/launch.h"
#include "plugin/ops.h"

struct berth_session {
    struct berth_engine *engine;
    struct berth_pool *pool;
    struct berth_launch launch;
    struct berth_rpc *rpc; /* the engine's thread alone */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
    struct berth_exec_end end;
    int noise;                   /* lines that were no messages */
    char odd[200];               /* the first of the noise */
    char said[2000];             /* the end of what it said on stderr */
    struct berth_json *streamed; /* its messages execute.log, in order; an array */
    size_t streamed_bytes;       /* of all of them since they were last taken, kept or not */
};

/* How a question was answered. The result is the caller's. */
struct berth_session_reply {
    enum berth_reply_kind kind;
    struct berth_json *result;
    int64_t code;
    size_t streamed; /* messages execute.log that had come by then, since they were last taken */
    char text[600];
};

/* Starts the worker; says nothing to it yet. */
int berth_session_open(struct berth_engine *engine, const struct berth_worker_spec *spec,
                       struct berth_session **out, struct berth_error *err);
/* Hangs up, and ends it if it does not end by itself. NULL is fine. */
void berth_session_close(struct berth_session *s);

struct berth_session_reply berth_session_ask(struct berth_session *s, const char *method,
                                             const char *params_json, int64_t timeout_ms);
void berth_session_reply_clear(struct berth_session_reply *reply);
#define auto_reply __attribute__((cleanup(berth_session_reply_clear))) struct berth_session_reply

/* Asks without waiting; the answer is for berth_session_await. Params that are NULL count as want
 * of memory, too. */
struct berth_session_question; /* freed by await; NULL, for want of memory, is answered, too */
struct berth_session_question *berth_session_begin(struct berth_session *s, const char *method,
                                                   const char *params_json,
                                                   const char *invocation_json, int64_t timeout_ms);
struct berth_session_reply berth_session_await(struct berth_session_question *question);

/* The messages execute.log so far, in order, as an array of the caller's: their invocation, stream
 * and chunk. After BERTH_CHECK_STREAMED_BYTES_MAX no more are kept. */
struct berth_json *berth_session_take_streamed(struct berth_session *s);

void berth_session_write(struct berth_session *s, const char *bytes, size_t len); /* as it is */
void berth_session_hang_up(struct berth_session *s); /* its stdin ends */
void berth_session_kill(struct berth_session *s);
/* True when it has ended within that time. */
bool berth_session_wait_end(struct berth_session *s, int64_t wait_ms);
#endif
