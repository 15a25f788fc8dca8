/* SPDX-License-Identifier: Apache-2.0
 * src/net/http_client.h - asking somebody else over HTTP: a URL, or a Unix socket. Blocks; any
 * thread.
 */
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
    const struct berth_locked *token; /* shown as a bearer's; or NULL */
    const char *const *headers;       /* "Name: value", closed by NULL; or NULL */
    const char *body;                 /* or NULL */
    size_t body_len;
    const char *ca_file; /* whom to trust; NULL: whom the machine does */
    int64_t timeout_ms;  /* for all of it; 0: none */
    int64_t connect_ms;  /* to be heard at all */
    int64_t stall_ms;    /* without a byte, after which the line counts as broken; 0: for ever */
    size_t answer_max;   /* bytes of an answer that is collected */
    int cancel_fd;       /* becomes readable when nobody wants it any more; -1: never */
    /* What comes of a 2xx, as it comes; NULL: it is collected. false: enough of it. */
    bool (*on_bytes)(void *ctx, const char *bytes, size_t len);
    void *ctx;
};
#define BERTH_CLIENT_REQUEST_INIT                                                                  \
    {                                                                                              \
        .method = "GET", .connect_ms = 10000, .answer_max = 64UL * 1024 * 1024, .cancel_fd = -1    \
    }

struct berth_http_client_reply {
    int status;
    char type[128];        /* of the content; "" when nobody said */
    struct berth_buf body; /* the caller's; of an error also when on_bytes is there */
};

/* Any status is an answer. UNAVAILABLE: nobody was reached, or the line broke. TIMEOUT, CANCELLED,
 * TOO_LARGE: as they say. INVALID: the URL. DENIED: whom we reached is not who he should be. No
 * redirects are followed, and no proxies asked. */
int berth_http_client_ask(const struct berth_http_client_request *request,
                          struct berth_http_client_reply *reply, struct berth_error *err);
#endif
