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

/* How a call of ours came back. */
enum berth_reply_kind {
    BERTH_REPLY_RESULT,
    BERTH_REPLY_ERROR,   /* the other side's own: code and text */
    BERTH_REPLY_TIMEOUT, /* it may still be at it */
    BERTH_REPLY_GONE,    /* the other side ended meanwhile; the text says how */
    BERTH_REPLY_UNSENT,  /* it has never heard of it; the text says why */
};
struct berth_reply {
    enum berth_reply_kind kind;
    const struct berth_json *result; /* never NULL for a RESULT */
    int64_t code;
    const char *text;
};
typedef void berth_reply_fn(void *ctx, const struct berth_reply *reply);

struct berth_rpc_handlers {
    /* A request or a notification. */
    void (*on_message)(void *ctx, const struct berth_message *message);
    /* A line that is no message; `why` says what is wrong with it. */
    void (*on_noise)(void *ctx, const char *line, size_t len, const char *why);
    void (*on_stderr)(void *ctx, const char *bytes, size_t len);
    /* The last call. What is pending is answered when it returns, with the text that it wrote. */
    void (*on_end)(void *ctx, const struct berth_exec_end *end, struct berth_buf *text);
    void *ctx;
};

/* On the engine's thread, as are all below. */
int berth_rpc_start(struct berth_engine *engine, struct berth_pool *pool,
                    const struct berth_process_options *options,
                    const struct berth_rpc_handlers *handlers, struct berth_rpc **out,
                    struct berth_error *err);
/* After on_end. NULL is fine. */
void berth_rpc_free(struct berth_rpc *rpc);

struct berth_rpc_request {
    const char *method, *params_json;
    const char *invocation_json; /* or NULL */
    int64_t timeout_ms;          /* 0: none */
    berth_reply_fn *on_reply;    /* exactly once */
    /* Or NULL: after a TIMEOUT, exactly once, what came of it all the same. */
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
