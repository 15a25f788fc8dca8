/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/api.c - the API over a real socket, on both stores: what each route answers,
 * and what it refuses. */
#include "plugins.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/json.h"
#include "scripted.h"

#define NOBODY "01234567-89ab-7cde-8f01-23456789abcd"

/* --- a client --- */

struct reply {
    int status;
    const char *head, *body; /* in the fixture's arena */
};

static int dial(struct fixture *f)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%.90s/api", f->directory);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static struct reply ask_with(struct fixture *f, const char *headers, const char *method,
                             const char *path, const char *body)
{
    auto_close int fd = dial(f);
    auto_buf text = BERTH_BUF_INIT(16 * 1024 * 1024), heard = BERTH_BUF_INIT(64 * 1024 * 1024);
    berth_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n%s", method,
                     path, headers);
    if (body)
        berth_buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    berth_buf_printf(&text, "\r\n%s", body ? body : "");
    assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), (ssize_t)text.len);
    char chunk[8192];
    for (ssize_t got; (got = recv(fd, chunk, sizeof chunk, 0)) > 0;)
        berth_buf_append(&heard, chunk, (size_t)got);
    struct reply reply = {0};
    char *gap = strstr(berth_buf_str(&heard), "\r\n\r\n");
    assert_non_null(gap);
    *gap = '\0';
    assert_int_equal(sscanf(heard.data, "HTTP/1.1 %d ", &reply.status), 1);
    reply.head = berth_arena_strdup(&f->arena, heard.data);
    reply.body = berth_arena_strdup(&f->arena, gap + 4);
    return reply;
}

/* ' stands for " in the body. */
static struct reply ask(struct fixture *f, const char *method, const char *path, const char *body)
{
    char *copy = body ? berth_arena_strdup(&f->arena, body) : NULL;
    for (char *c = copy; c && *c; c++)
        if (*c == '\'')
            *c = '"';
    return ask_with(f, body ? "Content-Type: application/json\r\n" : "", method, path, copy);
}

/* At "details.0.path"; NULL: it is not there, or null. */
static const char *text(struct fixture *f, const struct reply *r, const char *path)
{
    auto_json *whole = NULL;
    struct berth_error err;
    assert_int_equal(berth_json_parse(r->body, strlen(r->body), BERTH_JSON_OURS, &whole, &err), 0);
    const struct berth_json *at = whole;
    while (at && *path) {
        char key[80];
        size_t len = strcspn(path, ".");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, path);
        at = berth_json_is(at, BERTH_JSON_ARRAY) ? berth_json_at(at, (size_t)atoi(key))
                                                 : berth_json_get(at, key);
        path += len + (path[len] == '.');
    }
    return berth_arena_strdup(&f->arena, berth_json_str(at));
}

static void expect_error(struct fixture *f, struct reply r, int status, const char *code,
                         const char *message)
{
    assert_string_equal(text(f, &r, "error"), message);
    assert_string_equal(text(f, &r, "code"), code);
    assert_int_equal(r.status, status);
    assert_non_null(strstr(r.head, "Content-Type: application/json"));
}

static int count(const struct reply *r)
{
    auto_json *list = NULL;
    struct berth_error err;
    assert_int_equal(berth_json_parse(r->body, strlen(r->body), BERTH_JSON_OURS, &list, &err), 0);
    assert_true(berth_json_is(list, BERTH_JSON_ARRAY));
    return (int)berth_json_count(list);
}

BERTH_PRINTF(2, 3) static const char *path(struct fixture *f, const char *fmt, ...)
{
    char out[500];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out, sizeof out, fmt, args);
    va_end(args);
    return berth_arena_strdup(&f->arena, out);
}

/* --- the stage --- */

static struct berth_api *api;

static int set_up(void **state)
{
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    (void)fixture_setup(state);
    struct fixture *f = *state;
    assert_ok(f, berth_api_open(f->b, &settings, &api, &f->err));
    assert_ok(f, berth_api_listen(api, path(f, "%s/api", f->directory), &f->err));
    return 0;
}

static int tear_down(void **state)
{
    berth_api_close(api, 1000);
    api = NULL;
    return fixture_teardown(state);
}

#define ON_BOTH(test)                                                                              \
    {#test " (sqlite)", test, set_up, tear_down, &on_sqlite},                                      \
    {                                                                                              \
#test " (postgres)", test, set_up, tear_down, &on_postgres                                 \
    }

static const char *company(struct fixture *f)
{
    struct reply r = ask(f, "GET", "/api/companies", NULL);
    assert_int_equal(r.status, 200);
    return text(f, &r, "0.id");
}

static const char *make(struct fixture *f, const char *body)
{
    struct reply r = ask(f, "POST", path(f, "/api/companies/%s/environments", company(f)), body);
    if (r.status != 201)
        fail_msg("%d %s", r.status, r.body);
    return text(f, &r, "id");
}

/* --- tests --- */

static void health_and_unknown_routes(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "GET", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(text(f, &r, "status"), "ok");
    r = ask(f, "HEAD", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "");
    expect_error(f, ask(f, "GET", "/api/nothing", NULL), 404, "not_found", "API route not found");
    expect_error(f, ask(f, "GET", "/api/health/", NULL), 404, "not_found", "API route not found");
    expect_error(f, ask(f, "GET", "/", NULL), 404, "not_found", "API route not found");
    r = ask(f, "DELETE", "/api/companies", NULL);
    expect_error(f, r, 405, "invalid", "Method not allowed");
    assert_non_null(strstr(r.head, "\r\nAllow: GET, POST"));
}

/* A name that was shown and is none is refused, also where nobody has to show one. */
static void who_asks_comes_first(void **state)
{
    struct fixture *f = *state;
    static const char bad[] = "Authorization: Bearer nonsense\r\n";
    expect_error(f, ask_with(f, bad, "GET", "/api/companies", NULL), 401, "unauthorized",
                 "Unauthorized");
    expect_error(f, ask_with(f, bad, "POST", "/api/companies", "{not json"), 401, "unauthorized",
                 "Unauthorized");
    expect_error(f, ask_with(f, bad, "GET", "/api/nothing", NULL), 401, "unauthorized",
                 "Unauthorized");
}

static void companies(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "GET", "/api/companies", NULL);
    assert_int_equal(count(&r), 1);
    r = ask(f, "POST", "/api/companies", "{'name':'Acme'}");
    assert_int_equal(r.status, 201);
    const char *id = text(f, &r, "id");
    r = ask(f, "GET", path(f, "/api/companies/%s", id), NULL);
    assert_string_equal(text(f, &r, "name"), "Acme");
    assert_int_equal(ask(f, "POST", "/api/companies", "{'name':'Acme'}").status, 409);
    assert_int_equal(ask(f, "GET", "/api/companies/" NOBODY, NULL).status, 404);
    assert_int_equal(ask(f, "GET", "/api/companies/not-an-id", NULL).status, 404);
}

static void bodies_that_are_wrong(void **state)
{
    struct fixture *f = *state;
    const char *to = path(f, "/api/companies/%s/environments", company(f));
    static const struct {
        const char *body, *where, *message;
    } rows[] = {
        {"{'name':'x'}", "driver", "Required"},
        {"{'driver':'local'}", "name", "Required"},
        {"{'name':5,'driver':'local'}", "name", "Expected string"},
        {"{'name':null,'driver':'local'}", "name", "Expected string, received null"},
        {"{'name':'x','driver':'cloud'}", "driver", "Unknown value: cloud"},
        {"{'name':'x','driver':'local','config':[]}", "config", "Expected object"},
        {"{'name':'x','driver':'local','odd':1}", "odd", "Unrecognized key"},
        {"[]", "", "Expected object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reply r = ask(f, "POST", to, rows[i].body);
        expect_error(f, r, 400, "invalid", "Validation error");
        assert_string_equal(text(f, &r, "details.0.path"), rows[i].where);
        assert_string_equal(text(f, &r, "details.0.message"), rows[i].message);
    }
    struct reply two = ask(f, "POST", to, "{'driver':7,'odd':1}");
    assert_string_equal(text(f, &two, "details.2.message"), "Unrecognized key");
    assert_int_equal(ask(f, "POST", to, "{'name':'x',").status, 400);
    assert_int_equal(ask(f, "POST", to, "").status, 400);
    expect_error(f, ask_with(f, "Content-Type: text/plain\r\n", "POST", to, "{}"), 400, "invalid",
                 "The body must be application/json.");
    assert_int_equal(ask(f, "GET", path(f, "%s?status=odd", to), NULL).status, 400);
    assert_int_equal(ask(f, "GET", path(f, "%s?status=active&driver=local", to), NULL).status, 200);
}

static void environments(void **state)
{
    struct fixture *f = *state;
    const char *id = make(f, "{'name':'box','description':'for tests','driver':'sandbox',"
                             "'config':{'provider':'scripted'},'metadata':{'team':'a'}}");
    struct reply r = ask(f, "GET", path(f, "/api/environments/%s", id), NULL);
    assert_string_equal(text(f, &r, "name"), "box");
    assert_string_equal(text(f, &r, "metadata.team"), "a");
    assert_string_equal(text(f, &r, "status"), "active");
    r = ask(f, "PATCH", path(f, "/api/environments/%s", id),
            "{'name':'other','description':null,'status':'archived'}");
    assert_int_equal(r.status, 200);
    assert_string_equal(text(f, &r, "name"), "other");
    assert_null(text(f, &r, "description"));
    assert_string_equal(text(f, &r, "config.provider"), "scripted");
    r = ask(f, "GET", path(f, "/api/companies/%s/environments?status=archived", company(f)), NULL);
    assert_int_equal(count(&r), 1);
    r = ask(f, "POST", path(f, "/api/environments/%s/probe", id), NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(text(f, &r, "driver"), "sandbox");
    r = ask(f, "DELETE", path(f, "/api/environments/%s", id), NULL);
    assert_int_equal(r.status, 200);
    expect_error(f, ask(f, "GET", path(f, "/api/environments/%s", id), NULL), 404, "not_found",
                 "Environment not found");
    expect_error(f, ask(f, "GET", "/api/environments/not-an-id", NULL), 404, "not_found",
                 "Environment not found");
    make(f, "{'name':'here','driver':'local'}");
    struct reply second = ask(f, "POST", path(f, "/api/companies/%s/environments", company(f)),
                              "{'name':'again','driver':'local'}");
    assert_int_equal(second.status, 409);
}

static void leases(void **state)
{
    struct fixture *f = *state;
    const char *e = make(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    struct reply r = ask(f, "POST", path(f, "/api/environments/%s/leases", e), "{'ttlMs':60000}");
    assert_int_equal(r.status, 201);
    assert_string_equal(text(f, &r, "status"), "active");
    const char *id = text(f, &r, "id");
    r = ask(f, "GET", path(f, "/api/environment-leases/%s", id), NULL);
    assert_string_equal(text(f, &r, "environmentId"), e);
    r = ask(f, "GET", path(f, "/api/environments/%s/leases?status=active", e), NULL);
    assert_int_equal(count(&r), 1);
    r = ask(f, "GET", path(f, "/api/companies/%s/leases?limit=5", company(f)), NULL);
    assert_int_equal(count(&r), 1);
    assert_int_equal(
        ask(f, "GET", path(f, "/api/companies/%s/leases?limit=0", company(f)), NULL).status, 400);
    r = ask(f, "POST", path(f, "/api/environment-leases/%s/release", id),
            "{'status':'failed','failureReason':'it did not work'}");
    assert_int_equal(r.status, 200);
    assert_string_equal(text(f, &r, "status"), "failed");
    assert_string_equal(text(f, &r, "cleanupStatus"), "success");
    r = ask(f, "POST", path(f, "/api/environment-leases/%s/release", id), NULL); /* twice is fine */
    assert_int_equal(r.status, 200);
    r = ask(f, "POST", path(f, "/api/environment-leases/%s/retry-cleanup", id), NULL);
    assert_int_equal(r.status, 409);
    r = ask(f, "POST", path(f, "/api/environments/%s/leases", e), NULL);
    r = ask(f, "POST", path(f, "/api/environment-leases/%s/destroy", text(f, &r, "id")), NULL);
    assert_string_equal(text(f, &r, "status"), "failed");
    expect_error(f, ask(f, "GET", "/api/environment-leases/" NOBODY, NULL), 404, "not_found",
                 "Environment lease not found");
    expect_error(f, ask(f, "POST", "/api/environments/" NOBODY "/leases", "{}"), 404, "not_found",
                 "Environment not found");
    assert_int_equal(scripted_count(f->world), 0);
}

static void secrets(void **state)
{
    struct fixture *f = *state;
    const char *to = path(f, "/api/companies/%s/secrets", company(f));
    struct reply r = ask(f, "POST", to, "{'name':'cloud key','value':'plain-value-42'}");
    assert_int_equal(r.status, 201);
    assert_null(strstr(r.body, "plain-value-42"));
    const char *id = text(f, &r, "id");
    assert_int_equal(ask(f, "POST", to, "{'name':'cloud key','value':'x'}").status, 409);
    expect_error(f, ask(f, "POST", to, "{'name':'x'}"), 400, "invalid",
                 "Managed secrets require value");
    expect_error(f, ask(f, "POST", to, "{'name':'x','externalRef':'arn:x'}"), 422, "unprocessable",
                 "Provider vaults and external references are not supported.");
    r = ask(f, "GET", to, NULL);
    assert_int_equal(count(&r), 1);
    assert_null(strstr(r.body, "plain-value-42"));
    r = ask(f, "POST", path(f, "/api/secrets/%s/rotate", id), "{'value':'plain-value-43'}");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"latestVersion\":2"));
    r = ask(f, "PATCH", path(f, "/api/secrets/%s", id), "{'name':'renamed','description':'d'}");
    assert_string_equal(text(f, &r, "name"), "renamed");
    r = ask(f, "GET", path(f, "/api/secrets/%s/usage", id), NULL);
    assert_string_equal(text(f, &r, "secretId"), id);
    r = ask(f, "GET", path(f, "/api/secrets/%s/access-events", id), NULL);
    assert_int_equal(count(&r), 0);
    r = ask(f, "DELETE", path(f, "/api/secrets/%s", id), NULL);
    assert_string_equal(r.body, "{\"ok\":true}");
    expect_error(f, ask(f, "POST", "/api/secrets/" NOBODY "/rotate", "{'value':'x'}"), 404,
                 "not_found", "Secret not found");
}

static void runs_and_activity(void **state)
{
    struct fixture *f = *state;
    struct berth_run *run = make_run(f);
    struct reply r =
        ask(f, "GET", path(f, "/api/companies/%s/runs?status=running", company(f)), NULL);
    assert_int_equal(count(&r), 1);
    r = ask(f, "GET", path(f, "/api/runs/%s", berth_run_id(run)), NULL);
    assert_string_equal(text(f, &r, "status"), "running");
    assert_int_equal(ask(f, "GET", "/api/runs/" NOBODY, NULL).status, 404);
    for (int i = 0; i < 3; i++)
        make(f,
             path(f, "{'name':'box %d','driver':'sandbox','config':{'provider':'scripted'}}", i));
    const char *to = path(f, "/api/companies/%s/activity", company(f));
    r = ask(f, "GET", path(f, "%s?limit=2", to), NULL);
    assert_int_equal(count(&r), 2);
    assert_string_equal(text(f, &r, "0.action"), "environment.created");
    assert_string_equal(text(f, &r, "0.actorId"), "local-board");
    const char *newest = text(f, &r, "0.entityId");
    struct reply next = ask(f, "GET", path(f, "%s?entityId=%s", to, newest), NULL);
    assert_int_equal(count(&next), 1);
    assert_int_equal(ask(f, "GET", path(f, "%s?before=x", to), NULL).status, 400);
    next = ask(f, "GET", path(f, "%s?before=1", to), NULL);
    assert_int_equal(count(&next), 0);
}

static void plugins(void **state)
{
    struct fixture *f = *state;
    const char *package = make_fake_package(f, "acme");
    struct reply r = ask(f, "POST", "/api/plugins/install",
                         path(f, "{'packageName':'%s','isLocalPath':true}", package));
    assert_int_equal(r.status, 201);
    const char *id = text(f, &r, "id"), *key = text(f, &r, "pluginKey");
    assert_string_equal(text(f, &r, "status"), "ready");
    assert_int_equal(ask(f, "POST", "/api/plugins/install",
                         path(f, "{'packageName':'%s','isLocalPath':true}", package))
                         .status,
                     409);
    assert_int_equal(
        ask(f, "POST", "/api/plugins/install", path(f, "{'packageName':'%s'}", package)).status,
        400);
    r = ask(f, "GET", "/api/plugins", NULL);
    assert_int_equal(count(&r), 1);
    r = ask(f, "GET", path(f, "/api/plugins/%s", key), NULL);
    assert_string_equal(text(f, &r, "id"), id);
    r = ask(f, "POST", path(f, "/api/plugins/%s/restart", id), NULL);
    assert_string_equal(text(f, &r, "status"), "running");
    r = ask(f, "POST", path(f, "/api/plugins/%s/disable", id), "{'reason':'for now'}");
    assert_string_equal(text(f, &r, "lastError"), "for now");
    r = ask(f, "GET", path(f, "/api/plugins/%s/worker", id), NULL);
    assert_string_equal(text(f, &r, "status"), "stopped");
    assert_int_equal(ask(f, "POST", path(f, "/api/plugins/%s/disable", id), NULL).status, 400);
    assert_int_equal(ask(f, "POST", path(f, "/api/plugins/%s/enable", id), NULL).status, 200);
    /* A place of it, all the way through. */
    const char *e = make(f, "{'name':'box','driver':'sandbox','config':{'provider':'acme'}}");
    r = ask(f, "POST", path(f, "/api/environments/%s/leases", e), "{}");
    assert_int_equal(r.status, 201);
    const char *lease = text(f, &r, "id");
    assert_int_equal(ask(f, "DELETE", path(f, "/api/plugins/%s", id), NULL).status, 409);
    r = ask(f, "POST", path(f, "/api/environment-leases/%s/release", lease), NULL);
    assert_string_equal(text(f, &r, "cleanupStatus"), "success");
    r = ask(f, "DELETE", path(f, "/api/plugins/%s", id), NULL);
    assert_string_equal(r.body, "{\"ok\":true}");
    expect_error(f, ask(f, "GET", path(f, "/api/plugins/%s", id), NULL), 404, "not_found",
                 path(f, "Plugin not found: %s", id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(health_and_unknown_routes),
        ON_BOTH(who_asks_comes_first),
        ON_BOTH(companies),
        ON_BOTH(bodies_that_are_wrong),
        ON_BOTH(environments),
        ON_BOTH(leases),
        ON_BOTH(secrets),
        ON_BOTH(runs_and_activity),
        ON_BOTH(plugins),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
