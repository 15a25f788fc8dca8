/* SPDX-License-Identifier: Apache-2.0
 * src/net/http_client.h - sends HTTP requests to a URL, or through a Unix socket. Blocks; any
 * thread. */
#ifndef BERTH_NET_HTTP_CLIENT_H
#define BERTH_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/secret.h>

#include "base/buf.h"

/* A body that is read while it is sent, so that it need not fit in memory. */
struct berth_http_client_source {
    /* Copies up to `size` bytes to `out` and returns their number, 0 at the end of the body, or one
     * of the values below. Must not block: the request could not be cancelled meanwhile. Called on
     * the thread that asks, and not any more when the server has refused the body. */
    int64_t (*read)(void *ctx, char *out, size_t size);
    int64_t length; /* of the body; -1: not known, so it is sent in chunks */
    int ready_fd;   /* readable when `read` should be called again after WAIT; -1: it never waits */
    void *ctx;
};
enum {
    BERTH_CLIENT_WAIT = -1, /* no byte is there yet */
    BERTH_CLIENT_STOP = -2, /* the body cannot be continued: the request fails with CANCELLED */
};

struct berth_http_client_request {
    const char *method, *url;
    const char *socket;               /* a Unix socket to go through, or NULL */
    const struct berth_locked *token; /* sent as a bearer token; or NULL */
    const char *const *headers;       /* "Name: value", closed by NULL; or NULL */
    const char *cookie;               /* one more such header, or NULL */
    const char *body;                 /* or NULL */
    size_t body_len;
    const struct berth_http_client_source *source; /* instead of `body`; or NULL */
    const char *ca_file;                           /* certificates to trust; NULL: the system's */
    int64_t timeout_ms;                            /* for the whole request; 0: no limit */
    int64_t connect_ms;                            /* for the connection to be made */
    /* The request fails after this time without a byte; 0: never. Time in which `source` has no
     * bytes counts, too. */
    int64_t stall_ms;
    size_t answer_max; /* largest body to collect, in bytes */
    int cancel_fd;     /* becomes readable when the request is to be cancelled; -1: never */
    /* Receives the body of a 2xx answer piece by piece; NULL: the body is collected. Returns false
     * to stop. */
    bool (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void *ctx;
};
#define BERTH_CLIENT_REQUEST_INIT                                                                  \
    {                                                                                              \
        .method = "GET", .connect_ms = 10000, .answer_max = 64UL * 1024 * 1024, .cancel_fd = -1    \
    }

struct berth_http_client_reply {
    int status;
    char type[128];        /* Content-Type; "" when the answer has none */
    struct berth_buf body; /* the caller's; also has the body of an error when on_bytes is set */
};

/* Sends the request and waits for the answer; every status counts as an answer. With `source` the
 * client waits a second for the server to want the body (100-continue), and does not go on sending
 * when an error is answered in between. UNAVAILABLE: the
 * server was not reached, or the connection broke. TIMEOUT: it did not answer in time. CANCELLED:
 * by cancel_fd, or by `source`. TOO_LARGE: the body exceeds answer_max, or `source` has more bytes
 * than its length. INVALID: the URL. DENIED: the server's
 * certificate is not trusted. Redirects are not followed, and proxies are not used. */
int berth_http_client_ask(const struct berth_http_client_request *request,
                          struct berth_http_client_reply *reply, struct berth_error *err);
#endif
