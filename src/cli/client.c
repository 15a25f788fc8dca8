/* SPDX-License-Identifier: Apache-2.0
 * src/cli/client.c - see client.h. */
#include "cli/client.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/direct.h"
#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"

struct cli_kept {
    struct cli_kept *next;
    struct berth_json *json;
    struct berth_buf text;
};

/* --- requests --- */

const char *cli_encode(struct cli *cli, const char *text)
{
    char *out = berth_arena_alloc(&cli->arena, 3 * strlen(text) + 1), *at = out;
    if (!out)
        return "";
    for (; *text; text++)
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            *at++ = *text;
        else
            at += snprintf(at, 4, "%%%02X", (unsigned char)*text);
    *at = '\0';
    return out;
}

void cli_put(struct cli *cli, struct berth_json_writer *w, const char *key, const char *text)
{
    if (text && !berth_utf8_valid(text) && !cli->not_text)
        cli->not_text = key ? key : "list";
    if (text)
        berth_json_put_str(w, key, text);
}

/* --- answers --- */

static int answer_keep(struct cli *cli, struct berth_buf *text, struct cli_answer *out)
{
    struct cli_kept *k = berth_arena_alloc(&cli->arena, sizeof *k);
    struct berth_error none;
    if (!k || text->failed) {
        berth_buf_clear(text);
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory: answer.");
    }
    *k = (struct cli_kept){.next = cli->kept, .text = *text};
    *text = (struct berth_buf){0};
    cli->kept = k;
    const char *all = berth_buf_str(&k->text);
    (void)berth_json_parse(all, k->text.len, BERTH_JSON_FOREIGN, &k->json, &none);
    *out = (struct cli_answer){.json = k->json, .text = all};
    return BERTH_OK;
}

int cli_daemon_error(struct cli *cli, int status, const char *text, size_t len)
{
    auto_json *body = NULL;
    struct berth_error none;
    (void)berth_json_parse(text, len, BERTH_JSON_FOREIGN, &body, &none);
    const char *message = cli_text(body, "error"), *code = cli_text(body, "code");
    const struct berth_json *details = berth_json_get(body, "details");
    for (size_t i = 0; i < berth_json_count(details); i++) {
        const struct berth_json *issue = berth_json_at(details, i);
        const char *path = cli_text(issue, "path"), *why = cli_text(issue, "message");
        if (path && why)
            berth_issues_add(&cli->issues, path, "%s", why);
    }
    int found = code ? berth_code_find(code) : BERTH_OK;
    if (!message || found == BERTH_OK)
        return berth_fail(&cli->err, BERTH_E_UNAVAILABLE,
                          "%s answered with status %d, but is not berthd. Check the URL.",
                          cli->daemon->where, status);
    if (found == BERTH_E_UNAUTHORIZED)
        return berth_fail(
            &cli->err, found,
            "%s: BERTH_TOKEN_FILE names the file with a token; \"berth token create\" "
            "makes one.",
            message);
    return berth_fail(&cli->err, found, "%s", message);
}

struct berth_http_client_request cli_daemon_request(const struct cli *cli, const char *method,
                                                    const char *url, const struct berth_buf *body)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct berth_http_client_request r = BERTH_CLIENT_REQUEST_INIT;
    r.method = method;
    r.url = url;
    r.socket = cli->daemon->socket;
    r.cookie = cli->daemon->cookie[0] ? cli->daemon->cookie : NULL;
    r.token = cli->daemon->token.len ? &cli->daemon->token : NULL;
    r.ca_file = cli->daemon->ca_file;
    r.body = body ? body->data : NULL;
    r.body_len = body ? body->len : 0;
    r.headers = body ? json : NULL;
    r.cancel_fd = cli->cancel_fd;
    return r;
}

static int ask_daemon(struct cli *cli, const char *method, const char *target,
                      const struct berth_buf *body, struct berth_buf *out)
{
    const char *url = berth_arena_printf(&cli->arena, "%s%s", cli->daemon->url, target);
    struct berth_http_client_reply reply;
    if (!url)
        return berth_arena_check(&cli->arena, &cli->err);
    struct berth_http_client_request request = cli_daemon_request(cli, method, url, body);
    int rc = berth_http_client_ask(&request, &reply, &cli->err);
    if (rc < 0)
        return rc;
    if (reply.status >= 200 && reply.status < 300)
        *out = reply.body;
    else {
        rc = cli_daemon_error(cli, reply.status, berth_buf_str(&reply.body), reply.body.len);
        berth_buf_clear(&reply.body);
    }
    return rc;
}

static int ask_here(struct cli *cli, const char *method, const char *target,
                    const struct berth_buf *body, struct berth_buf *out)
{
    struct berth_api_direct request = {.method = method,
                                       .target = target,
                                       .body = body ? body->data : NULL,
                                       .actor = &cli->actor,
                                       .cancel_fd = cli->cancel_fd};
    *out = (struct berth_buf)BERTH_BUF_INIT(4UL * BERTH_JSON_BYTES_MAX);
    return berth_api_direct(cli->b, &request, &cli->issues, out, &cli->err);
}

static int call_api(struct cli *cli, struct cli_answer *out, const char *method,
                    const struct berth_buf *body, const char *fmt, va_list args)
{
    struct berth_buf text = BERTH_BUF_INIT(0);
    auto_free char *target = NULL;
    *out = (struct cli_answer){0};
    if (body && cli->not_text)
        return berth_fail(&cli->err, BERTH_E_INVALID, "The %s is not UTF-8.", cli->not_text);
    if (vasprintf(&target, fmt, args) < 0 || (body && body->failed)) {
        target = NULL;
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    }
    int rc = cli->daemon ? ask_daemon(cli, method, target, body, &text)
                         : ask_here(cli, method, target, body, &text);
    if (rc == BERTH_OK)
        return answer_keep(cli, &text, out);
    berth_buf_clear(&text);
    return rc;
}

int cli_call(struct cli *cli, struct cli_answer *out, const char *method,
             const struct berth_buf *body, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int rc = call_api(cli, out, method, body, fmt, args);
    va_end(args);
    return rc;
}

int cli_get(struct cli *cli, struct cli_answer *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int rc = call_api(cli, out, "GET", NULL, fmt, args);
    va_end(args);
    return rc;
}

int cli_not_understood(struct cli *cli)
{
    return berth_fail(&cli->err, BERTH_E_UPSTREAM, "%s does not answer like a berthd.",
                      cli->daemon ? cli->daemon->where : "The store");
}

const char *cli_text(const struct berth_json *object, const char *key)
{
    return berth_json_str(berth_json_get(object, key));
}

int64_t cli_time(const struct berth_json *object, const char *key)
{
    const char *text = cli_text(object, key);
    int64_t wall_ms = 0;
    return text && berth_time_parse_iso(text, &wall_ms) ? wall_ms : 0;
}

bool cli_is(const struct berth_json *object, const char *key, const char *text)
{
    const char *have = cli_text(object, key);
    return have && strcmp(have, text) == 0;
}

void cli_forget(struct cli *cli)
{
    for (struct cli_kept *k = cli->kept; k; k = k->next) {
        berth_json_free(k->json);
        if (k->text.data)
            explicit_bzero(k->text.data, k->text.len); /* it may hold a token */
        berth_buf_clear(&k->text);
    }
    cli->kept = NULL;
}
