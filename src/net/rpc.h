/* SPDX-License-Identifier: Apache-2.0
 * src/net/rpc.h - JSON-RPC 2.0 with a child, a message per line, both ways over its stdin and
 * stdout. Everything happens on the engine's thread, and so do all handlers; long messages are read
 * on the pool meanwhile, in their turn. */
#ifndef BERTH_NET_RPC_H
#define BERTH_NET_RPC_H

#include "net/message.h"
#include "os/process.h"

struct berth_pool;
struct berth_rpc;

/* The outcome of a call of ours. */
enum berth_reply_kind {
    BERTH_REPLY_RESULT,
    BERTH_REPLY_ERROR,   /* the worker's error: code and text */
    BERTH_REPLY_TIMEOUT, /* the worker may still be performing it */
    BERTH_REPLY_GONE,    /* the worker ended meanwhile; the text says how */
    BERTH_REPLY_UNSENT,  /* the call was not sent; the text says why */
};
struct berth_reply {
    enum berth_reply_kind kind;
    const struct berth_json *result; /* never NULL for a RESULT */
    int64_t code;
    const char *text;
};
typedef void berth_reply_fn(void *ctx, const struct berth_reply *reply);

struct berth_rpc_handlers {
    /* Called for a request or a notification. */
    void (*on_message)(void *ctx, const struct berth_message *message);
    /* Called for a line that is not a message; `why` says what is wrong with it. */
    void (*on_noise)(void *ctx, const char *line, size_t len, const char *why);
    void (*on_stderr)(void *ctx, const char *bytes, size_t len);
    /* Called last. It writes a text; pending calls are answered with that text after it returns. */
    void (*on_end)(void *ctx, const struct berth_exec_end *end, struct berth_buf *text);
    void *ctx;
};

/* Starts the child. On the engine's thread, as all functions below. */
int berth_rpc_start(struct berth_engine *engine, struct berth_pool *pool,
                    const struct berth_process_options *options,
                    const struct berth_rpc_handlers *handlers, struct berth_rpc **out,
                    struct berth_error *err);
/* Call it after on_end. NULL is fine. */
void berth_rpc_free(struct berth_rpc *rpc);

struct berth_rpc_request {
    const char *method, *params_json;
    const char *invocation_json; /* or NULL */
    int64_t timeout_ms;          /* 0: no limit */
    berth_reply_fn *on_reply;    /* called exactly once */
    /* Called exactly once after a TIMEOUT, with the outcome of the call. Or NULL. */
    berth_reply_fn *on_late;
    void *ctx;
};
void berth_rpc_call(struct berth_rpc *rpc, const struct berth_rpc_request *request);
/* Takes the buffer's bytes, which are whole lines; what waits too long for a reader is dropped. */
void berth_rpc_send(struct berth_rpc *rpc, struct berth_buf *lines);
int berth_rpc_pending(const struct berth_rpc *rpc);    /* calls of ours that were not answered */
uint64_t berth_rpc_heard(const struct berth_rpc *rpc); /* messages of the other side, so far */
struct berth_process *berth_rpc_process(struct berth_rpc *rpc);
#endif
