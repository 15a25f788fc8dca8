/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/tls.h - TLS for connections that others carry: bytes of the network in, plain bytes
 * out, and back. It reads and writes no socket, and blocks nowhere. */
#ifndef BERTH_CRYPTO_TLS_H
#define BERTH_CRYPTO_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_tls;      /* a certificate and its key; safe to share between threads */
struct berth_tls_link; /* one connection, the server's side; of one thread at a time */

/* TLS 1.2 and 1.3, HTTP/1.1 by ALPN. INVALID says which file is wrong and why: not there, readable
 * by others (the key), no pair, run out. */
int berth_tls_open(const char *certificate_file, const char *key_file, struct berth_tls **out,
                   struct berth_error *err);
void berth_tls_close(struct berth_tls *tls); /* links outlive it; NULL is fine */

typedef void berth_tls_bytes_fn(void *ctx, const char *bytes, size_t len);
struct berth_tls_handlers {
    berth_tls_bytes_fn *on_plain; /* what the other side said */
    berth_tls_bytes_fn *on_wire;  /* to be sent to it */
    void *ctx;
};
int berth_tls_link_new(struct berth_tls *tls, const struct berth_tls_handlers *handlers,
                       struct berth_tls_link **out, struct berth_error *err);
void berth_tls_link_free(struct berth_tls_link *link); /* NULL is fine */
/* What came from the network. < 0: the connection is of no use any more; what is to be sent last
 * (an alert) has gone to on_wire. *ended: the other side has said that nothing more comes. */
int berth_tls_link_read(struct berth_tls_link *link, const char *bytes, size_t len, bool *ended,
                        struct berth_error *err);
/* Encrypts the bytes and passes them to on_wire. Returns CONFLICT before the handshake is complete:
 * the first call of on_plain is the first moment to write at, as a server answers what it read. */
int berth_tls_link_write(struct berth_tls_link *link, const char *bytes, size_t len,
                         struct berth_error *err);
/* Tells the other side that nothing more comes. Does nothing before the handshake is complete, or
 * when called again. */
void berth_tls_link_finish(struct berth_tls_link *link);
#endif
