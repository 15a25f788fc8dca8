/* SPDX-License-Identifier: Apache-2.0
 * src/cli/follow.c - see follow.h. */
#include "cli/follow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/limits.h"
#include "cli/daemon.h"

#define EVENT_BYTES_MAX (4 * BERTH_JSON_BYTES_MAX)
#define TRIES_MAX 8 /* without a word */
#define TRY_MS 100

struct reading {
    struct cli_follow *follow;
    struct berth_buf line;
    char name[32];
    char *data;      /* of the event that is being read, or NULL */
    uint64_t offset; /* the id of the last: where to come back to */
    bool heard;      /* something, since the last try */
    bool over, enough;
};

/* --- events --- */

char *cli_output_of(const struct berth_json *data, size_t *len)
{
    const struct berth_json *text = berth_json_get(data, "data");
    const char *base64 = cli_text(data, "base64");
    *len = text ? berth_json_str_len(text) : 0;
    if (!text && (!base64 || !berth_base64_length(base64, strlen(base64), len)))
        return NULL;
    char *bytes = malloc(*len + 1);
    if (bytes && text)
        memcpy(bytes, berth_json_str(text), *len);
    else if (bytes && !berth_base64_decode(base64, strlen(base64), bytes))
        *len = 0;
    return bytes;
}

static void end_event(struct reading *r)
{
    auto_json *data = NULL;
    struct berth_error none;
    if (r->data &&
        berth_json_parse(r->data, strlen(r->data), BERTH_JSON_FOREIGN, &data, &none) == BERTH_OK &&
        strcmp(r->name, "dropped") != 0) { /* which is no more than a broken line */
        r->heard = true;
        r->over = strcmp(r->name, "end") == 0;
        r->enough = !r->follow->on_event(r->follow->ctx, r->name, data);
    }
    free(r->data);
    r->data = NULL;
    r->name[0] = '\0';
}

static void take_line(struct reading *r, const char *line)
{
    if (!*line)
        end_event(r);
    else if (strncmp(line, "id: ", 4) == 0)
        r->offset = strtoull(line + 4, NULL, 10);
    else if (strncmp(line, "event: ", 7) == 0)
        (void)snprintf(r->name, sizeof r->name, "%s", line + 7);
    else if (strncmp(line, "data: ", 6) == 0 && !r->data)
        r->data = strdup(line + 6);
}

static bool on_bytes(void *ctx, const char *bytes, size_t len)
{
    struct reading *r = ctx;
    while (len && !r->over && !r->enough) {
        const char *end = memchr(bytes, '\n', len);
        size_t step = end ? (size_t)(end - bytes) : len;
        berth_buf_append(&r->line, bytes, step);
        if (r->line.failed)
            return false;
        bytes += step + (end != NULL);
        len -= step + (end != NULL);
        if (end) {
            take_line(r, r->line.len ? berth_buf_str(&r->line) : "");
            berth_buf_truncate(&r->line, 0);
        }
    }
    return !r->over && !r->enough;
}

/* --- requests --- */

static int ask(struct cli *cli, struct reading *r, const char *method, const char *url,
               const struct berth_buf *body)
{
    static const char *const headers[] = {"Accept: text/event-stream",
                                          "Content-Type: application/json", NULL};
    struct berth_client_request request = cli_daemon_request(cli, method, url, body);
    struct berth_client_reply reply;
    request.headers = headers;
    request.on_bytes = on_bytes;
    request.ctx = r;
    berth_buf_truncate(&r->line, 0);
    int rc = berth_client_ask(&request, &reply, &cli->err);
    if (rc < 0)
        return rc;
    if (reply.status < 200 || reply.status > 299)
        rc = cli_daemon_error(cli, reply.status, berth_buf_str(&reply.body), reply.body.len);
    berth_buf_clear(&reply.body);
    return rc;
}

static int come_back(struct cli *cli, struct reading *r)
{
    auto_free char *url = NULL;
    if (asprintf(&url, "%s%s%coffset=%" PRIu64, cli->daemon->url, r->follow->again,
                 strchr(r->follow->again, '?') ? '&' : '?', r->offset) < 0) {
        url = NULL;
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    }
    return ask(cli, r, "GET", url, NULL);
}

int cli_follow(struct cli *cli, struct cli_follow *follow)
{
    struct reading r = {.follow = follow, .line = BERTH_BUF_INIT(EVENT_BYTES_MAX)};
    auto_free char *url = NULL;
    if (follow->body && cli->not_text)
        return berth_fail(&cli->err, BERTH_E_INVALID, "The %s is not UTF-8.", cli->not_text);
    if (asprintf(&url, "%s%s", cli->daemon->url, follow->target) < 0) {
        url = NULL;
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    }
    int rc = ask(cli, &r, follow->method, url, follow->body);
    for (int tries = 0; !r.over && !r.enough && follow->again; tries++) {
        if (r.heard)
            tries = 0;
        r.heard = false;
        bool cancelled = rc == BERTH_E_CANCELLED && follow->on_cancel;
        if ((rc < 0 && rc != BERTH_E_UNAVAILABLE && !cancelled) || tries == TRIES_MAX)
            break;
        if (cancelled)
            follow->on_cancel(follow->ctx);
        (void)usleep((useconds_t)tries * TRY_MS * 1000);
        rc = come_back(cli, &r);
    }
    if (rc == BERTH_OK && !r.over && !r.enough && follow->again)
        rc = berth_fail(&cli->err, BERTH_E_UNAVAILABLE, "%s has hung up.", cli->daemon->where);
    free(r.data);
    berth_buf_clear(&r.line);
    return r.over || r.enough ? BERTH_OK : rc;
}

/* --- what is sent --- */

static void post(const struct cli *cli, const struct berth_buf *body, const char *target)
{
    auto_free char *url = NULL;
    struct berth_client_reply reply;
    struct berth_error none;
    if (asprintf(&url, "%s%s", cli->daemon->url, target) < 0) {
        url = NULL;
        return;
    }
    struct berth_client_request request = cli_daemon_request(cli, "POST", url, body);
    request.cancel_fd = -1;
    if (berth_client_ask(&request, &reply, &none) == BERTH_OK)
        berth_buf_clear(&reply.body);
}

void cli_send_stdin(const struct cli *cli, const char *exec_id, const char *bytes, size_t len,
                    bool last)
{
    char target[128];
    struct berth_buf body = {.data = (char *)(uintptr_t)bytes, .len = len};
    (void)snprintf(target, sizeof target, "/api/execs/%s/stdin%s", exec_id,
                   last ? "?close=true" : "");
    post(cli, len ? &body : NULL, target);
}

void cli_send_size(const struct cli *cli, const char *exec_id, int rows, int columns)
{
    char target[128];
    auto_buf body = BERTH_BUF_INIT(128);
    (void)snprintf(target, sizeof target, "/api/execs/%s/resize", exec_id);
    berth_buf_printf(&body, "{\"rows\":%d,\"columns\":%d}", rows, columns);
    post(cli, &body, target);
}

void cli_send_cancel(const struct cli *cli, const char *kind, const char *id)
{
    char target[128];
    (void)snprintf(target, sizeof target, "/api/%s/%s/cancel", kind, id);
    post(cli, NULL, target);
}
