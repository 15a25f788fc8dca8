/* SPDX-License-Identifier: Apache-2.0
 * src/api/urls.h - lists the URLs by which a place may reach this daemon, best first. The daemon
 * cannot tell which of them a sandbox can reach, so a client in the sandbox tries them in order. */
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
    const char *public_url;                /* as the operator configured it; or NULL */
    const char *const *hosts;              /* names that TCP answers to, closed by NULL; or NULL */
    const struct berth_url_listen *listen; /* where it listens */
    int listen_count;
    const char *const *interfaces; /* this machine's addresses, closed by NULL; or NULL */
};

/* Lists origins ("https://name:8443"), each once. Malformed ones are left out. When the daemon does
 * not listen on TCP, the list has only the operator's URL. */
int berth_urls_find(struct berth_arena *arena, const struct berth_url_inputs *inputs,
                    struct berth_list *out, struct berth_error *err);
/* Returns the origin of a URL as a browser writes it: scheme and host in lower case, the port
 * unless it is the scheme's own. In the arena. NULL: the text is not a URL, or memory ran out. */
const char *berth_urls_origin(struct berth_arena *arena, const char *url);
/* Lists this machine's addresses as numbers, closed by NULL, IPv4 first. Loopback and link-local
 * addresses are left out. */
int berth_urls_interfaces(struct berth_arena *arena, const char *const **out,
                          struct berth_error *err);
#endif
