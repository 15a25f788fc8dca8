/* SPDX-License-Identifier: Apache-2.0
 * src/cli/client.h - calls of the API: a daemon answers them, or the runtime in this process. Both
 * give the same answers. */
#ifndef BERTH_CLI_CLIENT_H
#define BERTH_CLI_CLIENT_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/cli.h"
#include "core/socket_cookie.h"
#include "crypto/locked.h"
#include "net/http_client.h"

/* --- calls --- */

/* What the API answered. Both live until cli_forget. */
struct cli_answer {
    const struct berth_json *json; /* NULL: not JSON */
    const char *text;
};
#define CLI_BODY_BYTES_MAX (4UL * 1024 * 1024) /* more than a daemon accepts */
#define CLI_BODY_INIT BERTH_BUF_INIT(CLI_BODY_BYTES_MAX)
#define CLI_TARGET_SIZE 192 /* of a path and a query that hold one id */
/* Calls the API; `body` is JSON, or NULL. The error is in cli->err and cli->issues. */
int cli_call(struct cli *cli, struct cli_answer *out, const char *method,
             const struct berth_buf *body, const char *fmt, ...) BERTH_PRINTF(5, 6);
int cli_get(struct cli *cli, struct cli_answer *out, const char *fmt, ...) BERTH_PRINTF(3, 4);
const char *cli_encode(struct cli *cli, const char *text); /* for a part of a path or a query */
/* Writes a member unless `text` is NULL. A text that is not UTF-8 fails the call. */
void cli_put(struct cli *cli, struct berth_json_writer *w, const char *key, const char *text);
/* Fails because an answer lacks a required member. Returns the error code. */
int cli_not_understood(struct cli *cli);
void cli_forget(struct cli *cli); /* frees all answers so far */

/* Returns a member of an object as text; NULL: it is missing or null. */
const char *cli_text(const struct berth_json *object, const char *key);
/* Says whether the member is that text. */
bool cli_is(const struct berth_json *object, const char *key, const char *text);
/* Returns a member as a time in ms, or 0 when it is missing. */
int64_t cli_time(const struct berth_json *object, const char *key);

/* --- the daemon, for what cannot be asked with cli_call --- */

struct cli_daemon {
    const char *url;                            /* the start of every request's URL */
    const char *where;                          /* its address in messages */
    const char *socket;                         /* the Unix socket to connect to, or NULL */
    char cookie[BERTH_SOCKET_COOKIE_LINE_SIZE]; /* a header for requests at the socket; "": none */
    const char *ca_file;
    struct berth_locked token; /* empty: none */
};

/* Returns a request to the daemon; `url` is the whole URL. */
struct berth_http_client_request cli_daemon_request(const struct cli *cli, const char *method,
                                                    const char *url, const struct berth_buf *body);
/* Sets cli->err from an answer whose status is not 2xx. Returns the error code. */
int cli_daemon_error(struct cli *cli, int status, const char *text, size_t len);
#endif
