/* SPDX-License-Identifier: Apache-2.0
 * src/cli/daemon.h - a daemon that is asked, for what cannot be asked with cli_call. */
#ifndef BERTH_CLI_DAEMON_H
#define BERTH_CLI_DAEMON_H

#include "cli/cli.h"
#include "net/http_client.h"

struct cli_daemon {
    const char *url;    /* what a target is put behind */
    const char *where;  /* as people call it */
    const char *socket; /* the Unix socket to go through, or NULL */
    const char *ca_file;
    struct berth_locked token; /* empty: none */
};

/* cli->daemon: the one that is named, or who serves the store; NULL: nobody does. */
int cli_find_daemon(struct cli *cli);
/* A request to it; the URL is the whole one. */
struct berth_http_client_request cli_daemon_request(const struct cli *cli, const char *method,
                                                    const char *url, const struct berth_buf *body);
/* What an answer that is no 2xx says, in cli->err; its code. */
int cli_daemon_error(struct cli *cli, int status, const char *text, size_t len);
#endif
