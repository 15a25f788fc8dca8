/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/config.h - what a daemon is told: berthd.yaml, read into one struct. */
#ifndef BERTH_DAEMON_CONFIG_H
#define BERTH_DAEMON_CONFIG_H

#include "core/berth.h"

/* One address of TCP. */
struct berth_config_listen {
    char *address; /* an IPv4 or IPv6 address */
    int port;
    char *certificate, *key; /* files of TLS, both or none */
    bool plaintext;          /* said explicitly: another machine may come without TLS */
};

struct berth_config {
    char *store;    /* NULL: the user's own */
    char *key_file; /* NULL: beside the store */
    char *socket;   /* NULL: in the runtime directory */
    struct berth_config_listen *listen;
    unsigned listen_count;
    char **allowed_hosts; /* names by which TCP may be asked for, besides its own addresses */
    unsigned allowed_host_count;
    char **allowed_origins; /* of browsers, "https://name:port" */
    unsigned allowed_origin_count;
    char *public_url; /* by which others reach us, "https://berth.example:8443" */
    enum berth_log_level log_level;
    int64_t sweep_ms, drain_ms; /* between two sweeps; for commands that run when we are to end */
    int connections_max;
    struct berth_settings settings; /* of the runtime */
};

/* All of it as it is when there is no file. The file's relative paths are beneath its directory.
 * INVALID: "FILE:LINE: what is wrong and what to do", and *out is left alone. */
int berth_config_read(const char *path, struct berth_config **out, struct berth_error *err);
int berth_config_new(struct berth_config **out, struct berth_error *err); /* without a file */
void berth_config_free(struct berth_config *config);                      /* NULL is fine */
#endif
