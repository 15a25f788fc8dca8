/* SPDX-License-Identifier: Apache-2.0
 * src/api/urls.h - by which URLs a place may reach this daemon: candidates, best first. Nobody can
 * tell from here which of them a sandbox can see; whoever is in it tries them in this order. */
#ifndef BERTH_API_URLS_H
#define BERTH_API_URLS_H

#include <stdbool.h>

#include "base/arena.h"

#define BERTH_DOCKER_HOST "host.docker.internal"

struct berth_url_listen {
    const char *address; /* a number; 0.0.0.0 and :: are all of this machine's */
    int port;
    bool tls;
};

struct berth_url_inputs {
    const char *public_url;                /* the operator's word; or NULL */
    const char *const *hosts;              /* names that TCP answers to, closed by NULL; or NULL */
    const struct berth_url_listen *listen; /* where it listens */
    int listen_count;
    const char *const *interfaces; /* this machine's addresses, closed by NULL; or NULL */
};

/* A list of origins ("https://name:8443"), each once. Malformed ones are left out. Without an
 * address of TCP there are none but the operator's. */
int berth_urls_find(struct berth_arena *arena, const struct berth_url_inputs *inputs,
                    struct berth_list *out, struct berth_error *err);
/* This machine's addresses, as numbers, closed by NULL: no loopback, none that a link alone knows;
 * IPv4 first. */
int berth_urls_interfaces(struct berth_arena *arena, const char *const **out,
                          struct berth_error *err);
#endif
