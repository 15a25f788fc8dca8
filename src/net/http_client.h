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

struct berth_http_client_request {
    const char *method, *url;
    const char *socket;               /* a Unix socket to go through, or NULL */
    const struct berth_locked *token; /* sent as a bearer token; or NULL */
    const char *const *headers;       /* "Name: value", closed by NULL; or NULL */
    const char *body;                 /* or NULL */
    size_t body_len;
    const char *ca_file; /* certificates to trust; NULL: the system's */
    int64_t timeout_ms;  /* for the whole request; 0: no limit */
    int64_t connect_ms;  /* for the connection to be made */
    int64_t stall_ms;    /* the request fails after this time without a byte; 0: never */
    size_t answer_max;   /* largest body to collect, in bytes */
    int cancel_fd;       /* becomes readable when the request is to be cancelled; -1: never */
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

/* Sends the request and waits for the answer; every status counts as an answer. UNAVAILABLE: the
 * server was not reached, or the connection broke. TIMEOUT: it did not answer in time. CANCELLED:
 * by cancel_fd. TOO_LARGE: the body exceeds answer_max. INVALID: the URL. DENIED: the server's
 * certificate is not trusted. Redirects are not followed, and proxies are not used. */
int berth_http_client_ask(const struct berth_http_client_request *request,
                          struct berth_http_client_reply *reply, struct berth_error *err);
#endif
