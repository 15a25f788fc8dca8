/* SPDX-License-Identifier: Apache-2.0
 * src/net/message.h - one message of JSON-RPC 2.0: what a line says, and lines that say it. */
#ifndef BERTH_NET_MESSAGE_H
#define BERTH_NET_MESSAGE_H

#include "base/buf.h"
#include "base/json.h"

/* Codes of the protocol between host and worker. */
#define BERTH_RPC_PARSE_ERROR (-32700)
#define BERTH_RPC_NO_METHOD (-32601)
#define BERTH_RPC_INTERNAL (-32603)
#define BERTH_RPC_UNAVAILABLE (-32000)
#define BERTH_RPC_DENIED (-32001)
#define BERTH_RPC_WORKER_ERROR (-32002)
#define BERTH_RPC_TIMEOUT (-32003)
#define BERTH_RPC_NOT_IMPLEMENTED (-32004)

enum berth_message_kind {
    BERTH_MESSAGE_RESPONSE,
    BERTH_MESSAGE_REQUEST,
    BERTH_MESSAGE_NOTIFICATION,
    BERTH_MESSAGE_UNKNOWN, /* an object of JSON-RPC 2.0, but none of these */
};

struct berth_message {
    enum berth_message_kind kind;
    const char *method;              /* of a request or notification */
    const struct berth_json *id;     /* or NULL */
    const struct berth_json *params; /* or NULL */
    const struct berth_json *result; /* of a response, or NULL */
    const struct berth_json *error;  /* of a response, or NULL */
    const char *invocation;          /* which call of ours it belongs to, or NULL */
    struct berth_json *whole;        /* the others point into it */
};

/* Parses a line, which a NUL must follow. INVALID: the line is not a message, and the error says
 * why in the protocol's words. */
int berth_message_read(const char *line, size_t len, struct berth_message *out,
                       struct berth_error *err);
void berth_message_clear(struct berth_message *message);

/* Each appends one whole line. Texts that are JSON are taken as they are. */
struct berth_message_request {
    int64_t id; /* 0: a notification */
    const char *method;
    const char *params_json;
    const char *invocation_json; /* a member paperclipInvocation, or NULL */
    const char *invocation;      /* a member paperclipInvocationId, or NULL */
};
void berth_message_write(struct berth_buf *out, const struct berth_message_request *request);
void berth_message_write_result(struct berth_buf *out, const struct berth_json *id,
                                const char *result_json); /* NULL: null */
void berth_message_write_error(struct berth_buf *out, const struct berth_json *id, int64_t code,
                               const char *text);
#endif
