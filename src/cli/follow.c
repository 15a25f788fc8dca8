/* SPDX-License-Identifier: Apache-2.0
 * src/cli/follow.c - see follow.h. */
#include "cli/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/client.h"

#define TRIES_MAX 8    /* in a row that bring no event */
#define TRY_MS 100     /* before the second try; longer each time */
#define GOOD_MS 5000   /* a connection that held that long counts as a success */
#define STALL_MS 30000 /* without a byte: three heartbeats of the daemon */
#define POST_MS 10000  /* for an answer that needs no work */
#define STDIN_MS 60000 /* twice as long as a daemon waits for a command to read */
#define STDIN_TRIES_MAX 5
#define REASON_SIZE 200
#define RESIZE_BYTES_MAX 128

struct reading {
    struct cli_follow *follow;
    struct berth_buf line;
    /* The event that is being read. */
    char name[32];
    char *data;  /* or NULL */
    uint64_t id; /* the offset in the log after it */
    bool has_id;

    char reason[REASON_SIZE]; /* why the daemon dropped the connection */
    bool grew;                /* an event came since the last try */
    bool over, enough;
};

/* --- events --- */

char *cli_output_of(const struct berth_json *data, size_t *len)
{
    const struct berth_json *text = berth_json_get(data, "data");
    const char *base64 = cli_text(data, "base64"), *plain = berth_json_str(text);
    *len = berth_json_str_len(text);
    if (!plain && (!base64 || !berth_base64_length(base64, strlen(base64), len)))
        return NULL;
    char *bytes = malloc(*len + 1);
    if (bytes && plain)
        memcpy(bytes, plain, *len);
    else if (bytes && !berth_base64_decode(base64, strlen(base64), bytes))
        *len = 0;
    return bytes;
}

static void event_forget(struct reading *r)
{
    free(r->data);
    r->data = NULL;
    r->name[0] = '\0';
    r->has_id = false;
}

static void event_take(struct reading *r, const struct berth_json *data)
{
    const char *reason = cli_text(data, "reason");
    if (strcmp(r->name, "dropped") == 0) { /* resumed like a broken connection */
        (void)snprintf(r->reason, sizeof r->reason, "%s", reason ? reason : "");
        return;
    }
    if (r->has_id && r->id > r->follow->offset) {
        r->follow->offset = r->id;
        r->grew = true;
    }
    r->over = strcmp(r->name, "end") == 0 || strcmp(r->name, "idle") == 0;
    r->enough = !r->follow->on_event(r->follow->ctx, r->name, data);
}

static void event_end(struct reading *r)
{
    auto_json *data = NULL;
    struct berth_error none;
    if (r->data &&
        berth_json_parse(r->data, strlen(r->data), BERTH_JSON_FOREIGN, &data, &none) == BERTH_OK)
        event_take(r, data);
    event_forget(r);
}

static void take_line(struct reading *r, const char *line)
{
    if (!*line) {
        event_end(r);
    } else if (strncmp(line, "id: ", 4) == 0) {
        r->id = strtoull(line + 4, NULL, 10);
        r->has_id = true;
    } else if (strncmp(line, "event: ", 7) == 0) {
        (void)snprintf(r->name, sizeof r->name, "%s", line + 7);
    } else if (strncmp(line, "data: ", 6) == 0 && !r->data) {
        r->data = strdup(line + 6);
    }
}

static bool follow_on_bytes(void *ctx, const char *bytes, size_t len)
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

static int out_of_memory(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
}

static int follow_ask(struct cli *cli, struct reading *r, const char *method, const char *target,
                      const struct berth_buf *body)
{
    const char *const headers[] = {"Accept: text/event-stream", "Content-Type: application/json",
                                   body ? r->follow->header : NULL, NULL};
    auto_free char *url = NULL;
    struct berth_http_client_reply reply;
    if (asprintf(&url, "%s%s", cli->daemon->url, target) < 0) {
        url = NULL;
        return out_of_memory(&cli->err);
    }
    struct berth_http_client_request request = cli_daemon_request(cli, method, url, body);
    request.headers = headers;
    request.stall_ms = STALL_MS;
    request.on_bytes = follow_on_bytes;
    request.ctx = r;
    berth_buf_truncate(&r->line, 0);
    event_forget(r);
    int rc = berth_http_client_ask(&request, &reply, &cli->err);
    if (rc < 0)
        return rc;
    if (reply.status < 200 || reply.status > 299)
        rc = cli_daemon_error(cli, reply.status, berth_buf_str(&reply.body), reply.body.len);
    berth_buf_clear(&reply.body);
    return rc;
}

static int follow_resume(struct cli *cli, struct reading *r)
{
    auto_free char *target = NULL;
    if (asprintf(&target, "%s%coffset=%" PRIu64, r->follow->again,
                 strchr(r->follow->again, '?') ? '&' : '?', r->follow->offset) < 0) {
        target = NULL;
        return out_of_memory(&cli->err);
    }
    return follow_ask(cli, r, "GET", target, NULL);
}

/* Says whether the connection broke, so that resuming may help. */
static bool is_broken(int rc)
{
    return rc == BERTH_OK || rc == BERTH_E_UNAVAILABLE || rc == BERTH_E_TIMEOUT;
}

static int follow_read(struct cli *cli, struct reading *r)
{
    struct cli_follow *follow = r->follow;
    int64_t from = berth_time_mono_ms();
    int rc = follow_ask(cli, r, follow->method, follow->target, follow->body);
    for (int tries = 1; !r->over && !r->enough && follow->again; tries++) {
        bool cancelled = rc == BERTH_E_CANCELLED && follow->on_cancel;
        if (cancelled ? !follow->on_cancel(follow->ctx) : !is_broken(rc))
            return rc;
        if (r->grew || cancelled || berth_time_mono_ms() - from > GOOD_MS)
            tries = 1;
        if (tries > TRIES_MAX)
            break;
        if (!cancelled)
            (void)usleep((useconds_t)tries * TRY_MS * 1000);
        r->grew = false;
        from = berth_time_mono_ms();
        rc = follow_resume(cli, r);
    }
    if (r->over || r->enough)
        return BERTH_OK;
    return rc < 0 ? rc
                  : berth_fail(&cli->err, BERTH_E_UNAVAILABLE, "%s has hung up.%s%s",
                               cli->daemon->where, r->reason[0] ? " " : "", r->reason);
}

int cli_follow(struct cli *cli, struct cli_follow *follow)
{
    struct reading r = {.follow = follow, .line = BERTH_BUF_INIT(BERTH_EVENT_BYTES_MAX)};
    if (follow->body && cli->not_text)
        return berth_fail(&cli->err, BERTH_E_INVALID, "The %s is not UTF-8.", cli->not_text);
    int rc = follow_read(cli, &r);
    event_forget(&r);
    berth_buf_clear(&r.line);
    return rc;
}

/* --- input --- */

/* Returns the HTTP status, or an error code < 0. After a status, the caller clears the body. */
static int post(const struct cli *cli, struct berth_http_client_request *request,
                const char *target, struct berth_http_client_reply *reply, struct berth_error *err)
{
    auto_free char *url = NULL;
    if (asprintf(&url, "%s%s", cli->daemon->url, target) < 0) {
        url = NULL;
        return out_of_memory(err);
    }
    request->url = url;
    int rc = berth_http_client_ask(request, reply, err);
    return rc < 0 ? rc : reply->status;
}

static void send_post(const struct cli *cli, const struct berth_buf *body, const char *target,
                      int stop_fd)
{
    struct berth_http_client_request request = cli_daemon_request(cli, "POST", "", body);
    struct berth_http_client_reply reply;
    struct berth_error none;
    request.timeout_ms = POST_MS;
    request.cancel_fd = stop_fd;
    if (post(cli, &request, target, &reply, &none) > 0)
        berth_buf_clear(&reply.body);
}

/* Returns how many bytes the command took before the request timed out. The answer says so:
 * {"details": [{"path": "taken", "message": "65536"}]}. */
static size_t taken_of(const struct berth_http_client_reply *reply, size_t len)
{
    auto_json *body = NULL;
    struct berth_error none;
    (void)berth_json_parse(berth_buf_str(&reply->body), reply->body.len, BERTH_JSON_FOREIGN, &body,
                           &none);
    const struct berth_json *first = berth_json_at(berth_json_get(body, "details"), 0);
    const char *number = cli_is(first, "path", "taken") ? cli_text(first, "message") : NULL;
    size_t taken = number ? (size_t)strtoull(number, NULL, 10) : 0;
    return taken < len ? taken : len;
}

int cli_send_stdin(const struct cli *cli, const char *exec_id, const char *bytes, size_t len,
                   bool last, int stop_fd, struct berth_error *err)
{
    static const char *const headers[] = {"Content-Type: application/octet-stream", NULL};
    char target[CLI_TARGET_SIZE];
    (void)snprintf(target, sizeof target, "/api/execs/%s/stdin%s", exec_id,
                   last ? "?close=true" : "");
    for (int tries = 0;;) {
        struct berth_buf body = {.data = (char *)(uintptr_t)bytes, .len = len};
        struct berth_http_client_request request =
            cli_daemon_request(cli, "POST", "", len ? &body : NULL);
        struct berth_http_client_reply reply;
        request.headers = len ? headers : NULL;
        request.timeout_ms = STDIN_MS;
        request.cancel_fd = stop_fd;
        int rc = post(cli, &request, target, &reply, err);
        size_t taken = rc == 503 ? taken_of(&reply, len) : 0;
        if (rc > 0)
            berth_buf_clear(&reply.body);
        if (rc == 200)
            return BERTH_OK;
        if (rc == 409 || rc == 404)
            return berth_fail(err, BERTH_E_CONFLICT, "The command does not read any more.");
        if (rc == 503) { /* the command reads slowly: send the rest again, without a limit */
            bytes += taken;
            len -= taken;
            continue;
        }
        if (rc > 0)
            return berth_fail(err, BERTH_E_UPSTREAM, "%s answered with status %d.",
                              cli->daemon->where, rc);
        if (rc != BERTH_E_UNAVAILABLE || ++tries == STDIN_TRIES_MAX)
            return rc;
        (void)usleep((useconds_t)tries * TRY_MS * 1000);
    }
}

void cli_send_size(const struct cli *cli, const char *exec_id, int rows, int columns, int stop_fd)
{
    char target[CLI_TARGET_SIZE];
    auto_buf body = BERTH_BUF_INIT(RESIZE_BYTES_MAX);
    (void)snprintf(target, sizeof target, "/api/execs/%s/resize", exec_id);
    berth_buf_printf(&body, "{\"rows\":%d,\"columns\":%d}", rows, columns);
    send_post(cli, &body, target, stop_fd);
}

void cli_send_cancel(const struct cli *cli, const char *kind, const char *id, int stop_fd)
{
    char target[CLI_TARGET_SIZE];
    (void)snprintf(target, sizeof target, "/api/%s/%s/cancel", kind, id);
    send_post(cli, NULL, target, stop_fd);
}
