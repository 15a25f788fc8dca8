/* SPDX-License-Identifier: Apache-2.0
 * src/cli/client.c - see client.h. The daemon is the one that is named, or else the one that serves
 * the store. Without a daemon the runtime is opened in this process. */
#include "cli/client.h"

#include <ctype.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/direct.h"
#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "core/daemon_lock.h"
#include "core/paths.h"
#include "core/sweep/sweep.h"
#include "os/socket.h"

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
                          "%s answered with status %d, and is no berthd.", cli->daemon->where,
                          status);
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

/* --- connecting --- */

static const char *option_or_variable(const char *given, const char *variable)
{
    const char *text = given ? given : getenv(variable);
    return text && *text ? text : NULL;
}

int cli_find_store(struct cli *cli)
{
    cli->store = option_or_variable(cli->store, "BERTH_STORE");
    if (cli->store)
        return BERTH_OK;
    auto_free char *address = NULL;
    int rc = berth_default_store(&address, &cli->err);
    if (rc < 0)
        return rc;
    cli->store = berth_arena_strdup(&cli->arena, address);
    return berth_arena_check(&cli->arena, &cli->err);
}

static bool daemon_listens(const char *socket_path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(socket_path) >= sizeof to.sun_path)
        return false;
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    struct ucred who;
    socklen_t len = sizeof who;
    return connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == geteuid() || who.uid == 0); /* it will receive secrets */
}

static int read_token(struct cli_daemon *d, struct berth_error *err)
{
    const char *path = option_or_variable(NULL, "BERTH_TOKEN_FILE");
    if (!path)
        return BERTH_OK;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read BERTH_TOKEN_FILE %s", path);
    int rc = berth_locked_read(fd, BERTH_TOKEN_BYTES_MAX, &d->token, err);
    while (rc == BERTH_OK && d->token.len &&
           isspace((unsigned char)d->token.bytes[d->token.len - 1]))
        d->token.len--;
    return rc;
}

/* Warns when the token crosses the network unencrypted. */
static void warn_clear(const struct cli *cli, const char *url)
{
    static const char plain[] = "http://";
    char host[256];
    if (strncmp(url, plain, strlen(plain)) != 0 || cli->quiet)
        return;
    const char *at = url + strlen(plain) + (url[strlen(plain)] == '[');
    (void)snprintf(host, sizeof host, "%.*s", (int)strcspn(at, at[-1] == '[' ? "]" : ":/"), at);
    if (!berth_is_loopback(host))
        (void)fputs("berth: the token goes over the network for all to read: use https://\n",
                    stderr);
}

/* Uses the daemon at "unix:/path" or at an HTTP URL. `named`: sends the token. */
static int use_url(struct cli *cli, const char *url, bool named)
{
    struct cli_daemon *d = berth_arena_alloc(&cli->arena, sizeof *d);
    if (!d)
        return berth_arena_check(&cli->arena, &cli->err);
    *d = (struct cli_daemon){.url = "http://berth", .where = url, .token = BERTH_LOCKED_INIT};
    d->ca_file = option_or_variable(NULL, "BERTH_CA_FILE");
    if (strncmp(url, "unix:", 5) == 0) {
        d->socket = url + 5;
    } else {
        size_t len = strlen(url);
        while (len && url[len - 1] == '/')
            len--;
        d->url = berth_arena_copy(&cli->arena, url, len);
    }
    cli->daemon = d;
    if (!d->url)
        return berth_arena_check(&cli->arena, &cli->err);
    int rc = named ? read_token(d, &cli->err) : BERTH_OK;
    if (rc == BERTH_OK && d->token.len)
        warn_clear(cli, url);
    return rc;
}

const char *cli_named_daemon(const struct cli *cli)
{
    return cli->url || cli->store ? cli->url : option_or_variable(NULL, "BERTH_URL");
}

int cli_find_daemon(struct cli *cli)
{
    char socket_path[BERTH_SOCKET_PATH_SIZE];
    const char *url = cli_named_daemon(cli);
    if (url)
        return use_url(cli, url, true);
    int rc = cli_find_store(cli);
    if (rc < 0 || !berth_daemon_lock_find(cli->store, socket_path) || !daemon_listens(socket_path))
        return rc;
    url = berth_arena_printf(&cli->arena, "unix:%s", socket_path);
    return url ? use_url(cli, url, false) : berth_arena_check(&cli->arena, &cli->err);
}

static void log_to_stderr(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "berth: %s\n", line);
}

static int open_runtime(struct cli *cli)
{
    cli->key_file = option_or_variable(cli->key_file, "BERTH_KEY_FILE");
    const struct passwd *user = getpwuid(getuid());
    cli->actor = (struct berth_actor){
        .type = "user", .id = berth_arena_strdup(&cli->arena, user ? user->pw_name : "board")};
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = cli->store;
    options.key_file = cli->key_file;
    if (!cli->quiet)
        options.log = (struct berth_log){.write = log_to_stderr, .min_level = BERTH_LOG_WARN};
    return berth_open(&options, &cli->b, &cli->err);
}

/* Finds the company that is named, else `default`, or the only visible one. */
static int find_company(struct cli *cli)
{
    const struct berth_json *company = NULL;
    struct cli_answer all;
    cli->company = option_or_variable(cli->company, "BERTH_COMPANY");
    if (!cli->company && cli->b) {
        cli->company_id = cli->b->company_id;
        return BERTH_OK;
    }
    int rc = cli->company ? cli_find_company(cli, cli->company, &company)
                          : cli_get(cli, &all, "/api/companies");
    if (rc < 0)
        return rc;
    for (size_t i = 0; !company && i < berth_json_count(all.json); i++) {
        const struct berth_json *one = berth_json_at(all.json, i);
        if (berth_json_count(all.json) == 1 || cli_is(one, "name", "default"))
            company = one;
    }
    if (!company)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                          "There is no company \"default\": --company says which.");
    cli->company_id = cli_text(company, "id");
    return cli->company_id ? BERTH_OK : cli_not_understood(cli);
}

int cli_try_connect(struct cli *cli)
{
    int rc = cli_find_daemon(cli);
    if (rc == BERTH_OK && !cli->daemon)
        rc = open_runtime(cli);
    return rc < 0 ? rc : find_company(cli);
}

int cli_connect(struct cli *cli)
{
    return cli_try_connect(cli) < 0 ? cli_fail(cli) : CLI_OK;
}

static void say_what_is_owed(const struct cli *cli, const struct berth_sweep_report *r)
{
    if (cli->quiet)
        return;
    if (r->expired || r->released)
        (void)fprintf(stderr, "berth: took back %d lease%s whose time or run was over\n",
                      r->expired + r->released, r->expired + r->released == 1 ? "" : "s");
    if (r->owed || r->waiting)
        (void)fprintf(stderr, "berth: %d place%s to be cleaned up: run \"berth sweep\"\n",
                      r->owed > r->waiting ? r->owed : r->waiting,
                      (r->owed > r->waiting ? r->owed : r->waiting) == 1 ? " is" : "s are");
    if (r->quarantined)
        (void)fprintf(stderr, "berth: %d lease%s cannot be read and %s left alone\n",
                      r->quarantined, r->quarantined == 1 ? "" : "s",
                      r->quarantined == 1 ? "is" : "are");
}

/* Sweeps without calling providers. A daemon sweeps by itself. */
static int take_back(struct cli *cli)
{
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    pass.call_providers = false;
    int rc = cli->b ? berth_sweep(cli->b, &pass, &report, &cli->err) : BERTH_OK;
    if (rc == BERTH_OK && cli->b)
        say_what_is_owed(cli, &report);
    return rc;
}

int cli_open(struct cli *cli)
{
    int status = cli_connect(cli);
    return status == CLI_OK && take_back(cli) < 0 ? cli_fail(cli) : status;
}

int cli_start(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max)
{
    return cli_parse(cli, argc, argv, options, min, max) < 0 ? CLI_USAGE : cli_open(cli);
}

int cli_try_connect_here(struct cli *cli)
{
    int rc = cli_find_store(cli);
    if (rc == BERTH_OK)
        rc = open_runtime(cli);
    return rc < 0 ? rc : find_company(cli);
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

void cli_disconnect(struct cli *cli)
{
    cli_forget(cli);
    if (cli->daemon)
        berth_locked_clear(&cli->daemon->token);
    berth_close(cli->b);
}
