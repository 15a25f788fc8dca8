/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/config.h - the options of a daemon: berthd.yaml, read into one struct. */
#ifndef BERTH_DAEMON_CONFIG_H
#define BERTH_DAEMON_CONFIG_H

#include "core/berth.h"

/* One TCP address to listen on. */
struct berth_config_listen {
    char *address; /* an IPv4 or IPv6 address */
    int port;
    char *certificate, *key; /* the files for TLS; both NULL: without TLS */
    bool plaintext;          /* other machines may connect without TLS */
};

struct berth_config {
    char *store;    /* NULL: the user's own */
    char *key_file; /* NULL: beside the store */
    char *socket;   /* NULL: in the runtime directory */
    struct berth_config_listen *listen;
    unsigned listen_count;
    char **allowed_hosts; /* accepted in the Host header over TCP, besides the daemon's addresses */
    unsigned allowed_host_count;
    char **allowed_origins; /* web pages that may call the API, "https://name:port" */
    unsigned allowed_origin_count;
    char *
        public_url; /* the daemon's URL for other machines, "https://berth.example:8443"; or NULL */
    enum berth_log_level log_level;
    int64_t sweep_ms; /* between two sweeps */
    int64_t drain_ms; /* how long commands may still run after the daemon was asked to stop */
    int connections_max;
    struct berth_settings settings; /* of the runtime */
};

/* Creates a config with the default of every option. */
int berth_config_new(struct berth_config **out, struct berth_error *err);
/* Reads the file. Options that it does not set have their defaults; relative paths in it start at
 * its directory. On failure *out is untouched. NOT_FOUND, DENIED (another user could change the
 * file), TOO_LARGE, or INVALID with "FILE:LINE: what is wrong and what to do". */
int berth_config_read(const char *path, struct berth_config **out, struct berth_error *err);
void berth_config_free(struct berth_config *config); /* NULL is fine */
#endif
