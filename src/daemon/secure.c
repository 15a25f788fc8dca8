/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/secure.c - see secure.h: hands the server's bytes to crypto/tls.h. */
#include "daemon/secure.h"

#include <pthread.h>
#include <stdlib.h>

#include "crypto/tls.h"

struct berth_secure {
    struct berth_http_secure ops;
    pthread_mutex_t lock;
    struct berth_tls *tls;
};

static int open_link(void *ctx, const struct berth_http_link_handlers *handlers, void **link,
                     struct berth_error *err)
{
    struct berth_secure *s = ctx;
    struct berth_tls_handlers theirs = {
        .on_plain = handlers->on_plain, .on_wire = handlers->on_wire, .ctx = handlers->ctx};
    struct berth_tls_link *made = NULL;
    pthread_mutex_lock(&s->lock);
    int rc = berth_tls_link_new(s->tls, &theirs, &made, err);
    pthread_mutex_unlock(&s->lock);
    *link = made;
    return rc;
}

static int read_link(void *link, const char *bytes, size_t len, bool *ended,
                     struct berth_error *err)
{
    return berth_tls_link_read(link, bytes, len, ended, err);
}

static int write_link(void *link, const char *bytes, size_t len, struct berth_error *err)
{
    return berth_tls_link_write(link, bytes, len, err);
}

static void finish_link(void *link)
{
    berth_tls_link_finish(link);
}

static void close_link(void *link)
{
    berth_tls_link_free(link);
}

int berth_secure_new(const char *certificate, const char *key, struct berth_secure **out,
                     struct berth_error *err)
{
    struct berth_secure *s = calloc(1, sizeof *s);
    if (!s)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: TLS.");
    pthread_mutex_init(&s->lock, NULL);
    s->ops = (struct berth_http_secure){.open = open_link,
                                        .read = read_link,
                                        .write = write_link,
                                        .finish = finish_link,
                                        .close = close_link,
                                        .ctx = s};
    int rc = berth_tls_open(certificate, key, &s->tls, err);
    if (rc < 0)
        berth_secure_free(s);
    else
        *out = s;
    return rc;
}

void berth_secure_renew(struct berth_secure *s, struct berth_tls *pair)
{
    pthread_mutex_lock(&s->lock);
    struct berth_tls *old = s->tls;
    s->tls = pair;
    pthread_mutex_unlock(&s->lock);
    berth_tls_close(old);
}

const struct berth_http_secure *berth_secure_ops(const struct berth_secure *s)
{
    return &s->ops;
}

void berth_secure_free(struct berth_secure *s)
{
    if (!s)
        return;
    berth_tls_close(s->tls);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
