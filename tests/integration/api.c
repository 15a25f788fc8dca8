/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/api.c - the API over a real socket, on both stores: what each route answers,
 * and what it refuses. */
#include <ctype.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/call.h"
#include "asking.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/metrics.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_rows.h"
#include "os/shares.h"
#include "plugins.h"
#include "scripted.h"
#include "store/store.h"

/* --- tests --- */

static void health_and_unknown_routes(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "GET", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(reply_text(f, &r, "status"), "ok");
    r = ask(f, "HEAD", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "");
    expect_error(f, ask(f, "GET", "/api/nothing", NULL), 404, "not_found", "API route not found");
    expect_error(f, ask(f, "GET", "/api/health/", NULL), 404, "not_found", "API route not found");
    expect_error(f, ask(f, "GET", "/", NULL), 404, "not_found", "API route not found");
    const char *id = default_company(f);
    r = ask(f, "GET", text_of(f, "/api/companies/%%%02x%s", id[0], id + 1), NULL);
    assert_string_equal(reply_text(f, &r, "id"), id);
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
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "POST", "/api/companies", "{'name':'Acme'}");
    assert_int_equal(r.status, 201);
    const char *id = reply_text(f, &r, "id");
    r = ask(f, "GET", text_of(f, "/api/companies/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "name"), "Acme");
    assert_int_equal(ask(f, "POST", "/api/companies", "{'name':'Acme'}").status, 409);
    assert_int_equal(ask(f, "GET", "/api/companies/" NOBODY, NULL).status, 404);
    assert_int_equal(ask(f, "GET", "/api/companies/not-an-id", NULL).status, 404);
}

static void bodies_that_are_wrong(void **state)
{
    struct fixture *f = *state;
    const char *to = text_of(f, "/api/companies/%s/environments", default_company(f));
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
        assert_string_equal(reply_text(f, &r, "details.0.path"), rows[i].where);
        assert_string_equal(reply_text(f, &r, "details.0.message"), rows[i].message);
    }
    struct reply two = ask(f, "POST", to, "{'driver':7,'odd':1}");
    assert_string_equal(reply_text(f, &two, "details.2.message"), "Unrecognized key");
    assert_int_equal(ask(f, "POST", to, "{'name':'x',").status, 400);
    assert_int_equal(ask(f, "POST", to, "").status, 400);
    expect_error(f, ask_with(f, "Content-Type: text/plain\r\n", "POST", to, "{}"), 400, "invalid",
                 "The body must be application/json.");
    assert_int_equal(ask(f, "GET", text_of(f, "%s?status=odd", to), NULL).status, 400);
    assert_int_equal(ask(f, "GET", text_of(f, "%s?status=active&driver=local", to), NULL).status,
                     200);
}

static void environments(void **state)
{
    struct fixture *f = *state;
    const char *id =
        ask_environment(f, "{'name':'box','description':'for tests','driver':'sandbox',"
                           "'config':{'provider':'scripted'},'metadata':{'team':'a'}}");
    struct reply r = ask(f, "GET", text_of(f, "/api/environments/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "name"), "box");
    assert_string_equal(reply_text(f, &r, "metadata.team"), "a");
    assert_string_equal(reply_text(f, &r, "status"), "active");
    r = ask(f, "PATCH", text_of(f, "/api/environments/%s", id),
            "{'name':'other','description':null,'status':'archived'}");
    assert_int_equal(r.status, 200);
    assert_string_equal(reply_text(f, &r, "name"), "other");
    assert_null(reply_text(f, &r, "description"));
    assert_string_equal(reply_text(f, &r, "config.provider"), "scripted");
    r = ask(f, "GET",
            text_of(f, "/api/companies/%s/environments?status=archived", default_company(f)), NULL);
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "POST", text_of(f, "/api/environments/%s/probe", id), NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(reply_text(f, &r, "driver"), "sandbox");
    r = ask(f, "DELETE", text_of(f, "/api/environments/%s", id), NULL);
    assert_int_equal(r.status, 200);
    expect_error(f, ask(f, "GET", text_of(f, "/api/environments/%s", id), NULL), 404, "not_found",
                 "Environment not found");
    expect_error(f, ask(f, "GET", "/api/environments/not-an-id", NULL), 404, "not_found",
                 "Environment not found");
    ask_environment(f, "{'name':'here','driver':'local'}");
    struct reply second =
        ask(f, "POST", text_of(f, "/api/companies/%s/environments", default_company(f)),
            "{'name':'again','driver':'local'}");
    assert_int_equal(second.status, 409);
}

static void leases(void **state)
{
    struct fixture *f = *state;
    const char *e =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    struct reply r =
        ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), "{'ttlMs':60000}");
    assert_int_equal(r.status, 201);
    assert_string_equal(reply_text(f, &r, "status"), "active");
    const char *id = reply_text(f, &r, "id");
    r = ask(f, "GET", text_of(f, "/api/environment-leases/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "environmentId"), e);
    r = ask(f, "GET", text_of(f, "/api/environments/%s/leases?status=active", e), NULL);
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "GET", text_of(f, "/api/companies/%s/leases?limit=5", default_company(f)), NULL);
    assert_int_equal(reply_count(&r), 1);
    assert_int_equal(
        ask(f, "GET", text_of(f, "/api/companies/%s/leases?limit=0", default_company(f)), NULL)
            .status,
        400);
    r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/release", id),
            "{'status':'failed','failureReason':'it did not work'}");
    assert_int_equal(r.status, 200);
    assert_string_equal(reply_text(f, &r, "status"), "failed");
    assert_string_equal(reply_text(f, &r, "cleanupStatus"), "success");
    r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/release", id),
            NULL); /* twice is fine */
    assert_int_equal(r.status, 200);
    r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/retry-cleanup", id), NULL);
    assert_int_equal(r.status, 409);
    r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), NULL);
    r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/destroy", reply_text(f, &r, "id")),
            NULL);
    assert_string_equal(reply_text(f, &r, "status"), "failed");
    expect_error(f, ask(f, "GET", "/api/environment-leases/" NOBODY, NULL), 404, "not_found",
                 "Environment lease not found");
    expect_error(f, ask(f, "POST", "/api/environments/" NOBODY "/leases", "{}"), 404, "not_found",
                 "Environment not found");
    assert_int_equal(scripted_count(f->world), 0);
}

/* Filters narrow each other. */
static void leases_of_a_run(void **state)
{
    struct fixture *f = *state;
    const char *c = default_company(f), *environments[2], *runs[2], *ids[2][2];
    for (int e = 0; e < 2; e++)
        environments[e] = ask_environment(
            f,
            text_of(f, "{'name':'box %d','driver':'sandbox','config':{'provider':'scripted'}}", e));
    for (int n = 0; n < 2; n++) {
        runs[n] = berth_run_id(make_run(f));
        for (int e = 0; e < 2; e++) {
            struct reply r =
                ask(f, "POST", text_of(f, "/api/environments/%s/leases", environments[e]),
                    text_of(f, "{'heartbeatRunId':'%s'}", runs[n]));
            ids[n][e] = reply_text(f, &r, "id");
        }
    }
    for (int n = 0; n < 2; n++) {
        struct reply all =
            ask(f, "GET", text_of(f, "/api/companies/%s/leases?runId=%s", c, runs[n]), NULL);
        assert_int_equal(reply_count(&all), 2);
        for (int e = 0; e < 2; e++) {
            const char *both = text_of(f, "/api/companies/%s/leases?runId=%s&environmentId=%s", c,
                                       runs[n], environments[e]);
            const char *below =
                text_of(f, "/api/environments/%s/leases?runId=%s", environments[e], runs[n]);
            struct reply r = ask(f, "GET", both, NULL);
            assert_int_equal(reply_count(&r), 1);
            assert_string_equal(reply_text(f, &r, "0.id"), ids[n][e]);
            r = ask(f, "GET", below, NULL);
            assert_int_equal(reply_count(&r), 1);
            assert_string_equal(reply_text(f, &r, "0.id"), ids[n][e]);
            r = ask(f, "GET", text_of(f, "%s&status=expired", both), NULL);
            assert_int_equal(reply_count(&r), 0);
        }
    }
}

/* A page ends where the next begins, by the id of its last row. */
static void lists_have_pages(void **state)
{
    struct fixture *f = *state;
    const char *e =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    struct berth_id ids[7];
    const char *run = NULL;
    for (int i = 0; i < 7; i++) {
        struct reply lease = ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), "{}");
        assert_int_equal(lease.status, 201);
        run = berth_run_id(make_run(f));
        assert_int_equal(ask(f, "POST", "/api/tokens", "{'name':'one of many'}").status, 201);
    }
    for (int i = 0; i < 7; i++) {
        ids[i] = berth_id_new();
        struct berth_exec_record record = {.id = ids[i].text,
                                           .company_id = default_company(f),
                                           .environment_id = e,
                                           .lease_id = e,
                                           .run_id = run,
                                           .command = "true",
                                           .owner = e,
                                           .ended = true};
        assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
        berth_exec_journal_end(f->b, &record);
    }
    for (int i = 0; i < 6; i++)
        (void)ask_environment(
            f, text_of(f, "{'name':'e%d','driver':'sandbox','config':{'provider':'scripted'}}", i));
    for (int i = 0; i < 7; i++)
        assert_int_equal(ask(f, "POST", text_of(f, "/api/companies/%s/secrets", default_company(f)),
                             text_of(f, "{'name':'s%d','value':'v'}", i))
                             .status,
                         201);
    const char *lists[] = {text_of(f, "/api/environments/%s/leases", e),
                           text_of(f, "/api/companies/%s/environments", default_company(f)),
                           text_of(f, "/api/companies/%s/secrets", default_company(f)),
                           text_of(f, "/api/companies/%s/leases", default_company(f)),
                           text_of(f, "/api/companies/%s/runs", default_company(f)),
                           text_of(f, "/api/runs/%s/execs", run),
                           "/api/tokens"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct reply all = ask(f, "GET", lists[i], NULL);
        assert_int_equal(reply_count(&all), 7);
        const char *cursor = "";
        for (int seen = 0; seen < 7; seen += 3) {
            struct reply page = ask(f, "GET", text_of(f, "%s?limit=3%s", lists[i], cursor), NULL);
            int rows = reply_count(&page);
            assert_int_equal(rows, seen < 6 ? 3 : 1);
            for (int r = 0; r < rows; r++)
                assert_string_equal(reply_text(f, &page, text_of(f, "%d.id", r)),
                                    reply_text(f, &all, text_of(f, "%d.id", seen + r)));
            cursor = text_of(f, "&before=%s", reply_text(f, &page, text_of(f, "%d.id", rows - 1)));
        }
        struct reply none = ask(f, "GET", text_of(f, "%s?limit=3%s", lists[i], cursor), NULL);
        assert_int_equal(reply_count(&none), 0);
        assert_int_equal(ask(f, "GET", text_of(f, "%s?before=x", lists[i]), NULL).status, 400);
    }
}

/* A list that is too large for one answer is refused, and pages of it are read one at a time: all
 * rows together do not fit into the memory of a request. */
static void expect_pages(struct fixture *f, const char *list, int rows)
{
    enum { PAGE = 25 };
    struct reply r = ask(f, "GET", list, NULL);
    assert_int_equal(r.status, 413);
    assert_non_null(strstr(reply_text(f, &r, "error"), "smaller limit"));
    const char *cursor = "";
    int seen = 0, count = PAGE;
    for (; count == PAGE; seen += count) {
        r = ask(f, "GET", text_of(f, "%s?limit=%d%s", list, PAGE, cursor), NULL);
        if (r.status != 200)
            fail_msg("%s after %d rows: %d %s", list, seen, r.status, r.body);
        count = reply_count(&r);
        if (count)
            cursor = text_of(f, "&before=%s", reply_text(f, &r, text_of(f, "%d.id", count - 1)));
    }
    assert_int_equal(seen, rows);
    r = ask(f, "GET", text_of(f, "%s?before=" NOBODY, list), NULL);
    assert_int_equal(reply_count(&r), 0);
}

static void other_large_rows_come_in_pages(void **state)
{
    struct fixture *f = *state;
    enum { BYTES = 100000, ROWS = 400 };
    char *text = berth_arena_alloc(&f->arena, BYTES);
    (void)snprintf(text, BYTES, "%0*d", BYTES - 1, 1);
    const char *first = default_company(f);
    run_sql(f,
            "INSERT INTO companies (id, name, created_at, updated_at)"
            " SELECT '00000000-0000-4000-8000-' || (100000000000 + n), n || CAST($1 AS TEXT), 1, 1"
            " FROM (WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 399)"
            " SELECT n FROM r) AS numbers",
            text);
    run_sql(f,
            "INSERT INTO secrets (id, company_id, key, name, description, status, latest_version,"
            " created_at, updated_at) SELECT c.id, d.id, c.id, c.id, CAST($1 AS TEXT), 'active', 1,"
            " 1, 1 FROM companies c, companies d WHERE d.name = 'default'",
            text);
    run_sql(f,
            "INSERT INTO plugins (id, plugin_key, package_name, package_path, in_place, version,"
            " status, manifest, config, last_error, install_order, installed_at, updated_at,"
            " row_version) SELECT id, id, id, 'p', 1, '1.0.0', 'uninstalled', '{}', '{}',"
            " CAST($1 AS TEXT), (SELECT count(*) FROM companies o WHERE o.id < c.id), 1, 1, 1"
            " FROM companies c",
            text);
    expect_pages(f, "/api/companies", ROWS);
    expect_pages(f, text_of(f, "/api/companies/%s/secrets", first), ROWS);
    expect_pages(f, "/api/plugins", ROWS);
}

static void large_rows_come_in_pages(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 140, BYTES = 250000 };
    const char *list = text_of(f, "/api/companies/%s/environments", default_company(f));
    char *metadata = berth_arena_alloc(&f->arena, BYTES);
    (void)snprintf(metadata, BYTES, "{\"x\":\"%0*d\"}", BYTES - 10, 1);
    for (int i = 0; i < ROWS; i++) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_issues issues = {.arena = &arena};
        struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
        struct berth_environment *e;
        input.name = berth_arena_printf(&arena, "large %d", i);
        input.driver = BERTH_DRIVER_SANDBOX;
        input.config_json = "{\"provider\":\"scripted\"}";
        input.metadata_json = metadata;
        assert_ok(f, berth_environment_create(f->b, &arena, &input, &issues, &e, &f->err));
    }
    expect_pages(f, list, ROWS);
}

static void secrets(void **state)
{
    struct fixture *f = *state;
    const char *to = text_of(f, "/api/companies/%s/secrets", default_company(f));
    struct reply r = ask(f, "POST", to, "{'name':'cloud key','value':'plain-value-42'}");
    assert_int_equal(r.status, 201);
    assert_null(strstr(r.body, "plain-value-42"));
    const char *id = reply_text(f, &r, "id");
    assert_int_equal(ask(f, "POST", to, "{'name':'cloud key','value':'x'}").status, 409);
    expect_error(f, ask(f, "POST", to, "{'name':'x'}"), 400, "invalid",
                 "Managed secrets require value");
    const char *const keys[] = {"a b", "", "caf\u00e9", "a/b"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        expect_error(f,
                     ask(f, "POST", to,
                         text_of(f, "{\"name\":\"x\",\"value\":\"v\",\"key\":\"%s\"}", keys[i])),
                     400, "invalid", "A key has letters, digits, _, . and - only.");
    expect_error(f, ask(f, "POST", to, "{'name':'x','externalRef':'arn:x'}"), 422, "unprocessable",
                 "Provider vaults and external references are not supported.");
    r = ask(f, "GET", to, NULL);
    assert_int_equal(reply_count(&r), 1);
    assert_null(strstr(r.body, "plain-value-42"));
    r = ask(f, "POST", text_of(f, "/api/secrets/%s/rotate", id), "{'value':'plain-value-43'}");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"latestVersion\":2"));
    r = ask(f, "PATCH", text_of(f, "/api/secrets/%s", id), "{'name':'renamed','description':'d'}");
    assert_string_equal(reply_text(f, &r, "name"), "renamed");
    r = ask(f, "GET", text_of(f, "/api/secrets/%s/usage", id), NULL);
    assert_string_equal(reply_text(f, &r, "secretId"), id);
    r = ask(f, "GET", text_of(f, "/api/secrets/%s/access-events", id), NULL);
    assert_int_equal(reply_count(&r), 0);
    r = ask(f, "DELETE", text_of(f, "/api/secrets/%s", id), NULL);
    assert_string_equal(r.body, "{\"ok\":true}");
    const char *of = text_of(f, "/api/companies/%s", default_company(f));
    r = ask(f, "GET", text_of(f, "%s/secret-providers", of), NULL);
    assert_string_equal(reply_text(f, &r, "0.id"), "local_encrypted");
    r = ask(f, "GET", text_of(f, "%s/secret-providers/health", of), NULL);
    assert_string_equal(reply_text(f, &r, "providers.0.status"), "ok");
    assert_string_equal(ask(f, "GET", text_of(f, "%s/secret-provider-configs", of), NULL).body,
                        "[]");
    expect_error(f, ask(f, "POST", text_of(f, "%s/secrets/remote-import", of), "{}"), 422,
                 "unprocessable", "Provider vaults and remote import are not supported.");
    expect_error(f, ask(f, "GET", "/api/secret-provider-configs/" NOBODY, NULL), 404, "not_found",
                 "Provider vault not found");
    expect_error(f, ask(f, "POST", "/api/secrets/" NOBODY "/rotate", "{'value':'x'}"), 404,
                 "not_found", "Secret not found");
}

static void runs_and_activity(void **state)
{
    struct fixture *f = *state;
    struct berth_run *run = make_run(f);
    struct reply r = ask(
        f, "GET", text_of(f, "/api/companies/%s/runs?status=running", default_company(f)), NULL);
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "GET", text_of(f, "/api/runs/%s", berth_run_id(run)), NULL);
    assert_string_equal(reply_text(f, &r, "status"), "running");
    assert_int_equal(ask(f, "GET", "/api/runs/" NOBODY, NULL).status, 404);
    for (int i = 0; i < 3; i++)
        ask_environment(
            f,
            text_of(f, "{'name':'box %d','driver':'sandbox','config':{'provider':'scripted'}}", i));
    const char *to = text_of(f, "/api/companies/%s/activity", default_company(f));
    r = ask(f, "GET", text_of(f, "%s?limit=2", to), NULL);
    assert_int_equal(reply_count(&r), 2);
    assert_string_equal(reply_text(f, &r, "0.action"), "environment.created");
    assert_string_equal(reply_text(f, &r, "0.actorId"), "local-board");
    const char *newest = reply_text(f, &r, "0.entityId");
    struct reply next = ask(f, "GET", text_of(f, "%s?entityId=%s", to, newest), NULL);
    assert_int_equal(reply_count(&next), 1);
    assert_int_equal(ask(f, "GET", text_of(f, "%s?before=x", to), NULL).status, 400);
    next = ask(f, "GET", text_of(f, "%s?before=1", to), NULL);
    assert_int_equal(reply_count(&next), 0);
}

static void plugins(void **state)
{
    struct fixture *f = *state;
    const char *package = make_fake_package(f, "acme");
    struct reply r = ask(f, "POST", "/api/plugins/install",
                         text_of(f, "{'packageName':'%s','isLocalPath':true}", package));
    assert_int_equal(r.status, 201);
    const char *id = reply_text(f, &r, "id"), *key = reply_text(f, &r, "pluginKey");
    assert_string_equal(reply_text(f, &r, "status"), "ready");
    assert_int_equal(ask(f, "POST", "/api/plugins/install",
                         text_of(f, "{'packageName':'%s','isLocalPath':true}", package))
                         .status,
                     409);
    assert_int_equal(
        ask(f, "POST", "/api/plugins/install", text_of(f, "{'packageName':'%s'}", package)).status,
        400);
    r = ask(f, "GET", "/api/plugins", NULL);
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "GET", text_of(f, "/api/plugins/%s", key), NULL);
    assert_string_equal(reply_text(f, &r, "id"), id);
    const char *can = text_of(f, "/api/companies/%s/environments/capabilities", default_company(f));
    r = ask(f, "GET", can, NULL);
    assert_string_equal(reply_text(f, &r, "sandboxProviders.acme.status"), "supported");
    assert_string_equal(reply_text(f, &r, "sandboxProviders.acme.pluginId"), id);
    assert_string_equal(reply_text(f, &r, "sandboxProviders.fake.status"), "unsupported");
    assert_string_equal(reply_text(f, &r, "drivers.ssh"), "supported");
    r = ask(f, "POST", text_of(f, "/api/plugins/%s/restart", id), NULL);
    assert_string_equal(reply_text(f, &r, "status"), "running");
    r = ask(f, "POST", text_of(f, "/api/plugins/%s/disable", id), "{'reason':'for now'}");
    assert_string_equal(reply_text(f, &r, "lastError"), "for now");
    r = ask(f, "GET", text_of(f, "/api/plugins/%s/worker", id), NULL);
    assert_string_equal(reply_text(f, &r, "status"), "stopped");
    assert_int_equal(ask(f, "POST", text_of(f, "/api/plugins/%s/disable", id), NULL).status, 400);
    assert_int_equal(ask(f, "POST", text_of(f, "/api/plugins/%s/enable", id), NULL).status, 200);
    /* A place of it, all the way through. */
    const char *e =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'acme'}}");
    r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), "{}");
    assert_int_equal(r.status, 201);
    const char *lease = reply_text(f, &r, "id");
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/plugins/%s", id), NULL).status, 409);
    r = ask(f, "POST", text_of(f, "/api/environment-leases/%s/release", lease), NULL);
    assert_string_equal(reply_text(f, &r, "cleanupStatus"), "success");
    r = ask(f, "DELETE", text_of(f, "/api/plugins/%s", id), NULL);
    assert_string_equal(r.body, "{\"ok\":true}");
    expect_error(f, ask(f, "GET", text_of(f, "/api/plugins/%s", id), NULL), 404, "not_found",
                 text_of(f, "Plugin not found: %s", id));
}

/* --- known weaknesses of such APIs (access.c and streams.c have more) --- */

#define SSH_CONFIG "'host':'h','username':'u','remoteWorkspacePath':'/w','privateKey':'k-plain-42'"

static int count_secrets(struct fixture *f)
{
    struct reply r =
        ask(f, "GET", text_of(f, "/api/companies/%s/secrets", default_company(f)), NULL);
    return reply_count(&r);
}

/* Saved again and again, an environment is bound to its secrets once. */
static void W14_bindings_survive_a_second_save(void **state)
{
    struct fixture *f = *state;
    const char *e = ask_environment(f, "{'name':'far','driver':'ssh','config':{" SSH_CONFIG "}}");
    for (int i = 0; i < 3; i++) {
        struct reply r = ask(f, "PATCH", text_of(f, "/api/environments/%s", e),
                             text_of(f, "{'config':{'port':%d}}", 2200 + i));
        if (r.status != 200)
            fail_msg("%d %s", r.status, r.body);
        assert_null(strstr(r.body, "k-plain-42"));
    }
    struct reply r =
        ask(f, "GET", text_of(f, "/api/companies/%s/secrets", default_company(f)), NULL);
    assert_int_equal(reply_count(&r), 1);
    r = ask(f, "GET", text_of(f, "/api/secrets/%s/usage", reply_text(f, &r, "0.id")), NULL);
    assert_string_equal(reply_text(f, &r, "bindings.0.configPath"), "privateKeySecretRef");
    assert_null(reply_text(f, &r, "bindings.1.configPath"));
}

struct rotating {
    struct fixture *f;
    const char *path;
    pthread_t thread;
    int good, bad;
};

static void *rotate_often(void *ctx)
{
    struct rotating *r = ctx;
    struct fixture own = *r->f;
    own.arena = (struct berth_arena)BERTH_ARENA_INIT;
    for (int i = 0; i < 10; i++) {
        int status = ask(&own, "POST", r->path, "{'value':'another-value'}").status;
        r->good += status == 200;
        r->bad += status != 200 && status != 409;
    }
    berth_arena_clear(&own.arena);
    return NULL;
}

/* What two want at once is a conflict, not a mistake of ours. */
static void W24_conflicts_are_told_as_such(void **state)
{
    struct fixture *f = *state;
    (void)ask_environment(f, "{'name':'here','driver':'local'}");
    expect_error(f,
                 ask(f, "POST", text_of(f, "/api/companies/%s/environments", default_company(f)),
                     "{'name':'there','driver':'local'}"),
                 409, "conflict", "This company already has a local environment, \"here\".");
    struct reply r = ask(f, "POST", text_of(f, "/api/companies/%s/secrets", default_company(f)),
                         "{'name':'key','value':'one-value'}");
    const char *id = reply_text(f, &r, "id");
    struct rotating all[4];
    int good = 0;
    for (int i = 0; i < 4; i++) {
        all[i] = (struct rotating){.f = f, .path = text_of(f, "/api/secrets/%s/rotate", id)};
        assert_int_equal(pthread_create(&all[i].thread, NULL, rotate_often, &all[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        assert_int_equal(all[i].bad, 0);
        good += all[i].good;
    }
    r = ask(f, "GET", text_of(f, "/api/companies/%s/secrets", default_company(f)), NULL);
    assert_non_null(strstr(r.body, text_of(f, "\"latestVersion\":%d,", good + 1)));
}

/* A lease ends when its time is up, and tells when it was used. */
static void W29_leases_expire_and_are_touched(void **state)
{
    struct fixture *f = *state;
    const char *e = ask_environment(f, "{'name':'here','driver':'local'}");
    struct reply r =
        ask(f, "POST", text_of(f, "/api/environments/%s/leases", e), "{'ttlMs':60000}");
    const char *id = reply_text(f, &r, "id"), *used = reply_text(f, &r, "lastUsedAt");
    const char *exec = text_of(f, "/api/environment-leases/%s/exec", id);
    berth_time_shift(59000, 0);
    assert_int_equal(ask(f, "POST", exec, "{'command':'true'}").status, 200);
    assert_ok(f, berth_exec_journal_flush(f->b, &f->err)); /* it is written a little later */
    r = ask(f, "GET", text_of(f, "/api/environment-leases/%s", id), NULL);
    assert_string_not_equal(reply_text(f, &r, "lastUsedAt"), used);
    berth_time_shift(2000, 0);
    assert_int_equal(ask(f, "POST", exec, "{'command':'true'}").status, 409);
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    assert_ok(f, berth_sweep(f->b, &pass, &report, &f->err));
    r = ask(f, "GET", text_of(f, "/api/environment-leases/%s", id), NULL);
    berth_time_shift(-61000, 0);
    assert_string_equal(reply_text(f, &r, "status"), "expired");
}

/* The pattern of a route with an id for each parameter; with `braces`, as the API's document has
 * it.
 */
static const char *path_of(struct fixture *f, const char *pattern, bool braces)
{
    auto_buf out = BERTH_BUF_INIT(500);
    for (const char *at = pattern; *at;) {
        size_t len = strcspn(at, ":");
        berth_buf_append(&out, at, len);
        at += len;
        size_t name = strcspn(at, "/");
        if (name)
            berth_buf_printf(&out, braces ? "{%.*s}" : NOBODY, (int)name - 1, at + 1);
        at += name;
    }
    return berth_arena_strdup(&f->arena, berth_buf_str(&out));
}

static void expect_query_issue(struct fixture *f, const struct berth_api_route *route,
                               const char *query, const char *key, const char *message)
{
    const char *path = text_of(f, "%s?%s", path_of(f, route->pattern, false), query);
    struct reply r = ask(f, route->method, path, NULL);
    const char *where = reply_text(f, &r, "details.0.path");
    const char *told = reply_text(f, &r, "details.0.message");
    if (r.status != 400 || !where || strcmp(where, key) != 0 || strcmp(told, message) != 0)
        fail_msg("%s %s: %d %s", route->method, path, r.status, r.body);
}

/* Returns the names of an operation's parameters in the query, with spaces between. */
static const char *documented_query(struct fixture *f, const struct berth_json *document,
                                    const struct berth_api_route *route)
{
    auto_buf out = BERTH_BUF_INIT(500);
    char method[10];
    for (size_t i = 0; i <= strlen(route->method); i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    const struct berth_json *paths = berth_json_get(document, "paths");
    const struct berth_json *path = berth_json_get(paths, path_of(f, route->pattern, true));
    const struct berth_json *list = berth_json_get(berth_json_get(path, method), "parameters");
    const struct berth_json *shared =
        berth_json_get(berth_json_get(document, "components"), "parameters");
    for (size_t i = 0; list && i < berth_json_count(list); i++) {
        const struct berth_json *one = berth_json_at(list, i);
        const char *ref = berth_json_str(berth_json_get(one, "$ref"));
        if (ref)
            one = berth_json_get(shared, strrchr(ref, '/') + 1);
        if (strcmp(berth_json_str(berth_json_get(one, "in")), "query") == 0)
            berth_buf_printf(&out, "%s%s", out.len ? " " : "",
                             berth_json_str(berth_json_get(one, "name")));
    }
    return berth_arena_strdup(&f->arena, berth_buf_str(&out));
}

/* A misspelt parameter must not be ignored: "?drian=true" would delete what is in use. */
static void queries_have_known_keys_once(void **state)
{
    struct fixture *f = *state;
    auto_json *document = NULL;
    struct reply r = ask(f, "GET", "/api/openapi.json", NULL);
    assert_int_equal(berth_json_parse(r.body, strlen(r.body), BERTH_JSON_OURS, &document, &f->err),
                     0);
    for (int t = 0; berth_api_tables[t]; t++)
        for (const struct berth_api_route *route = berth_api_tables[t]; route->method; route++) {
            expect_query_issue(f, route, "noSuchKey=1", "noSuchKey", "Unrecognized key");
            expect_query_issue(f, route, "&&no%53uch", "noSuch", "Unrecognized key");
            const char *names = route->query ? route->query : "";
            assert_string_equal(documented_query(f, document, route), names);
            while (*names) {
                size_t len = strcspn(names, " ");
                const char *name = text_of(f, "%.*s", (int)len, names);
                expect_query_issue(f, route, text_of(f, "%s=1&%s=1", name, name), name,
                                   "Given more than once");
                names += len + (names[len] == ' ');
            }
        }
    r = ask(f, "GET", "/api/companies?li%6Dit=x", NULL); /* the escape does not hide a key */
    assert_string_equal(reply_text(f, &r, "details.0.message"), "Expected a number from 1 to 1000");
    r = ask(f, "GET", "/api/tokens?all", NULL);
    assert_string_equal(reply_text(f, &r, "details.0.message"), "Unknown value: ");
    assert_int_equal(ask(f, "GET", "/api/companies?", NULL).status, 200);
    assert_int_equal(ask(f, "GET", "/api/companies?&limit=1&", NULL).status, 200);
}

/* What cannot be an id names nothing. */
static void W34_ids_that_are_none(void **state)
{
    struct fixture *f = *state;
    static const char *const ids[] = {"x",     "0",        "%27%20OR%201=1",
                                      "..%2e", NOBODY "0", "01234567-89ab-7cde-8f01-23456789abcg"};
    static const char *const paths[] = {"/api/companies/%s",
                                        "/api/companies/%s/environments",
                                        "/api/companies/%s/secrets",
                                        "/api/companies/%s/runs",
                                        "/api/companies/%s/activity",
                                        "/api/environments/%s",
                                        "/api/environments/%s/leases",
                                        "/api/environment-leases/%s",
                                        "/api/runs/%s",
                                        "/api/runs/%s/log",
                                        "/api/execs/%s",
                                        "/api/secrets/%s/usage",
                                        "/api/plugins/%s"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
            char path[200];
            const char *hole = strstr(paths[p], "%s");
            (void)snprintf(path, sizeof path, "%.*s%s%s", (int)(hole - paths[p]), paths[p], ids[i],
                           hole + 2);
            int status = ask(f, "GET", path, NULL).status;
            if (status != 404)
                fail_msg("%s: %d", path, status);
        }
}

/* All of it is stored, or nothing: a refused environment leaves no secret. */
static void W38_environments_are_made_whole(void **state)
{
    struct fixture *f = *state;
    const char *to = text_of(f, "/api/companies/%s/environments", default_company(f));
    assert_int_equal(ask(f, "POST", to,
                         "{'name':'far','driver':'ssh','config':{'username':'u',"
                         "'remoteWorkspacePath':'/w','privateKey':'k-plain-42'}}")
                         .status,
                     422);
    assert_int_equal(count_secrets(f), 0);
    const char *e = ask_environment(f, "{'name':'far','driver':'ssh','config':{" SSH_CONFIG "}}");
    assert_int_equal(count_secrets(f), 1);
    assert_int_equal(ask(f, "PATCH", text_of(f, "/api/environments/%s", e),
                         "{'config':{'host':'','privateKey':'k-plain-43'}}")
                         .status,
                     422);
    assert_int_equal(count_secrets(f), 1);
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/environments/%s", e), NULL).status, 200);
    assert_int_equal(count_secrets(f), 0);
}

/* --- a store that hangs --- */

static void database(const char *what)
{
    char command[512];
    (void)snprintf(command, sizeof command, "\"%s\" %s", getenv("BERTH_TEST_PGCTL"), what);
    assert_int_equal(system(command), 0); /* NOLINT */
}

/* Sends a request whose answer is read later. */
static int send_get(struct fixture *f, const char *path)
{
    int fd = dial(f);
    const char *text =
        text_of(f, "GET %s HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n\r\n", path);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* More requests than there are threads wait for the store. Health answers all the same. */
static void health_answers_while_the_store_hangs(void **state)
{
    struct fixture *f = *state;
    enum { STUCK_READERS = 40 };
    int fds[STUCK_READERS];
    struct pollfd first = {.events = POLLIN};
    struct reply r = ask(f, "POST", "/api/tokens", "{'name':'t','kind':'operator'}");
    const char *bearer = text_of(f, "Authorization: Bearer %s\r\n", reply_text(f, &r, "token"));
    database("hang");
    for (int i = 0; i < STUCK_READERS; i++)
        fds[i] = send_get(f, "/api/companies");
    r = ask(f, "GET", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    while (strcmp(reply_text(f, &r, "status"), "ok") == 0) { /* until it is known */
        berth_time_shift(0, 1000);
        r = ask(f, "GET", "/api/health", NULL);
    }
    assert_string_equal(reply_text(f, &r, "status"), "degraded");
    assert_non_null(reply_text(f, &r, "store.since"));
    assert_non_null(reply_text(f, &r, "store.error"));
    r = ask_with(f, bearer, "GET", "/api/health", NULL);
    assert_int_equal(r.status, 200);
    for (int i = 0; i < STUCK_READERS; i++) {
        char status[13] = "";
        first.fd = fds[i];
        while (poll(&first, 1, 20) == 0)
            berth_time_shift(0, 1000);
        assert_int_equal(recv(fds[i], status, 12, MSG_WAITALL), 12);
        assert_string_equal(status, "HTTP/1.1 503");
        (void)close(fds[i]);
    }
    database("resume");
    WAIT_FOR(ask(f, "GET", "/api/companies", NULL).status == 200);
    r = ask(f, "GET", "/api/health", NULL);
    assert_string_equal(reply_text(f, &r, "status"), "ok");
}

/* --- providers that hang --- */

#define PROVIDER_SHARE                                                                             \
    ((BERTH_PROVIDER_THREADS_MAX - BERTH_LOCAL_THREADS) / (1 + BERTH_PROVIDER_SHARE_PART) + 1)
#define STUCK (PROVIDER_SHARE + 24)

static const char *local_environment(struct fixture *f)
{
    return ask_environment(f, "{'name':'here','driver':'local','config':{}}");
}

/* Sends an acquire whose answer is read later. */
static int send_acquire(struct fixture *f, const char *environment)
{
    int fd = dial(f);
    const char *text = text_of(f,
                               "POST /api/environments/%s/leases HTTP/1.1\r\nHost: berth\r\n"
                               "Connection: close\r\nContent-Length: 0\r\n\r\n",
                               environment);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* Lets acquires hang at the provider `scripted` until all threads of its share are taken and some
 * requests wait. */
static void get_stuck(struct fixture *f, int fds[STUCK])
{
    const char *box =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.mode = SCRIPTED_HANG, .environment = box});
    for (int i = 0; i < STUCK; i++)
        fds[i] = send_acquire(f, box);
    assert_true(scripted_await(f->world, SCRIPTED_ACQUIRE, PROVIDER_SHARE));
    WAIT_FOR(berth_shares_queued(f->b->providers) == STUCK - PROVIDER_SHARE);
}

/* The clients leave, and their requests end. */
static void get_unstuck(struct fixture *f, const int fds[STUCK])
{
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), PROVIDER_SHARE);
    for (int i = 0; i < STUCK; i++)
        (void)close(fds[i]);
    WAIT_FOR(berth_shares_queued(f->b->providers) == 0);
}

/* The same company, other providers: all of it works meanwhile. */
static void a_provider_that_hangs_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    int fds[STUCK];
    const char *here = text_of(f, "/api/environments/%s/leases", local_environment(f));
    const char *other =
        ask_environment(f, "{'name':'b','driver':'sandbox','config':{'provider':'inventory'}}");
    get_stuck(f, fds);
    struct reply r = ask(f, "POST", here, NULL);
    assert_int_equal(r.status, 201);
    const char *lease = text_of(f, "/api/environment-leases/%s", reply_text(f, &r, "id"));
    r = ask(f, "POST", text_of(f, "%s/exec", lease), "{'command':'echo','args':['hi']}");
    assert_string_equal(reply_text(f, &r, "stdout"), "hi\n");
    assert_int_equal(ask(f, "POST", text_of(f, "%s/release", lease), NULL).status, 200);
    r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", other), NULL);
    assert_int_equal(r.status, 201);
    lease = text_of(f, "/api/environment-leases/%s", reply_text(f, &r, "id"));
    assert_int_equal(ask(f, "POST", text_of(f, "%s/release", lease), NULL).status, 200);
    r = ask(f, "POST", text_of(f, "/api/companies/%s/runs", default_company(f)),
            "{'command':'true'}");
    assert_int_equal(r.status, 201);
    const char *run = text_of(f, "/api/runs/%s", reply_text(f, &r, "id"));
    for (const char *status = "running"; strcmp(status, "succeeded") != 0;) {
        r = ask(f, "GET", run, NULL);
        status = reply_text(f, &r, "status");
        assert_string_not_equal(status, "failed");
    }
    get_unstuck(f, fds);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

#define LOCAL_ACQUIRES 1000

/* Returns the 99th percentile of local acquires, in microseconds. */
static int64_t time_local(struct fixture *f, const char *path)
{
    static int64_t took[LOCAL_ACQUIRES];
    for (int i = 0; i < LOCAL_ACQUIRES; i++) {
        int64_t begun = berth_metrics_now_us();
        assert_int_equal(ask(f, "POST", path, NULL).status, 201);
        took[i] = berth_metrics_now_us() - begun;
    }
    qsort(took, LOCAL_ACQUIRES, sizeof took[0], by_size);
    return took[LOCAL_ACQUIRES * 99 / 100];
}

/* Prints what a stuck provider costs the others. */
static void a_thousand_local_acquires_beside_it(void **state)
{
    struct fixture *f = *state;
    int fds[STUCK];
    const char *here = text_of(f, "/api/environments/%s/leases", local_environment(f));
    int64_t usual_us = time_local(f, here);
    get_stuck(f, fds);
    int64_t beside_us = time_local(f, here);
    print_message("# local acquire, p99: %lld us, beside a stuck provider %lld us\n",
                  (long long)usual_us, (long long)beside_us);
    get_unstuck(f, fds);
}

/* A job that waits until the descriptor is readable. */
static void wait_at_gate(void *ctx)
{
    struct pollfd gate = {.fd = *(const int *)ctx, .events = POLLIN};
    while (poll(&gate, 1, -1) < 0)
        continue;
}

/* What does not fit into the queue is refused at once, of that provider only. */
static void a_full_queue_is_told(void **state)
{
    struct fixture *f = *state;
    struct berth_share *share;
    int gate = eventfd(0, EFD_CLOEXEC);
    const char *here = text_of(f, "/api/environments/%s/leases", local_environment(f));
    const char *box =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    assert_ok(f, berth_share_open(f->b->providers, "scripted", "other", &share, &f->err));
    while (berth_share_submit(share, wait_at_gate, &gate, &f->err) == BERTH_OK)
        continue;
    berth_share_close(share);
    static const char full[] = "Too many requests wait for scripted. Try again later.";
    struct reply r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", box), NULL);
    expect_error(f, r, 503, "unavailable", full);
    assert_non_null(strstr(r.head, "\r\nRetry-After: "));
    r = ask(f, "POST", text_of(f, "/api/companies/%s/runs", default_company(f)),
            text_of(f, "{'command':'true','environmentId':'%s'}", box));
    expect_error(f, r, 503, "unavailable", full);
    assert_int_equal(ask(f, "POST", here, NULL).status, 201);
    assert_int_equal(eventfd_write(gate, 1), 0);
    WAIT_FOR(berth_shares_queued(f->b->providers) == 0);
    assert_int_equal(ask(f, "POST", text_of(f, "/api/environments/%s/leases", box), NULL).status,
                     201);
    (void)close(gate);
}

/* A token that is revoked while its request waits for a thread makes no lease. */
static void waiting_for_a_thread_needs_a_good_token(void **state)
{
    struct fixture *f = *state;
    struct berth_share *share;
    char answer[13] = "";
    int gate = eventfd(0, EFD_CLOEXEC);
    const char *box =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    struct reply r =
        ask(f, "POST", "/api/tokens", "{'name':'t','permissions':['environments:manage']}");
    assert_ok(f, berth_share_open(f->b->providers, "scripted", "other", &share, &f->err));
    while (berth_shares_queued(f->b->providers) == 0)
        assert_ok(f, berth_share_submit(share, wait_at_gate, &gate, &f->err));
    berth_share_close(share);
    const char *text = text_of(f,
                               "POST /api/environments/%s/leases HTTP/1.1\r\nHost: x\r\n"
                               "Authorization: Bearer %s\r\n\r\n",
                               box, reply_text(f, &r, "token"));
    int fd = dial(f);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    WAIT_FOR(berth_shares_queued(f->b->providers) == 2);
    assert_int_equal(
        ask(f, "DELETE", text_of(f, "/api/tokens/%s", reply_text(f, &r, "id")), NULL).status, 200);
    assert_int_equal(eventfd_write(gate, 1), 0);
    assert_int_equal(recv(fd, answer, 12, MSG_WAITALL), 12);
    assert_string_equal(answer, "HTTP/1.1 401");
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases"), 0);
    (void)close(fd);
    WAIT_FOR(berth_shares_queued(f->b->providers) == 0);
    (void)close(gate);
}

static const char *ask_by_tcp(struct fixture *f, int port, const char *path, const char *headers)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char answer[4096] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    const char *text = text_of(
        f, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", path, headers);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    assert_true(recv(fd, answer, sizeof answer - 1, MSG_WAITALL) > 12);
    (void)close(fd);
    return text_of(f, "%s", answer);
}

/* Names of hosts, users and files in the database's errors are not for everybody. */
static void strangers_do_not_learn_where_the_store_is(void **state)
{
    struct fixture *f = *state;
    struct berth_http_address tcp = {.host = "127.0.0.1"};
    int port = berth_api_listen(asked_api, &tcp, &f->err);
    assert_true(port > 0);
    database("stop");
    const char *bad = text_of(f, "Authorization: Bearer berth_%032d_%064d\r\n", 1, 2);
    const char *refused = ask_by_tcp(f, port, "/api/companies", bad);
    assert_non_null(strstr(refused, " 503 "));
    assert_non_null(strstr(refused, "\"The store does not answer. Try again later.\""));
    const char *health = ask_by_tcp(f, port, "/api/health", "");
    assert_non_null(strstr(health, "\"degraded\""));
    assert_non_null(strstr(health, "\"The store does not answer.\""));
    struct reply r =
        ask(f, "GET", "/api/health", NULL); /* a client of the Unix socket is told why */
    assert_non_null(strstr(reply_text(f, &r, "store.error"), "PostgreSQL cannot be reached: "));
    database("start");
    WAIT_FOR(ask(f, "GET", "/api/companies", NULL).status == 200);
}

/* A transaction that waits until the descriptor is readable. */
static int tx_wait_at_gate(struct berth_db *db, void *ctx, struct berth_error *err)
{
    (void)db, (void)err;
    wait_at_gate(ctx);
    return BERTH_OK;
}

struct writing {
    struct fixture *f;
    int gate;
    _Atomic bool inside; /* it is in its transaction */
    int rc;
};

static int tx_hold_writer(struct berth_db *db, void *ctx, struct berth_error *err)
{
    struct writing *w = ctx;
    w->inside = true;
    return tx_wait_at_gate(db, &w->gate, err);
}

static void *hold_writer(void *ctx)
{
    struct writing *w = ctx;
    struct berth_error err;
    w->rc = berth_store_tx(w->f->b->store, tx_hold_writer, w, &err);
    return NULL;
}

static int send_as(struct fixture *f, const char *token, const char *line)
{
    int fd = dial(f);
    const char *text = text_of(f,
                               "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                               "Authorization: Bearer %s\r\n\r\n",
                               line, token);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static void expect_status(int fd, const char *status)
{
    char answer[13] = "";
    assert_int_equal(recv(fd, answer, 12, MSG_WAITALL), 12);
    assert_string_equal(answer + 9, status);
    (void)close(fd);
}

/* However many requests of one company wait, for the one writer of SQLite: another one is served.
 */
static void companies_take_turns(void **state)
{
    struct fixture *f = *state;
    enum { REQUESTS = 100 };
    struct writing w = {.f = f, .gate = eventfd(0, EFD_CLOEXEC)};
    const char *tokens[2], *companies[2];
    int fds[REQUESTS];
    pthread_t writer;
    for (int i = 0; i < 2; i++) {
        struct reply r = ask(f, "POST", "/api/companies", text_of(f, "{'name':'c%d'}", i));
        companies[i] = reply_text(f, &r, "id");
        r = ask(f, "POST", "/api/tokens",
                text_of(f, "{'name':'t','companyId':'%s','permissions':['environments:manage']}",
                        companies[i]));
        tokens[i] = reply_text(f, &r, "token");
        expect_status(send_as(f, tokens[i], "GET /api/companies"), "200");
    }
    assert_int_equal(pthread_create(&writer, NULL, hold_writer, &w), 0);
    WAIT_FOR(w.inside);
    const char *runs = text_of(f, "POST /api/companies/%s/runs", companies[0]);
    for (int i = 0; i < REQUESTS; i++)
        fds[i] = send_as(f, tokens[0], runs);
    for (int i = 0; i < 20; i++)
        expect_status(send_as(f, tokens[1], text_of(f, "GET /api/companies/%s", companies[1])),
                      "200");
    assert_int_equal(eventfd_write(w.gate, 1), 0);
    for (int i = 0; i < REQUESTS; i++)
        expect_status(fds[i], "201");
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(w.rc, BERTH_OK);
    (void)close(w.gate);
}

/* Requests that wait for room in a standard input hold no thread. */
static void waiting_for_a_reader_holds_no_thread(void **state)
{
    struct fixture *f = *state;
    enum { WRITERS = 100, BYTES = 1500000 };
    int fds[WRITERS];
    const char *here = text_of(f, "/api/environments/%s/leases", local_environment(f));
    struct reply r = ask(f, "POST", here, NULL);
    const char *lease = text_of(f, "/api/environment-leases/%s", reply_text(f, &r, "id"));
    r = ask(f, "POST", text_of(f, "%s/exec", lease),
            "{'command':'sleep','args':['600'],'keepStdin':true,'detach':true,'graceMs':100}");
    const char *exec = text_of(f, "/api/execs/%s", reply_text(f, &r, "execId"));
    char *body = berth_arena_alloc(&f->arena, BYTES + 1);
    memset(body, 'x', BYTES);
    for (int i = 0; i < WRITERS; i++) {
        int len = i ? 100 : BYTES; /* the first one fills what is queued for the command */
        const char *head = text_of(
            f, "POST %s/stdin HTTP/1.1\r\nHost: berth\r\nContent-Length: %d\r\n\r\n", exec, len);
        fds[i] = dial(f);
        assert_int_equal(send(fds[i], head, strlen(head), MSG_NOSIGNAL), (ssize_t)strlen(head));
        assert_int_equal(send(fds[i], body, (size_t)len, MSG_NOSIGNAL), len);
    }
    assert_int_equal(ask(f, "POST", here, NULL).status, 201);
    assert_int_equal(berth_shares_queued(f->b->providers), 0);
    assert_int_equal(ask(f, "POST", text_of(f, "%s/cancel", exec), NULL).status, 202);
    for (int i = 0; i < WRITERS; i++) {
        char status[13] = "";
        assert_int_equal(recv(fds[i], status, 12, MSG_WAITALL), 12);
        if (!i || strcmp(status, "HTTP/1.1 200") != 0) /* some came before the first one */
            assert_string_equal(status, "HTTP/1.1 409");
        (void)close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASK_ON_BOTH(health_and_unknown_routes),
        ASK_ON_BOTH(who_asks_comes_first),
        ASK_ON_BOTH(companies),
        ASK_ON_BOTH(bodies_that_are_wrong),
        ASK_ON_BOTH(queries_have_known_keys_once),
        ASK_ON_BOTH(environments),
        ASK_ON_BOTH(leases),
        ASK_ON_BOTH(leases_of_a_run),
        ASK_ON_BOTH(lists_have_pages),
        ASK_ON_BOTH(large_rows_come_in_pages),
        ASK_ON_BOTH(other_large_rows_come_in_pages),
        ASK_ON_BOTH(secrets),
        ASK_ON_BOTH(runs_and_activity),
        ASK_ON_BOTH(plugins),
        {"health_answers_while_the_store_hangs (postgres)", health_answers_while_the_store_hangs,
         asking_setup, asking_teardown, &on_postgres},
        {"strangers_do_not_learn_where_the_store_is (postgres)",
         strangers_do_not_learn_where_the_store_is, asking_setup, asking_teardown, &on_postgres},
        ASK_ON_BOTH(a_provider_that_hangs_holds_up_nobody),
        ASK_ON_SQLITE(a_thousand_local_acquires_beside_it),
        ASK_ON_BOTH(a_full_queue_is_told),
        ASK_ON_SQLITE(companies_take_turns),
        ASK_ON_BOTH(waiting_for_a_thread_needs_a_good_token),
        ASK_ON_SQLITE(waiting_for_a_reader_holds_no_thread),
        ASK_ON_BOTH(W14_bindings_survive_a_second_save),
        ASK_ON_BOTH(W24_conflicts_are_told_as_such),
        ASK_ON_BOTH(W29_leases_expire_and_are_touched),
        ASK_ON_BOTH(W34_ids_that_are_none),
        ASK_ON_BOTH(W38_environments_are_made_whole),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
