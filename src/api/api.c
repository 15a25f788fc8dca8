/* SPDX-License-Identifier: Apache-2.0
 * src/api/api.c - see api.h: from a request to its handler, and from what that says to an answer.
 * Who asks is looked at before anything of what is asked. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/caller.h"
#include "api/place_call.h"
#include "api/quick.h"
#include "api/route.h"
#include "api/state.h"
#include "api/stream/events.h"
#include "api/guard.h"
#include "api/stream/live.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/lock_order.h"
#include "crypto/hash.h"
#include "store/store.h"

#define HEAD_BYTES_MAX (64 * 1024)
#define KEPT_BYTES_MAX ((size_t)64 * 1024) /* of an answer */
#define BRIEF_BYTES_MAX ((size_t)8 * 1024) /* of a short answer, which needs no budget */

const struct berth_api_route *const berth_api_tables[] = {
    berth_api_instance_routes,     berth_api_company_routes,
    berth_api_environment_routes,  berth_api_capability_routes,
    berth_api_lease_routes,        berth_api_file_routes,
    berth_api_place_script_routes, berth_api_exec_routes,
    berth_api_run_routes,          berth_api_activity_routes,
    berth_api_secret_routes,       berth_api_plugin_routes,
    berth_api_token_routes,        berth_api_event_routes,
    berth_api_metrics_routes,      NULL};

/* --- answers --- */

void berth_api_keep_answer(struct berth_api_call *c)
{
    bool whole = c->out.len > 0 && c->out.len <= KEPT_BYTES_MAX && !c->out.failed;
    berth_idempotency_end(c->b, &c->once, c->status, whole ? berth_buf_str(&c->out) : c->brief);
}

/* Stores a 202 with the ids of the stream's source, for a client that sends the request again. */
void berth_api_keep_stream(struct berth_api_call *c)
{
    if (!c->once.at_work)
        return;
    c->status = 202;
    berth_api_keep_answer(c);
}

void berth_api_pass_on(struct berth_api_call *c)
{
    berth_buf_clear(&c->out);
    berth_arena_wipe(&c->arena);
    free(c);
}

static void say_error(struct berth_json_writer *w, const struct berth_error *err,
                      const struct berth_issues *issues)
{
    berth_json_open(w, '{');
    berth_json_put_str(w, "error", err->message);
    berth_json_put_str(w, "code", berth_code_wire(err->code));
    if (issues && issues->list.count)
        berth_issues_json(w, "details", issues);
    berth_json_close(w, '}');
}

/* Returns the error to send. Details of internal errors go to the log only, with the request's id.
 * So do details of errors of the operating system, which name files of the daemon, unless the
 * caller is an operator of the instance. `c` is NULL while the caller is not known. */
static struct berth_error shown(const struct berth *b, const struct berth_http_exchange *x,
                                const struct berth_api_call *c, const struct berth_error *err)
{
    struct berth_error out = *err;
    bool internal = err->code == BERTH_E_INTERNAL || err->code == BERTH_E_NO_MEMORY;
    bool operates = c && c->actor.id && !c->caller.company_id;
    if (!internal && (operates || !err->os_errno))
        return out;
    berth_log_line(&b->log, BERTH_LOG_ERROR, "request failed", "requestId",
                   berth_http_exchange_id(x), "where", err->where, "error", err->message, NULL);
    if (internal)
        (void)berth_fail(&out, err->code, "Internal server error");
    else
        (void)berth_fail(&out, err->code, "The daemon could not do this: %s.",
                         strerror(err->os_errno));
    return out;
}

/* Returns the header that belongs to the error; its name is NULL when the error needs no header. */
static struct berth_http_header header_of(const struct berth_error *err, const char *allow)
{
    if (err->code == BERTH_E_UNAUTHORIZED)
        return (struct berth_http_header){"WWW-Authenticate", "Bearer"};
    if (err->code == BERTH_E_RATE_LIMITED || err->code == BERTH_E_UNAVAILABLE)
        return (struct berth_http_header){"Retry-After", "3"};
    return (struct berth_http_header){allow && *allow ? "Allow" : NULL, allow};
}

/* Sends an error. `c` is NULL when the request failed before a call was made for it. */
static void answer_error(const struct berth *b, struct berth_http_exchange *x,
                         const struct berth_api_call *c, const struct berth_error *err)
{
    const char *allow = c ? c->allow : NULL; /* the method is not one of these; NULL or "": it is */
    struct berth_http_header header = header_of(err, allow);
    bool method = header.name && header.value == allow;
    struct berth_http_answer answer = {.status = method ? 405 : berth_code_http(err->code),
                                       .type = "application/json",
                                       .more = {header},
                                       .body = BERTH_BUF_INIT(BERTH_HTTP_ANSWER_BYTES_MAX)};
    struct berth_json_writer w = {.buf = &answer.body};
    struct berth_error told = shown(b, x, c, err);
    say_error(&w, &told, c ? &c->issues : NULL);
    berth_http_answer(x, &answer);
}

/* Returns a short body to send when the answer does not fit into memory, or NULL for a request that
 * the client may repeat. */
static const char *brief_of(const struct berth_api_call *c)
{
    enum berth_http_method method = berth_http_exchange_head(c->x)->method;
    if (method == BERTH_HTTP_GET || method == BERTH_HTTP_HEAD)
        return NULL;
    return c->brief && strlen(c->brief) <= BRIEF_BYTES_MAX
               ? c->brief
               : "{\"omitted\":\"The request was carried out. There is no memory for its "
                 "answer.\"}";
}

void berth_api_answer(struct berth_api_call *c, int rc, const struct berth_error *err)
{
    struct berth_error trouble = *err;
    if (rc == BERTH_OK)
        rc = berth_buf_check(&c->out, "The answer", &trouble);
    if (rc < 0) {
        berth_idempotency_end(c->b, &c->once, 0, NULL);
        answer_error(c->b, c->x, c, &trouble);
    } else {
        if (c->once.at_work)
            berth_api_keep_answer(c);
        const char *type = c->type ? c->type : "application/json";
        struct berth_http_answer answer = {.status = c->status,
                                           .type = c->out.len || c->fixed ? type : NULL,
                                           .body = c->out,
                                           .brief = brief_of(c),
                                           .fixed = c->fixed,
                                           .fixed_len = c->fixed_len};
        if (c->replayed)
            answer.more[0] = (struct berth_http_header){"Idempotency-Replayed", "true"};
        c->out = (struct berth_buf){0};
        berth_http_answer(c->x, &answer);
    }
    berth_api_pass_on(c);
}

/* Returns whether the request needs no token. A token that is sent is checked all the same. */
static bool is_open(const struct berth_api_route *route, const struct berth_http_head *head)
{
    return route && route->access == BERTH_API_OPEN && !berth_http_header(head, "authorization");
}

/* Begins a request with an Idempotency-Key. Fills in the stored answer when the request is a
 * repetition. */
static int begin_once(struct berth_api_call *c, struct berth_error *err)
{
    const char *key = berth_http_header(c->head, "idempotency-key");
    if (!key || !c->route->once)
        return BERTH_OK;
    if (!*key || strlen(key) > BERTH_IDEMPOTENCY_KEY_BYTES_MAX || !berth_utf8_valid(key))
        return berth_fail(err, BERTH_E_INVALID, "An Idempotency-Key is a text of 1 to %d bytes.",
                          BERTH_IDEMPOTENCY_KEY_BYTES_MAX);
    char digest[BERTH_SHA256_HEX_SIZE];
    auto_buf all = BERTH_BUF_INIT(BERTH_HTTP_BODY_BYTES_MAX + HEAD_BYTES_MAX);
    all.secret = true;
    berth_buf_printf(&all, "%s %s?%s\n", c->route->method, c->head->path,
                     c->head->query ? c->head->query : "");
    berth_buf_append(&all, c->body, c->body_len);
    int rc = berth_buf_check(&all, "The request", err);
    if (rc == BERTH_OK)
        rc = berth_sha256_hex(all.data, all.len, digest, err);
    struct berth_idempotency_request request = {
        .caller = berth_arena_printf(&c->arena, "%s:%s:%s", c->actor.type,
                                     c->caller.company_id ? c->caller.company_id : "", c->actor.id),
        .key = key,
        .digest = digest,
        .makes_lease = c->route->once == BERTH_API_MAKES_LEASE};
    if (rc == BERTH_OK)
        rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK)
        rc = berth_idempotency_begin(c->b, &c->arena, &request, &c->once, err);
    if (rc < 0 || c->once.at_work)
        return rc;
    c->replayed = true;
    c->status = c->once.status;
    berth_buf_puts(&c->out, c->once.answer ? c->once.answer : "");
    return BERTH_OK;
}

static int find_handler(const struct berth_api_call *c, struct berth_error *err)
{
    if (c->route)
        return BERTH_OK;
    return c->allow ? berth_fail(err, BERTH_E_INVALID, "Method not allowed")
                    : berth_fail(err, BERTH_E_NOT_FOUND, "API route not found");
}

void *berth_api_state(struct berth_api_call *c, size_t size)
{
    c->state = berth_arena_alloc(&c->arena, size);
    if (c->state)
        memset(c->state, 0, size);
    return c->state;
}

void berth_api_end_call(struct berth_api_call *c, int rc, const struct berth_error *err)
{
    if (rc <= 0)
        berth_api_answer(c, rc, err);
    else if (rc == BERTH_API_PASSED_ON)
        berth_api_pass_on(c);
}

/* Returns whether the call is answered on the loop's thread. A token that comes with it is not
 * checked while the store does not answer. */
static bool is_here(const struct berth_api_call *c)
{
    return c->route && c->route->here &&
           (is_open(c->route, c->head) || !berth_store_health(c->b->store).answers);
}

/* Identifies the caller and checks its rights, and only then the query. */
static int call_admit(struct berth_api_call *c, struct berth_error *err)
{
    int rc = is_open(c->route, c->head) ? BERTH_OK : berth_api_authenticate(c->api->gate, c, err);
    if (rc == BERTH_OK)
        rc = find_handler(c, err);
    if (rc == BERTH_OK)
        rc = berth_api_authorize(c, err);
    if (rc == BERTH_OK)
        rc = berth_api_check_query(c, err);
    c->admitted = rc == BERTH_OK;
    return rc;
}

/* Performs a request whose body is complete, or is read by its handler. On a pool thread. A caller
 * that was admitted before its body came is checked again, since the body may have taken long. */
static void run_call(void *ctx)
{
    struct berth_api_call *c = ctx;
    struct berth_error err = {0};
    int rc = c->admitted ? berth_api_check_token(c, &err) : call_admit(c, &err);
    c->body = berth_http_exchange_body(c->x, &c->body_len);
    if (rc == BERTH_OK)
        rc = begin_once(c, &err);
    if (rc == BERTH_OK && !c->replayed)
        rc = c->route->slow ? berth_api_at_instance(c, &err) : c->route->handle(c, &err);
    berth_api_end_call(c, rc, &err);
}

/* --- requests --- */

/* Queues the request. */
static void call_submit(struct berth_api_call *c)
{
    struct berth_error err;
    int rc = berth_api_quick(c->api->quick, c->turn, run_call, c, &err);
    if (rc < 0)
        berth_api_answer(c, rc, &err);
}

static void on_call_body(void *ctx)
{
    berth_api_call_go_on(ctx);
    call_submit(ctx);
}

/* The client has left or was told what is wrong; the answer only frees the call. */
static void on_call_gone(void *ctx)
{
    struct berth_error err;
    berth_api_call_go_on(ctx);
    (void)berth_fail(&err, BERTH_E_CANCELLED, "The body did not arrive.");
    berth_api_answer(ctx, err.code, &err);
}

static void run_read_body(struct berth_post *post)
{
    struct berth_api_call *c = berth_container_of(post, struct berth_api_call, post);
    struct berth_http_body_handlers handlers = {
        .on_end = on_call_body, .on_gone = on_call_gone, .ctx = c};
    berth_api_call_wait(c);
    berth_http_body_read(c->x, BERTH_HTTP_BODY_BYTES_MAX, &handlers);
}

/* Admits a call before its body is read. */
static void call_admit_first(struct berth_api_call *c)
{
    struct berth_error err = {0};
    int rc = call_admit(c, &err);
    if (rc < 0) {
        berth_api_answer(c, rc, &err);
    } else if (berth_http_body_is_whole(c->x) || c->route->streams) {
        call_submit(c);
    } else {
        c->post.run = run_read_body;
        (void)berth_engine_post(c->b->engine, &c->post, &err); /* the loop runs: it has the call */
    }
}

static void run_admit(void *ctx)
{
    call_admit_first(ctx);
}

/* Looks up tokens of clients that send many bad ones: one at a time, so that they take no more than
 * one thread and good tokens among them wait, but are not refused. */
static void run_doubtful(void *ctx)
{
    struct berth_api *api = ctx;
    for (struct berth_api_call *c; (c = berth_api_gate_next(api->gate));)
        call_admit_first(c);
}

/* Starts a request; the head is all that is known of it, unless its body is short. */
static int call_start(struct berth_api_call *c, struct berth_error *err)
{
    struct berth_api *api = c->api;
    if (is_here(c) && berth_http_body_is_whole(c->x)) {
        int rc = berth_api_check_query(c, err);
        c->admitted = rc == BERTH_OK;
        if (c->admitted)
            run_call(c);
        else
            berth_api_answer(c, rc, err);
        return BERTH_OK;
    }
    if (c->doubtful) {
        int rc = berth_api_gate_wait(api->gate, c)
                     ? berth_api_quick(api->quick, NULL, run_doubtful, api, err)
                     : BERTH_OK;
        while (rc < 0 && berth_api_gate_next(api->gate)) /* it is the only one */
            ;
        return rc;
    }
    if (!berth_http_body_is_whole(c->x))
        return berth_api_quick(api->quick, c->turn, run_admit, c, err);
    return berth_api_quick(api->quick, c->turn, run_call, c, err);
}

static int begin_call(struct berth_api *api, struct berth_http_exchange *x,
                      const struct berth_api_found *f, struct berth_error *err)
{
    struct berth_api_call *c = calloc(1, sizeof *c);
    if (!c)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: request.");
    *c = (struct berth_api_call){.api = api,
                                 .b = api->b,
                                 .x = x,
                                 .head = berth_http_exchange_head(x),
                                 .route = f->route,
                                 .turn = "unknown",
                                 .status = 200,
                                 .arena = {.bytes_max = BERTH_HTTP_CALL_BYTES_MAX},
                                 .out = BERTH_BUF_INIT(BERTH_HTTP_ANSWER_BYTES_MAX)};
    c->w = (struct berth_json_writer){.buf = &c->out};
    c->issues.arena = &c->arena;
    if (f->allow[0])
        c->allow = berth_arena_strdup(&c->arena, f->allow);
    for (int i = 0; i < BERTH_API_PARAMS_MAX && f->params[i].text; i++)
        c->params[i] = berth_api_decode(&c->arena, f->params[i].text, f->params[i].len, false);
    int rc = berth_arena_check(&c->arena, err);
    if (rc == BERTH_OK && !is_open(c->route, c->head))
        rc = berth_api_gate_look(api->gate, c, err);
    if (rc == BERTH_OK)
        rc = call_start(c, err);
    if (rc < 0)
        berth_api_pass_on(c);
    return rc;
}

/* A browser asks whether the page may ask (CORS). */
static bool is_preflight(const struct berth_http_head *head)
{
    return head->method == BERTH_HTTP_OPTIONS && berth_http_header(head, "origin") &&
           berth_http_header(head, "access-control-request-method");
}

static void answer_preflight(struct berth_http_exchange *x)
{
    struct berth_http_answer answer = {
        .status = 204,
        .more = {{"Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE"},
                 {"Access-Control-Allow-Headers",
                  "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Range"},
                 {"Access-Control-Max-Age", "600"}}};
    berth_http_answer(x, &answer);
}

static void on_request(void *ctx, struct berth_http_exchange *x)
{
    struct berth_api *api = ctx;
    const struct berth_http_head *head = berth_http_exchange_head(x);
    struct berth_api_found found;
    struct berth_error err = {0};
    berth_api_route_find(head->method, head->path, &found);
    int rc = berth_api_gate_address(api->gate, x, &err);
    if (rc == BERTH_OK && is_preflight(head)) { /* it never shows a token */
        answer_preflight(x);
        return;
    }
    if (rc == BERTH_OK)
        rc = begin_call(api, x, &found, &err);
    if (rc < 0)
        answer_error(api->b, x, NULL, &err);
}

static void on_full(void *ctx)
{
    const struct berth_api *api = ctx;
    berth_log_line(
        &api->b->log, BERTH_LOG_WARN,
        "all connections are in use: those without a good token are closed, and new ones "
        "are turned away when there are none; raise connectionsMax",
        NULL);
}

/* --- all of it --- */

int berth_api_open(struct berth *b, const struct berth_http_settings *settings,
                   struct berth_api **out, struct berth_error *err)
{
    struct berth_api *api = calloc(1, sizeof *api);
    if (!api)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: API.");
    api->b = b;
    berth_lock_init(&api->lives_lock, BERTH_RANK_API_COMMANDS);
    berth_time_cond_init(&api->lives_changed);
    struct berth_http_handlers handlers = {
        .on_request = on_request, .on_full = on_full, .ctx = api};
    int rc = berth_api_gate_new(&api->gate, err);
    if (rc == BERTH_OK)
        rc = berth_api_events_new(api, &api->events, err);
    if (rc == BERTH_OK)
        rc = berth_api_quick_new(&api->quick, err);
    if (rc == BERTH_OK)
        rc = berth_api_guard_new(b, api->quick, &api->guard, err);
    if (rc == BERTH_OK)
        rc = berth_http_server_open(b->engine, settings, &handlers, &api->server, err);
    if (rc < 0)
        berth_api_close(api, 0);
    else
        *out = api;
    return rc;
}

int berth_api_set_cookie(struct berth_api *api, const char *value, const char *socket,
                         struct berth_error *err)
{
    return berth_api_gate_set_cookie(api->gate, value, socket, err);
}

int berth_api_listen(struct berth_api *api, const struct berth_http_address *address,
                     struct berth_error *err)
{
    return berth_http_server_listen(api->server, address, err);
}

void berth_api_set_tcp(struct berth_api *api, bool served)
{
    berth_api_gate_set_tcp(api->gate, served);
}

int berth_api_allow(struct berth_api *api, const char *const *hosts, const char *const *origins,
                    struct berth_error *err)
{
    return berth_api_gate_allow(api->gate, hosts, origins, err);
}

int berth_api_set_urls(struct berth_api *api, const struct berth_list *urls,
                       struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &text};
    berth_json_open(&w, '[');
    for (int i = 0; i < urls->count; i++)
        berth_json_put_str(&w, NULL, urls->items[i]);
    berth_json_close(&w, ']');
    int rc = berth_buf_check(&text, "The URLs", err);
    if (rc < 0)
        return rc;
    berth_lock_take(&api->lives_lock);
    free(api->urls_json);
    api->urls_json = berth_buf_take(&text);
    berth_lock_drop(&api->lives_lock);
    return BERTH_OK;
}

void berth_api_set_recovering(struct berth_api *api, bool recovering)
{
    atomic_store(&api->recovering, recovering);
}

static void run_nothing(void *ctx)
{
    (void)ctx;
}

void berth_api_close(struct berth_api *api, int64_t wait_ms)
{
    struct berth_error none;
    if (!api)
        return;
    int64_t end_ms = berth_time_mono_ms() + wait_ms;
    berth_api_events_close(api->events); /* those streams never end by themselves */
    if (api->server)
        berth_http_server_drain(api->server, wait_ms);
    berth_api_live_end_all(api, end_ms);
    if (!berth_api_await_place_calls(api, end_ms + BERTH_STOP_CALLS_MS))
        berth_cancel_calls(api->b, BERTH_STOP_WORKERS_MS);
    berth_http_server_close(api->server); /* waits for those who are to answer */
    berth_api_await_streams(api);
    (void)berth_api_await_place_calls(api, INT64_MAX);
    berth_api_guard_stop(api->guard);
    berth_shares_free(api->quick);
    (void)berth_engine_do(api->b->engine, run_nothing, NULL,
                          &none); /* what the pools posted has run */
    berth_api_gate_free(api->gate);
    berth_api_events_free(api->events);
    berth_api_guard_free(api->guard);
    berth_map_clear(&api->lives);
    berth_map_clear(&api->runs);
    berth_api_read_turns_clear(&api->log_reads);
    free(api->urls_json);
    pthread_cond_destroy(&api->lives_changed);
    berth_lock_destroy(&api->lives_lock);
    free(api);
}
