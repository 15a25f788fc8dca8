/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/access.c - who may what: every route times every kind of caller, from one
 * table, and the life of a token. */
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/call.h"
#include "asking.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/time.h"
#include "core/paths.h"
#include "core/run/exec_journal.h"
#include "core/run/exec_rows.h"
#include "core/token.h"
#include "crypto/locked.h"

#define HEARTBEAT_STEPS 600 /* of 50 ms */

/* --- the table --- */

enum caller {
    LOCAL,     /* at the socket, as its owner */
    STRANGER,  /* at the socket, with another uid */
    NONE,      /* by TCP, without a token */
    BAD,       /* a token that nobody has */
    REVOKED,   /* one that was good */
    OTHER,     /* an operator of another company, who may everything there */
    VIEWER,    /* an operator of the company who may only look */
    MANAGER,   /* with environments:manage */
    KEEPER,    /* with secrets:manage */
    AGENT,     /* an agent of the company who may only look */
    WORKER,    /* with environments:manage */
    RUN,       /* the token of its run */
    OTHER_RUN, /* of another run of the company */
    INSPECTOR, /* an operator of the instance who may only look */
    ADMIN,     /* who may everything */
    CALLERS,
};

/* For each caller in that order: "+" is let in, "4" is not known (401), "-" may not (403), "0" does
 * not learn whether the thing exists (404). */
static const struct row {
    const char *who, *method, *pattern;
} table[] = {
    /* LSNBROVMKAWROIA */
    {"+++44++++++++++", "GET", "/api/health"},
    {"+++44++++++++++", "GET", "/api/openapi.json"},
    {"+4444++++++--++", "GET", "/api/runtime-urls"},
    {"+4444++++++--++", "GET", "/api/find"},
    {"+4444---------+", "POST", "/api/sweep"},
    {"+4444++++++--++", "GET", "/api/companies"},
    {"+4444---------+", "POST", "/api/companies"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId/environments"},
    {"+4444--+--+---+", "POST", "/api/companies/:companyId/environments"},
    {"+4444--+--+---+", "POST", "/api/companies/:companyId/environments/probe-config"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId/environments/capabilities"},
    {"+4444-+++----++", "GET", "/api/companies/:companyId/secret-providers"},
    {"+4444-+++----++", "GET", "/api/companies/:companyId/secret-providers/health"},
    {"+4444-+++----++", "GET", "/api/companies/:companyId/secret-provider-configs"},
    {"+4444---+-----+", "POST", "/api/companies/:companyId/secret-provider-configs"},
    {"+4444++++----++", "GET", "/api/secret-provider-configs/:id"},
    {"+4444+--+-----+", "PATCH", "/api/secret-provider-configs/:id"},
    {"+4444+--+-----+", "DELETE", "/api/secret-provider-configs/:id"},
    {"+4444+--+-----+", "POST", "/api/secret-provider-configs/:id/default"},
    {"+4444+--+-----+", "POST", "/api/secret-provider-configs/:id/health"},
    {"+4444---+-----+", "POST", "/api/companies/:companyId/secrets/remote-import/preview"},
    {"+4444---+-----+", "POST", "/api/companies/:companyId/secrets/remote-import"},
    {"+44440+++++--++", "GET", "/api/environments/:id"},
    {"+44440-+--+---+", "PATCH", "/api/environments/:id"},
    {"+44440-+--+---+", "DELETE", "/api/environments/:id"},
    {"+44440-+--+---+", "POST", "/api/environments/:id/probe"},
    {"+44440-+--+---+", "GET", "/api/environments/:id/leases"},
    {"+44440-+--+---+", "POST", "/api/environments/:id/leases"},
    {"+4444--+--+---+", "GET", "/api/companies/:companyId/leases"},
    {"+44440-+--++--+", "GET", "/api/environment-leases/:leaseId"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/release"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/destroy"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/retry-cleanup"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/acknowledge"},
    {"+44440--------+", "POST", "/api/environment-leases/:leaseId/workspace/push"},
    {"+44440--------+", "POST", "/api/environment-leases/:leaseId/workspace/pull"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/resume"},
    {"+44440-+--+---+", "GET", "/api/environment-leases/:leaseId/files"},
    {"+44440-+--+---+", "PUT", "/api/environment-leases/:leaseId/files"},
    {"+44440-+--+---+", "DELETE", "/api/environment-leases/:leaseId/files"},
    {"+44440-+--+---+", "GET", "/api/environment-leases/:leaseId/tree"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/workspace/script"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/workspace/work"},
    {"+44440-+--+---+", "GET", "/api/environment-leases/:leaseId/archive"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/archive"},
    {"+4444---------+", "POST", "/api/secret-key/rotate"},
    {"+4444-+++----++", "GET", "/api/companies/:companyId/secrets"},
    {"+4444---+-----+", "POST", "/api/companies/:companyId/secrets"},
    {"+44440--+-----+", "POST", "/api/secrets/:id/rotate"},
    {"+44440--+-----+", "PATCH", "/api/secrets/:id"},
    {"+44440--+-----+", "DELETE", "/api/secrets/:id"},
    {"+44440+++----++", "GET", "/api/secrets/:id/usage"},
    {"+4444++++----++", "GET", "/api/secrets/:id/access-events"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId/runs"},
    {"+44440++++++-++", "GET", "/api/runs/:id"},
    {"+44440-+--+---+", "POST", "/api/environment-leases/:leaseId/exec"},
    {"+44440-+--++--+", "GET", "/api/execs/:id"},
    {"+44440-+--++--+", "GET", "/api/execs/:id/result"},
    {"+44440-+--++--+", "GET", "/api/execs/:id/log"},
    {"+44440-+--+---+", "GET", "/api/execs/:id/attach"},
    {"+44440-+--+---+", "POST", "/api/execs/:id/cancel"},
    {"+44440-+--+---+", "POST", "/api/execs/:id/stdin"},
    {"+44440-+--+---+", "POST", "/api/execs/:id/resize"},
    {"+4444--+--+---+", "POST", "/api/companies/:companyId/runs"},
    {"+44440-+--++--+", "GET", "/api/runs/:id/execs"},
    {"+44440-+--++--+", "GET", "/api/runs/:id/log"},
    {"+44440-+--+---+", "POST", "/api/runs/:id/cancel"},
    {"+44440-+--+---+", "POST", "/api/runs/:id/finish"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId/activity"},
    {"+4444-+++++--++", "GET", "/api/companies/:companyId/events"},
    {"+4444--------++", "GET", "/api/plugins"},
    {"+4444---------+", "POST", "/api/plugins/install"},
    {"+4444--------++", "GET", "/api/plugins/:id"},
    {"+4444---------+", "DELETE", "/api/plugins/:id"},
    {"+4444---------+", "POST", "/api/plugins/:id/enable"},
    {"+4444---------+", "POST", "/api/plugins/:id/disable"},
    {"+4444---------+", "POST", "/api/plugins/:id/upgrade"},
    {"+4444---------+", "POST", "/api/plugins/:id/config"},
    {"+4444---------+", "POST", "/api/plugins/:id/settings"},
    {"+4444--------++", "GET", "/api/plugins/:id/logs"},
    {"+4444--------++", "GET", "/api/plugins/:id/worker"},
    {"+4444---------+", "POST", "/api/plugins/:id/restart"},
    {"+4444--------++", "GET", "/metrics"},
    {"+4444--------++", "GET", "/api/tokens"},
    {"+4444---------+", "POST", "/api/tokens"},
    {"+4444---------+", "DELETE", "/api/tokens/:id"},
};

static const struct row *row_of(const struct berth_api_route *route)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].method, route->method) == 0 &&
            strcmp(table[i].pattern, route->pattern) == 0)
            return &table[i];
    fail_msg("%s %s is not in the table", route->method, route->pattern);
    return NULL;
}

/* --- the stage --- */

struct stage {
    struct fixture *f;
    const char *company, *environment, *lease, *run, *secret, *exec, *other; /* a company */
    const char *tokens[CALLERS]; /* NULL: by the socket */
    int port;
};

static const char *make_token(struct stage *s, const char *body)
{
    struct reply r = ask(s->f, "POST", "/api/tokens", body);
    if (r.status != 201)
        fail_msg("%d %s", r.status, r.body);
    return reply_text(s->f, &r, "token");
}

static const char *lease_of(struct stage *s, const char *run)
{
    struct reply r = ask(s->f, "POST", text_of(s->f, "/api/environments/%s/leases", s->environment),
                         text_of(s->f, "{'heartbeatRunId':'%s'}", run));
    assert_int_equal(r.status, 201);
    return reply_text(s->f, &r, "id");
}

static void make_tokens(struct stage *s)
{
    struct fixture *f = s->f;
    const char *c = s->company;
    struct reply r = ask(f, "POST", "/api/companies", "{'name':'Other'}");
    const char *other = s->other = reply_text(f, &r, "id");
    struct berth_run *second = make_run(f);
    const char *second_lease = lease_of(s, berth_run_id(second));
    s->tokens[BAD] = text_of(f, "berth_%032d_%064d", 1, 2);
    s->tokens[REVOKED] = make_token(s, "{'name':'revoked','permissions':['instance:manage']}");
    s->tokens[OTHER] = make_token(
        s, text_of(f,
                   "{'name':'o','companyId':'%s','permissions':['environments:manage','secrets:"
                   "manage']}",
                   other));
    s->tokens[VIEWER] = make_token(s, text_of(f, "{'name':'v','companyId':'%s'}", c));
    s->tokens[MANAGER] = make_token(
        s, text_of(f, "{'name':'m','companyId':'%s','permissions':['environments:manage']}", c));
    s->tokens[KEEPER] = make_token(
        s, text_of(f, "{'name':'k','companyId':'%s','permissions':['secrets:manage']}", c));
    s->tokens[AGENT] = make_token(s, text_of(f, "{'name':'a','kind':'agent','companyId':'%s'}", c));
    s->tokens[WORKER] = make_token(s, text_of(f,
                                              "{'name':'w','kind':'agent','companyId':'%s',"
                                              "'permissions':['environments:manage']}",
                                              c));
    s->tokens[RUN] = make_token(
        s, text_of(f, "{'name':'r','kind':'run','runId':'%s','leaseId':'%s'}", s->run, s->lease));
    s->tokens[OTHER_RUN] =
        make_token(s, text_of(f, "{'name':'r','kind':'run','runId':'%s','leaseId':'%s'}",
                              berth_run_id(second), second_lease));
    s->tokens[INSPECTOR] = make_token(s, "{'name':'i'}");
    s->tokens[ADMIN] = make_token(s, "{'name':'admin','permissions':['environments:manage',"
                                     "'secrets:manage','instance:manage']}");
    struct reply all = ask(f, "GET", "/api/tokens", NULL);
    assert_int_equal(reply_count(&all), 11);
    for (int i = 0; i < 11; i++)
        if (strcmp(reply_text(f, &all, text_of(f, "%d.name", i)), "revoked") == 0)
            assert_int_equal(
                ask(f, "DELETE",
                    text_of(f, "/api/tokens/%s", reply_text(f, &all, text_of(f, "%d.id", i))), NULL)
                    .status,
                200);
}

static void make_stage(struct stage *s, struct fixture *f)
{
    *s = (struct stage){.f = f, .company = default_company(f)};
    s->environment =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    s->run = berth_run_id(make_run(f));
    s->lease = lease_of(s, s->run);
    struct reply r = ask(f, "POST", text_of(f, "/api/companies/%s/secrets", s->company),
                         "{'name':'key','value':'plain-value-42'}");
    s->secret = reply_text(f, &r, "id");
    struct berth_id id = berth_id_new();
    s->exec = text_of(f, "%s", id.text);
    struct berth_exec_record record = {.id = s->exec,
                                       .company_id = s->company,
                                       .environment_id = s->environment,
                                       .lease_id = s->lease,
                                       .run_id = s->run,
                                       .command = "true",
                                       .ended = true};
    assert_ok(f, berth_exec_journal_begin(f->b, &record, &f->err));
    berth_exec_journal_end(f->b, &record);
    make_tokens(s);
    struct berth_http_address tcp = {.host = "127.0.0.1"};
    s->port = berth_api_listen(asked_api, &tcp, &f->err);
    assert_true(s->port > 0);
}

/* The path with what it names; nobody's for those who are let in and would change something. */
static const char *path_for(const struct stage *s, const struct berth_api_route *route, bool real)
{
    char out[300] = "";
    const char *at = route->pattern, *param = strchr(at, ':');
    const char *id = NOBODY;
    if (!param)
        return at;
    if (real && strncmp(at, "/api/companies/", 15) == 0)
        id = s->company;
    else if (real && strncmp(at, "/api/environments/", 18) == 0)
        id = s->environment;
    else if (real && strncmp(at, "/api/environment-leases/", 24) == 0)
        id = s->lease;
    else if (real && strncmp(at, "/api/runs/", 10) == 0)
        id = s->run;
    else if (real && strncmp(at, "/api/secrets/", 13) == 0)
        id = s->secret;
    else if (real && strncmp(at, "/api/execs/", 11) == 0)
        id = s->exec;
    (void)snprintf(out, sizeof out, "%.*s%s%s", (int)(param - at), at, id,
                   param + strcspn(param, "/"));
    return berth_arena_strdup(&s->f->arena, out);
}

/* In a process of its own, as somebody else. */
static int ask_as_stranger(struct fixture *f, const char *method, const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
            _exit(99);
        char line[400], answer[64] = "";
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        (void)snprintf(to.sun_path, sizeof to.sun_path, "%.90s/api", f->directory);
        int len = snprintf(line, sizeof line, "%s %s HTTP/1.1\r\nHost: x\r\n\r\n", method, path);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || write(fd, line, (size_t)len) < 0)
            _exit(98);
        int status = 0;
        if (read(fd, answer, sizeof answer - 1) <= 0 ||
            sscanf(answer, "HTTP/1.1 %d", &status) != 1) /* NOLINT */
            _exit(97);
        _exit(status / 100 * 10 + status % 10); /* 401 -> 41, 200 -> 20 */
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    int code = WEXITSTATUS(how);
    return code / 10 * 100 + code % 10;
}

static int ask_by_tcp(const struct stage *s, const char *method, const char *path)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char answer[64] = "";
    auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    const char *line = text_of(s->f, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", method, path);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    assert_true(read(fd, answer, sizeof answer - 1) > 12);
    return atoi(answer + 9); /* NOLINT */
}

static int status_for(struct stage *s, enum caller who, const struct berth_api_route *route,
                      char expected)
{
    bool looks = strcmp(route->method, "GET") == 0;
    bool company = strncmp(route->pattern, "/api/companies/", 15) == 0;
    const char *path = path_for(s, route, looks || company || expected != '+');
    if (who == STRANGER)
        return ask_as_stranger(s->f, route->method, path);
    if (who == NONE)
        return ask_by_tcp(s, route->method, path);
    const char *headers = s->tokens[who] ? text_of(s->f,
                                                   "Authorization: Bearer %s\r\nContent-Type: "
                                                   "application/json\r\n",
                                                   s->tokens[who])
                                         : "Content-Type: application/json\r\n";
    return ask_status(s->f, headers, route->method, path,
                      looks             ? NULL
                      : expected == '0' ? "{}"
                                        : "{\"noSuchKey\":1}");
}

static void every_route_for_every_caller(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    int seen = 0;
    make_stage(&s, f);
    bool root = geteuid() == 0;
    if (root) {
        assert_int_equal(chmod(f->directory, 0755), 0);
        assert_int_equal(chmod(text_of(f, "%s/api", f->directory), 0666), 0);
    }
    for (int t = 0; berth_api_tables[t]; t++)
        for (const struct berth_api_route *r = berth_api_tables[t]; r->method; r++) {
            const struct row *row = row_of(r);
            assert_int_equal(strlen(row->who), CALLERS);
            seen++;
            berth_time_shift(0, 61000); /* failed attempts are forgotten */
            (void)default_company(f);   /* a store at work looked silent for that time */
            for (enum caller who = LOCAL; who < CALLERS; who++) {
                if (who == STRANGER && !root)
                    continue;
                int status = status_for(&s, who, r, row->who[who]);
                /* The clock was moved, so the node may call no provider before its next heartbeat.
                 */
                for (int i = 0; status == 503 && i < HEARTBEAT_STEPS; i++) {
                    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
                    status = status_for(&s, who, r, row->who[who]);
                }
                char got = status == 401                           ? '4'
                           : status == 403                         ? '-'
                           : status == 404 && row->who[who] == '0' ? '0'
                                                                   : '+';
                /* 501: the scripted provider has no files. */
                if (got != row->who[who] || (status >= 500 && status != 501))
                    fail_msg("%s %s by caller %d: %d, expected %c", r->method, r->pattern, who,
                             status, row->who[who]);
            }
        }
    assert_int_equal(seen, sizeof table / sizeof table[0]); /* no row is about nothing */
}

/* --- the life of a token --- */

static struct reply ask_by(struct fixture *f, const char *token, const char *method,
                           const char *path, const char *body)
{
    return ask_with(
        f, text_of(f, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n", token),
        method, path, body);
}

static void tokens_are_shown_once_and_end_at_once(void **state)
{
    struct fixture *f = *state;
    struct stage s = {.f = f};
    struct reply r = ask(f, "POST", "/api/tokens", "{'name':'one','ttlMs':3600000}");
    assert_int_equal(r.status, 201);
    const char *token = reply_text(f, &r, "token"), *id = reply_text(f, &r, "id");
    assert_int_equal(strlen(token), BERTH_TOKEN_TEXT_SIZE - 1);
    assert_int_equal(ask_by(f, token, "GET", "/api/companies", NULL).status, 200);
    r = ask(f, "GET", "/api/tokens", NULL);
    assert_int_equal(reply_count(&r), 1);
    assert_null(strstr(r.body, token + 40));
    assert_non_null(reply_text(f, &r, "0.lastUsedAt"));
    /* Neither the store nor the log has it. */
    r = ask(f, "GET", text_of(f, "/api/companies/%s/activity", default_company(f)), NULL);
    assert_string_equal(reply_text(f, &r, "0.action"), "token.created");
    assert_null(strstr(r.body, token + 40));
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", id), NULL).status, 200);
    expect_error(f, ask_by(f, token, "GET", "/api/companies", NULL), 401, "unauthorized",
                 "Unauthorized");
    assert_int_equal(ask_by(f, token, "GET", "/api/health", NULL).status, 401);
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", id), NULL).status, 200);
    r = ask(f, "GET", "/api/tokens", NULL);
    assert_int_equal(reply_count(&r), 0);
    r = ask(f, "GET", "/api/tokens?all=true", NULL);
    assert_int_equal(reply_count(&r), 1);
    /* Time ends one, too. */
    token = make_token(&s, "{'name':'short','ttlMs':1}");
    usleep(5000);
    assert_int_equal(ask_by(f, token, "GET", "/api/companies", NULL).status, 401);
}

static void a_runs_token_ends_with_the_run(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *path = text_of(f, "/api/runs/%s", s.run);
    assert_int_equal(ask_by(f, s.tokens[RUN], "GET", path, NULL).status, 200);
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, s.run, &end, &released, &f->err));
    assert_int_equal(ask_by(f, s.tokens[RUN], "GET", path, NULL).status, 401);
    expect_error(
        f,
        ask(f, "POST", "/api/tokens",
            text_of(f, "{'name':'r','kind':'run','runId':'%s','leaseId':'%s'}", s.run, s.lease)),
        409, "conflict", text_of(f, "Run %s has ended.", s.run));
}

static void wrong_tokens_are_refused(void **state)
{
    struct fixture *f = *state;
    const char *c = default_company(f);
    static const struct {
        const char *body;
        int status;
        const char *message;
    } rows[] = {
        {"{}", 400, "Validation error"},
        {"{'name':''}", 400, "A token needs a name."},
        {"{'name':' '}", 400, "The name begins or ends with a blank: leave it out."},
        {"{'name':'a\\u0007'}", 400,
         "The name contains the control character U+0007: leave it out."},
        {"{'name':'x','kind':'king'}", 400, "Validation error"},
        {"{'name':'x','permissions':['fly']}", 400, "Validation error"},
        {"{'name':'x','permissions':'fly'}", 400, "Validation error"},
        {"{'name':'x','companyId':'" NOBODY "'}", 404, "Company not found"},
        {"{'name':'x','kind':'agent'}", 400, "An agent's token belongs to a company."},
        {"{'name':'x','kind':'agent','companyId':'%s','permissions':['secrets:manage']}", 400,
         "An agent may have environments:manage only."},
        {"{'name':'x','companyId':'%s','permissions':['instance:manage']}", 400,
         "instance:manage is for tokens of the instance, without a company."},
        {"{'name':'x','kind':'run'}", 400, "A run's token needs the run and its lease."},
        {"{'name':'x','runId':'%s','leaseId':'" NOBODY "'}", 400,
         "Only a run's token names a run and a lease."},
        {"{'name':'x','agentId':'bob'}", 400, "Only an agent's token names an agent."},
        {"{'name':'x','kind':'agent','companyId':'%s','agentId':'  '}", 400,
         "agentId begins or ends with a blank: leave it out."},
        {"{'name':'x','kind':'agent','companyId':'%s','agentId':' a'}", 400,
         "agentId begins or ends with a blank: leave it out."},
        {"{'name':'x','kind':'agent','companyId':'%s','agentId':'a\\nb'}", 400,
         "agentId contains the control character U+000A: leave it out."},
        {"{'name':'x','ttlMs':99999999999999}", 400, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[400];
        const char *hole = strstr(rows[i].body, "%s");
        (void)snprintf(body, sizeof body, "%.*s%s%s",
                       hole ? (int)(hole - rows[i].body) : (int)strlen(rows[i].body), rows[i].body,
                       hole ? c : "", hole ? hole + 2 : "");
        struct reply r = ask(f, "POST", "/api/tokens", body);
        if (r.status != rows[i].status)
            fail_msg("%s: %d %s", body, r.status, r.body);
        if (rows[i].message)
            assert_string_equal(reply_text(f, &r, "error"), rows[i].message);
    }
}

/* Whoever may make tokens hands out no more than he has. */
static void nobody_hands_out_more_than_he_has(void **state)
{
    struct fixture *f = *state;
    struct stage s = {.f = f};
    const char *clerk = make_token(&s, "{'name':'clerk','permissions':['instance:manage']}");
    expect_error(f,
                 ask_by(f, clerk, "POST", "/api/tokens",
                        "{\"name\":\"x\",\"permissions\":[\"secrets:manage\"]}"),
                 403, "denied", "Missing permission: secrets:manage");
    assert_int_equal(ask_by(f, clerk, "POST", "/api/tokens", "{\"name\":\"x\"}").status, 201);
}

static void failures_are_counted(void **state)
{
    struct fixture *f = *state;
    struct stage s = {.f = f};
    const char *good = make_token(&s, "{'name':'good'}"), *late = make_token(&s, "{'name':'late'}");
    assert_int_equal(ask_by(f, good, "GET", "/api/companies", NULL).status, 200);
    int refused = 0, limited = 0;
    for (int i = 0; i < 40; i++) {
        const char *bad = i % 2 ? "nonsense" : text_of(f, "berth_%032d_%064d", i, i);
        struct reply r = ask_by(f, bad, "GET", "/api/companies", NULL);
        refused += r.status == 401;
        limited += r.status == 429;
        if (r.status == 429)
            assert_non_null(strstr(r.head, "\r\nRetry-After: 3"));
    }
    assert_in_range(refused, 20, 24); /* some time passes meanwhile */
    assert_int_equal(refused + limited, 40);
    /* Nobody who has a good token is refused for that: neither who used it a moment ago, nor who
     * only now shows up, nor who sends a body with it; the socket is not touched. */
    assert_int_equal(ask_by(f, good, "GET", "/api/companies", NULL).status, 200);
    assert_int_equal(ask_by(f, late, "GET", "/api/companies", NULL).status, 200);
    const char *later = make_token(&s, "{'name':'later','permissions':['instance:manage']}");
    assert_int_equal(ask_by(f, later, "POST", "/api/companies", "{\"name\":\"n\"}").status, 201);
    assert_int_equal(ask(f, "GET", "/api/companies", NULL).status, 200);
    /* Who is revoked is one of the bad ones again. */
    struct reply all = ask(f, "GET", "/api/tokens", NULL);
    assert_string_equal(reply_text(f, &all, "0.name"), "later");
    const char *id = reply_text(f, &all, "0.id");
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", id), NULL).status, 200);
    assert_int_equal(ask_by(f, later, "GET", "/api/companies", NULL).status, 401);
    assert_int_equal(ask_by(f, later, "GET", "/api/companies", NULL).status, 429);
    /* A bad token a second keeps no good one out, also after a restart. */
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    berth_api_close(asked_api, 1000);
    assert_ok(f, berth_api_open(f->b, &settings, &asked_api, &f->err));
    struct berth_http_address here = {.path = text_of(f, "%s/api", f->directory)};
    assert_ok(f, berth_api_listen(asked_api, &here, &f->err));
    for (int i = 0; i < 100; i++) {
        const char *bad = text_of(f, "berth_%032d_%064d", i, i);
        assert_in_range(ask_by(f, bad, "GET", "/api/companies", NULL).status, 401, 429);
        const char *token = make_token(&s, text_of(f, "{'name':'n%d'}", i));
        assert_int_equal(ask_by(f, token, "GET", "/api/companies", NULL).status, 200);
        berth_time_shift(0, 1000);
    }
}

/* Attempts that are made at once count before the first of them is looked up. */
static void parallel_failures_are_counted(void **state)
{
    struct fixture *f = *state;
    struct stage s = {.f = f};
    const char *good = make_token(&s, "{'name':'good'}");
    enum { ATTEMPTS = 100, GOOD = 60 };
    int fds[ATTEMPTS], refused = 0, limited = 0;
    for (int i = 0; i < ATTEMPTS; i++)
        fds[i] = dial(f);
    for (int i = 0; i < ATTEMPTS; i++) {
        const char *bad = text_of(f, "berth_%032d_%064d", i, i);
        const char *text = text_of(f,
                                   "GET /api/companies HTTP/1.1\r\nHost: x\r\n"
                                   "Authorization: Bearer %s\r\n\r\n",
                                   i == GOOD ? good : bad);
        assert_int_equal(send(fds[i], text, strlen(text), MSG_NOSIGNAL), strlen(text));
    }
    for (int i = 0; i < ATTEMPTS; i++) {
        char answer[16] = "";
        assert_int_equal(recv(fds[i], answer, 12, MSG_WAITALL), 12);
        int status = atoi(answer + 9); /* NOLINT */
        if (i == GOOD)
            assert_int_equal(status, 200);
        refused += status == 401;
        limited += status == 429;
        (void)close(fds[i]);
    }
    assert_in_range(refused, 20, 24); /* some time passes meanwhile */
    assert_int_equal(refused + limited, ATTEMPTS - 1);
}

static void await_end(int fd)
{
    char rest[4096];
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
    (void)close(fd);
}

/* Who asks is settled before a byte of the body is wanted. */
static void bodies_are_for_those_who_may(void **state)
{
    struct fixture *f = *state;
    struct stage s = {.f = f};
    const char *c = default_company(f);
    const char *viewer = make_token(&s, text_of(f, "{'name':'v','companyId':'%s'}", c));
    const char *admin = make_token(&s, "{'name':'a','permissions':['instance:manage']}");
    const struct {
        const char *token, *path;
        int status;
    } rows[] = {{text_of(f, "berth_%032d_%064d", 1, 2), "/api/companies", 401},
                {viewer, "/api/companies", 403},
                {admin, "/api/nothing", 404},
                {admin, "/api/companies?x=y", 400},
                {admin, "/api/health", 405},
                {admin, "/api/companies", 100}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fd = dial(f);
        char answer[16] = "";
        const char *text = text_of(f,
                                   "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                                   "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                                   "Content-Length: 14\r\nConnection: close\r\n\r\n",
                                   rows[i].path, rows[i].token);
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
        assert_int_equal(recv(fd, answer, 12, MSG_WAITALL), 12);
        assert_int_equal(atoi(answer + 9), rows[i].status); /* NOLINT */
        if (rows[i].status == 100) {
            char rest[40] = "";
            assert_int_equal(send(fd, "{\"name\":\"new\"}", 14, MSG_NOSIGNAL), 14);
            assert_int_equal(recv(fd, rest, 13 + 12, MSG_WAITALL), 13 + 12);
            assert_int_equal(atoi(rest + 13 + 9), 201); /* NOLINT */
        }
        await_end(fd);
    }
}

/* Sends the head of a request for a company, and waits until its body is asked for. */
static int open_request(struct fixture *f, const char *token)
{
    char answer[26] = "";
    int fd = dial(f);
    const char *text = text_of(f,
                               "POST /api/companies HTTP/1.1\r\nHost: x\r\n"
                               "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                               "Expect: 100-continue\r\nContent-Length: 15\r\n"
                               "Connection: close\r\n\r\n",
                               token);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    assert_int_equal(recv(fd, answer, 25, MSG_WAITALL), 25);
    assert_string_equal(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    return fd;
}

/* A token that was good when the head came, and is not when the body does, changes nothing. */
static void requests_end_with_their_token(void **state)
{
    enum { REVOKED_HERE, REVOKED_ELSEWHERE, EXPIRED, WAYS };
    struct fixture *f = *state;
    for (int way = 0; way < WAYS; way++) {
        char answer[13] = "";
        struct berth_token *row;
        struct reply r = ask(f, "POST", "/api/tokens",
                             "{'name':'t','permissions':['instance:manage'],'ttlMs':600000}");
        const char *id = reply_text(f, &r, "id");
        int fd = open_request(f, reply_text(f, &r, "token"));
        if (way == REVOKED_HERE) /* the body is not waited for */
            assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", id), NULL).status, 200);
        else if (way == REVOKED_ELSEWHERE)
            assert_ok(f, berth_token_revoke(f->b, &f->arena, id, NULL, &row, &f->err));
        else
            run_sql(f, "UPDATE tokens SET expires_at = 1 WHERE id = $1", id);
        if (way != REVOKED_HERE)
            assert_int_equal(send(fd, "{\"name\":\"late\"}", 15, MSG_NOSIGNAL), 15);
        assert_int_equal(recv(fd, answer, 12, MSG_WAITALL), 12);
        assert_string_equal(answer, "HTTP/1.1 401");
        await_end(fd);
    }
    assert_int_equal(count_rows(f, "SELECT count(*) FROM companies WHERE name = 'late'"), 0);
}

/* --- known weaknesses of such APIs --- */

/* 25, 35, 36: who asks comes first, and who shows something must be somebody. */
static void W25_W36_strangers_learn_nothing(void **state)
{
    struct fixture *f = *state;
    const char *bad = text_of(f, "berth_%032d_%064d", 1, 2);
    const char *c = default_company(f);
    struct stage s = {.f = f};
    const char *viewer = make_token(&s, text_of(f, "{'name':'v','companyId':'%s'}", c));
    expect_error(f, ask_by(f, bad, "GET", text_of(f, "/api/companies/%s/secrets", c), NULL), 401,
                 "unauthorized", "Unauthorized");
    expect_error(
        f, ask_by(f, viewer, "POST", text_of(f, "/api/companies/%s/environments", c), "{not json"),
        403, "denied", "Missing permission: environments:manage");
}

/* 33: a run that a caller only claims to be is heard by nobody. */
static void W33_claimed_runs_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct reply r =
        ask_with(f, "X-Paperclip-Run-Id: not-a-run\r\nContent-Type: application/json\r\n", "POST",
                 "/api/companies", "{\"name\":\"New\"}");
    assert_int_equal(r.status, 201);
    r = ask(f, "GET", text_of(f, "/api/companies/%s/activity", reply_text(f, &r, "id")), NULL);
    assert_string_equal(reply_text(f, &r, "0.action"), "company.created");
    assert_null(reply_text(f, &r, "0.runId"));
}

static void restricted_readers_see_no_config(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *one = text_of(f, "/api/environments/%s", s.environment);
    const char *list = text_of(f, "/api/companies/%s/environments", s.company);
    struct reply r = ask_by(f, s.tokens[VIEWER], "GET", one, NULL);
    assert_non_null(strstr(r.body, "\"config\":{},\"metadata\":null"));
    assert_non_null(strstr(r.body, "\"configRedacted\":true,\"metadataRedacted\":true"));
    r = ask_by(f, s.tokens[AGENT], "GET", list, NULL);
    assert_null(strstr(r.body, "scripted"));
    r = ask_by(f, s.tokens[MANAGER], "GET", one, NULL);
    assert_non_null(strstr(r.body, "\"provider\":\"scripted\""));
    assert_null(strstr(r.body, "configRedacted"));
    expect_error(f, ask_by(f, s.tokens[VIEWER], "GET", text_of(f, "%s/leases", one), NULL), 403,
                 "denied", "Missing permission: environments:manage");
    expect_error(f, ask_by(f, s.tokens[OTHER], "GET", one, NULL), 404, "not_found",
                 "Environment not found");
    expect_error(f, ask_by(f, s.tokens[OTHER], "GET", list, NULL), 403, "denied",
                 "User does not have access to this company");
    expect_error(
        f,
        ask_by(f, s.tokens[AGENT], "GET", text_of(f, "/api/companies/%s/secrets", s.company), NULL),
        403, "denied", "Board access required");
}

/* Asks for two things that the caller may not see, of another company and of none. */
static void expect_same(const struct stage *s, const char *token, const struct berth_api_route *r,
                        const char *body)
{
    body = strcmp(r->method, "GET") == 0 ? NULL : body;
    struct reply real = ask_by(s->f, token, r->method, path_for(s, r, true), body);
    struct reply none = ask_by(s->f, token, r->method, path_for(s, r, false), body);
    if (real.status != none.status || strcmp(real.body, none.body) != 0)
        fail_msg("%s %s: %d %s, but for an id of nothing %d %s", r->method, r->pattern, real.status,
                 real.body, none.status, none.body);
}

static void whether_others_have_it_is_not_told(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *agent =
        make_token(&s, text_of(f, "{'name':'a','kind':'agent','companyId':'%s'}", s.other));
    for (int t = 0; berth_api_tables[t]; t++)
        for (const struct berth_api_route *r = berth_api_tables[t]; r->method; r++)
            if (strchr(r->pattern, ':')) {
                expect_same(&s, s.tokens[OTHER], r, "{}");
                expect_same(&s, s.tokens[OTHER], r, "{\"noSuchKey\":1}");
                expect_same(&s, agent, r, "{}");
            }
}

/* The place of a foreign thing in an own list would tell when it was made. */
static void foreign_cursors_select_nothing(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *other = text_of(f, "/api/companies/%s", s.other);
    struct reply r = ask(f, "POST", text_of(f, "%s/environments", other),
                         "{'name':'theirs','driver':'sandbox','config':{'provider':'scripted'}}");
    const char *leases = text_of(f, "/api/environments/%s/leases", reply_text(f, &r, "id"));
    r = ask(f, "POST", leases, "{}");
    const char *lease = reply_text(f, &r, "id");
    struct berth_run *run;
    assert_ok(f, berth_run_create(f->b, &f->arena, s.other, &run, &f->err));
    run_sql(f, "UPDATE leases SET created_at = 1, last_used_at = 1 WHERE id = $1", lease);
    run_sql(f, "UPDATE runs SET created_at = 1 WHERE id = $1", run->id);
    const struct {
        const char *list, *foreign;
    } lists[] = {{leases, s.lease},
                 {text_of(f, "%s/leases", other), s.lease},
                 {text_of(f, "%s/runs", other), s.run}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        r = ask_by(f, s.tokens[OTHER], "GET", lists[i].list, NULL);
        assert_int_equal(reply_count(&r), 1);
        r = ask_by(f, s.tokens[OTHER], "GET",
                   text_of(f, "%s?before=%s", lists[i].list, lists[i].foreign), NULL);
        assert_int_equal(r.status, 200);
        assert_int_equal(reply_count(&r), 0);
    }
}

/* Commands of a local environment run as the daemon's user, who may read its key. */
static void this_machine_is_for_the_instance(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    static const char text[] = "Local environments are for operators of the instance: commands "
                               "there run as the daemon's user";
    const char *environments = text_of(f, "/api/companies/%s/environments", s.company);
    const char *runs = text_of(f, "/api/companies/%s/runs", s.company);
    expect_error(
        f,
        ask_by(f, s.tokens[MANAGER], "POST", environments, "{\"name\":\"x\",\"driver\":\"local\"}"),
        403, "denied", text);
    struct reply r = ask(f, "POST", environments, "{'name':'here','driver':'local'}");
    const char *local = reply_text(f, &r, "id");
    const char *leases = text_of(f, "/api/environments/%s/leases", local);
    expect_error(f, ask_by(f, s.tokens[WORKER], "POST", leases, "{}"), 403, "denied", text);
    r = ask(f, "POST", leases, "{}");
    const char *exec = text_of(f, "/api/environment-leases/%s/exec", reply_text(f, &r, "id"));
    expect_error(f, ask_by(f, s.tokens[MANAGER], "POST", exec, "{\"command\":\"true\"}"), 403,
                 "denied", text);
    assert_int_equal(ask_by(f, s.tokens[ADMIN], "POST", exec, "{\"command\":\"true\"}").status,
                     200);
    expect_error(f, ask_by(f, s.tokens[WORKER], "POST", runs, "{\"command\":\"true\"}"), 403,
                 "denied", text);
    expect_error(f,
                 ask_by(f, s.tokens[WORKER], "POST", runs,
                        text_of(f, "{\"command\":\"true\",\"environmentId\":\"%s\"}", local)),
                 403, "denied", text);
    expect_error(f,
                 ask_by(f, s.tokens[MANAGER], "PATCH",
                        text_of(f, "/api/environments/%s", s.environment),
                        "{\"driver\":\"local\"}"),
                 403, "denied", text);
    const char *one = text_of(f, "/api/environments/%s", local);
    expect_error(f, ask_by(f, s.tokens[MANAGER], "PATCH", one, "{\"name\":\"mine\"}"), 403,
                 "denied", text);
    expect_error(f, ask_by(f, s.tokens[MANAGER], "DELETE", one, NULL), 403, "denied", text);
    const char *probe = text_of(f, "%s/probe", one); /* its answer names host and directory */
    expect_error(f, ask_by(f, s.tokens[MANAGER], "POST", probe, NULL), 403, "denied", text);
    assert_int_equal(ask_by(f, s.tokens[ADMIN], "POST", probe, NULL).status, 200);
    /* Of another company's it is not told that it is one. */
    r = ask_by(f, s.tokens[OTHER], "GET", "/api/companies", NULL);
    runs = text_of(f, "/api/companies/%s/runs", reply_text(f, &r, "0.id"));
    const char *command = "{\"command\":\"true\",\"environmentId\":\"%s\"}";
    int of_none = ask_by(f, s.tokens[OTHER], "POST", runs,
                         text_of(f, command, "00000000-0000-7000-8000-000000000000"))
                      .status;
    assert_int_equal(ask_by(f, s.tokens[OTHER], "POST", runs, text_of(f, command, local)).status,
                     of_none);
}

/* So are the keys of the daemon's user, at whatever server. */
static void the_daemons_keys_are_for_the_instance(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    static const char text[] =
        "An SSH environment without a privateKeySecretRef uses the keys of the "
        "daemon's user: that is for operators of the instance";
    const char *environments = text_of(f, "/api/companies/%s/environments", s.company);
    const char *probe = text_of(f, "%s/probe-config", environments);
    const char *config = "{\"host\":\"127.0.0.1\",\"port\":1,\"username\":\"root\","
                         "\"remoteWorkspacePath\":\"/w\"%s}";
    const char *bare = text_of(f, config, "");
    const char *keyed =
        text_of(f, config,
                text_of(f, ",\"privateKeySecretRef\":{\"type\":\"secret_ref\",\"secretId\":\"%s\"}",
                        s.secret));
    const char *body = "{\"name\":\"%s\",\"driver\":\"ssh\",\"config\":%s}";
    for (int i = 0; i < 2; i++) {
        const char *token = s.tokens[i ? WORKER : MANAGER];
        expect_error(f, ask_by(f, token, "POST", environments, text_of(f, body, "x", bare)), 403,
                     "denied", text);
        expect_error(
            f,
            ask_by(f, token, "POST", probe, text_of(f, "{\"driver\":\"ssh\",\"config\":%s}", bare)),
            403, "denied", text);
    }
    const char *both =
        make_token(&s, text_of(f,
                               "{'name':'b','companyId':'%s',"
                               "'permissions':['environments:manage','secrets:manage']}",
                               s.company));
    struct reply r = ask_by(f, both, "POST", environments, text_of(f, body, "k", keyed));
    assert_int_equal(r.status, 201);
    const char *one = text_of(f, "/api/environments/%s", reply_text(f, &r, "id"));
    expect_error(
        f,
        ask_by(f, s.tokens[MANAGER], "PATCH", one, "{\"config\":{\"privateKeySecretRef\":null}}"),
        403, "denied", text);
    r = ask_by(f, s.tokens[ADMIN], "POST", environments, text_of(f, body, "o", bare));
    assert_int_equal(r.status, 201); /* he may, and so the company may use it */
    one = text_of(f, "/api/environments/%s", reply_text(f, &r, "id"));
    assert_int_equal(ask_by(f, s.tokens[MANAGER], "PATCH", one, "{\"name\":\"n\"}").status, 200);
    expect_error(f, ask_by(f, s.tokens[MANAGER], "PATCH", one, "{\"config\":{\"host\":\"other\"}}"),
                 403, "denied", text);
}

/* The journal of commands cannot be made, since a file is where its directory has to be. */
static void paths_of_the_daemon_are_for_the_instance(void **state)
{
    struct fixture *f = *state;
    auto_free char *directory = NULL;
    struct stage s = {.f = f, .company = default_company(f)};
    s.environment =
        ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'scripted'}}");
    const char *path =
        text_of(f, "/api/environment-leases/%s/exec", lease_of(&s, berth_run_id(make_run(f))));
    const char *token = make_token(
        &s, text_of(f, "{'name':'m','companyId':'%s','permissions':['environments:manage']}",
                    s.company));
    assert_ok(f, berth_directory(f->b, "journal", &directory, &f->err));
    auto_close int fd = open(directory, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    struct reply r = ask_with(
        f, text_of(f, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n", token),
        "POST", path, "{\"command\":\"true\"}");
    expect_error(f, r, 503, "unavailable", "The daemon could not do this: Not a directory.");
    r = ask(f, "POST", path, "{'command':'true'}");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(reply_text(f, &r, "error"), directory));
}

/* Who may not have a secret gets it by no run, either. */
static void runs_hand_out_no_secrets(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *runs = text_of(f, "/api/companies/%s/runs", s.company);
    const char *body =
        text_of(f, "{\"command\":\"true\",\"environmentId\":\"%s\",\"secrets\":{\"X\":\"%s\"}}",
                s.environment, s.secret);
    expect_error(f, ask_by(f, s.tokens[WORKER], "POST", runs, body), 403, "denied",
                 "Board access required");
    expect_error(f, ask_by(f, s.tokens[MANAGER], "POST", runs, body), 403, "denied",
                 "Missing permission: secrets:manage");
}

/* A config hands out no stored secret either: not by naming it, nor by keeping it while another
 * field, perhaps the address that it is sent to, changes. */
static void configs_hand_out_no_secrets(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    static const char text[] =
        "A config that uses stored secrets is for operators with secrets:manage. Others can send "
        "the values again with each change of it.";
    const char *environments = text_of(f, "/api/companies/%s/environments", s.company);
    const char *probe = text_of(f, "%s/probe-config", environments);
    const char *ref = text_of(
        f, "\"privateKeySecretRef\":{\"type\":\"secret_ref\",\"secretId\":\"%s\"}", s.secret);
    const char *body = "{\"name\":\"%s\",\"driver\":\"ssh\",\"config\":{\"host\":\"127.0.0.1\","
                       "\"port\":1,\"username\":\"u\",\"remoteWorkspacePath\":\"/w\",%s}}";
    struct reply r = ask_by(f, s.tokens[ADMIN], "POST", environments, text_of(f, body, "o", ref));
    assert_int_equal(r.status, 201);
    const char *operators = text_of(f, "/api/environments/%s", reply_text(f, &r, "id"));
    for (int i = 0; i < 2; i++) {
        const char *token = s.tokens[i ? WORKER : MANAGER];
        const struct {
            const char *method, *path, *body;
            int status;
        } steps[] = {
            {"POST", environments, text_of(f, body, "x", ref), 403},
            {"POST", probe, text_of(f, body, "x", ref), 403},
            {"PATCH", operators, "{\"config\":{\"host\":\"elsewhere\"}}", 403},
            {"PATCH", operators, "{\"config\":{\"strictHostKeyChecking\":false}}", 403},
            {"PATCH", operators, "{\"config\":{\"host\":\"127.0.0.1\"}}", 200}, /* as it is */
            {"PATCH", operators, "{\"status\":\"archived\"}", 200},
            {"POST", probe, text_of(f, body, "x", "\"privateKey\":\"pasted\""), 200},
            {"POST", environments, text_of(f, body, "p", "\"privateKey\":\"pasted\""), 201},
        };
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
            r = ask_by(f, token, steps[k].method, steps[k].path, steps[k].body);
            if (r.status != steps[k].status)
                fail_msg("step %zu by %s: %d %s", k, i ? "agent" : "operator", r.status, r.body);
            if (r.status == 403)
                assert_string_equal(reply_text(f, &r, "error"), text);
        }
        const char *own = text_of(f, "/api/environments/%s", reply_text(f, &r, "id"));
        expect_error(f, ask_by(f, token, "PATCH", own, text_of(f, "{\"config\":{%s}}", ref)), 403,
                     "denied", text);
        expect_error(f, ask_by(f, token, "PATCH", own, "{\"config\":{\"host\":\"elsewhere\"}}"),
                     403, "denied", text);
        r = ask_by(f, token, "PATCH", own,
                   "{\"config\":{\"host\":\"elsewhere\",\"privateKey\":\"again\"}}");
        assert_int_equal(r.status, 200);
    }
}

/* Words that a request invents for itself are shown, so they are checked like names. */
static void invented_ids_are_visible(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *leases = text_of(f, "/api/environments/%s/leases", s.environment);
    const char *runs = text_of(f, "/api/companies/%s/runs", s.company);
    expect_error(f, ask_by(f, s.tokens[MANAGER], "POST", leases, "{\"agentId\":\"a\\nb\"}"), 400,
                 "invalid", "agentId contains the control character U+000A: leave it out.");
    expect_error(
        f, ask_by(f, s.tokens[MANAGER], "POST", leases, "{\"executionWorkspaceMode\":\" \"}"), 400,
        "invalid", "executionWorkspaceMode begins or ends with a blank: leave it out.");
    expect_error(f,
                 ask_by(f, s.tokens[MANAGER], "POST", runs,
                        text_of(f,
                                "{\"command\":\"true\",\"environmentId\":\"%s\","
                                "\"agentId\":\" a\"}",
                                s.environment)),
                 400, "invalid", "agentId begins or ends with a blank: leave it out.");
    struct reply run = ask_by(f, s.tokens[MANAGER], "POST", runs, "{}");
    assert_int_equal(run.status, 201);
    expect_error(f,
                 ask_by(f, s.tokens[MANAGER], "POST",
                        text_of(f, "/api/runs/%s/finish", reply_text(f, &run, "id")),
                        "{\"status\":\"failed\",\"errorCode\":\"a\\tb\"}"),
                 400, "invalid", "errorCode contains the control character U+0009: leave it out.");
}

/* A token that was made for an agent asks for places in the name of that agent only. */
static void agents_name_no_other_agent(void **state)
{
    struct fixture *f = *state;
    struct stage s;
    make_stage(&s, f);
    const char *token = make_token(&s, text_of(f,
                                               "{'name':'bot','kind':'agent','agentId':'bot-7',"
                                               "'companyId':'%s',"
                                               "'permissions':['environments:manage']}",
                                               s.company));
    const char *leases = text_of(f, "/api/environments/%s/leases", s.environment);
    const char *runs = text_of(f, "/api/companies/%s/runs", s.company);
    const char *run = text_of(
        f, "{\"command\":\"true\",\"environmentId\":\"%s\",\"agentId\":\"bot-8\"}", s.environment);
    expect_error(f, ask_by(f, token, "POST", leases, "{\"agentId\":\"bot-8\"}"), 403, "denied",
                 "The token is for another agent than agentId");
    expect_error(f, ask_by(f, token, "POST", runs, run), 403, "denied",
                 "The token is for another agent than agentId");
    assert_int_equal(ask_by(f, token, "POST", leases, "{\"agentId\":\"bot-7\"}").status, 201);
    assert_int_equal(ask_by(f, token, "POST", leases, "{}").status, 201);
    assert_int_equal(ask_by(f, s.tokens[MANAGER], "POST", leases, "{\"agentId\":\"bot-8\"}").status,
                     201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASK_ON_BOTH(every_route_for_every_caller),
        ASK_ON_BOTH(tokens_are_shown_once_and_end_at_once),
        ASK_ON_BOTH(a_runs_token_ends_with_the_run),
        ASK_ON_BOTH(wrong_tokens_are_refused),
        ASK_ON_BOTH(nobody_hands_out_more_than_he_has),
        ASK_ON_BOTH(failures_are_counted),
        ASK_ON_BOTH(parallel_failures_are_counted),
        ASK_ON_BOTH(bodies_are_for_those_who_may),
        ASK_ON_BOTH(requests_end_with_their_token),
        ASK_ON_BOTH(W25_W36_strangers_learn_nothing),
        ASK_ON_BOTH(W33_claimed_runs_are_dropped),
        ASK_ON_BOTH(restricted_readers_see_no_config),
        ASK_ON_BOTH(whether_others_have_it_is_not_told),
        ASK_ON_BOTH(foreign_cursors_select_nothing),
        ASK_ON_BOTH(this_machine_is_for_the_instance),
        ASK_ON_BOTH(the_daemons_keys_are_for_the_instance),
        ASK_ON_BOTH(paths_of_the_daemon_are_for_the_instance),
        ASK_ON_BOTH(runs_hand_out_no_secrets),
        ASK_ON_BOTH(configs_hand_out_no_secrets),
        ASK_ON_BOTH(agents_name_no_other_agent),
        ASK_ON_SQLITE(invented_ids_are_visible),
    };
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
