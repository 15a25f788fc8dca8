/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/streams.c - commands and runs through the API: their results, what they write
 * as it is written, and what becomes of them when their callers leave. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/stream/live.h"
#include "asking.h"
#include "base/auto.h"
#include "base/time.h"
#include "core/idempotency.h"
#include "core/run/exec_rows.h"
#include "core/token.h"
#include "live.h"
#include "plugins.h"

/* --- help --- */

static const char *lease_on(struct fixture *f, const char *environment)
{
    struct reply r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", environment), "{}");
    if (r.status != 201)
        fail_msg("%d %s", r.status, r.body);
    return reply_text(f, &r, "id");
}

static const char *local_lease(struct fixture *f)
{
    return lease_on(f, ask_environment(f, "{'name':'here','driver':'local'}"));
}

static const char *exec_path(struct fixture *f, const char *lease)
{
    return text_of(f, "/api/environment-leases/%s/exec", lease);
}

static struct reply exec_sh(struct fixture *f, const char *lease, const char *script)
{
    return ask(f, "POST", exec_path(f, lease),
               text_of(f, "{'command':'sh','args':['-c','%s']}", script));
}

static const char *detach(struct fixture *f, const char *lease, const char *body)
{
    struct reply r = ask(f, "POST", exec_path(f, lease), body);
    if (r.status != 202)
        fail_msg("%d %s", r.status, r.body);
    return reply_text(f, &r, "execId");
}

#define EVENTS "Accept: text/event-stream\r\nContent-Type: application/json\r\n"

/* The data of the nth event of that name; NULL: there are not so many. */
static const char *event(struct fixture *f, const char *body, const char *name, int nth)
{
    const char *line = text_of(f, "event: %s\ndata: ", name);
    for (const char *at = body; (at = strstr(at, line)); at++)
        if (nth-- == 0) {
            at += strlen(line);
            return berth_arena_copy(&f->arena, at, strcspn(at, "\n"));
        }
    return NULL;
}

static const char *last_id(struct fixture *f, const char *body)
{
    const char *last = "0";
    for (const char *at = body; (at = strstr(at, "id: ")); at++)
        last = at + 4;
    return berth_arena_copy(&f->arena, last, strcspn(last, "\n"));
}

/* All that came, once it has so many events of that name. */
static const char *hear(struct fixture *f, int fd, const char *name, int count)
{
    auto_buf heard = BERTH_BUF_INIT(16 * 1024 * 1024);
    berth_buf_puts(&heard, "");
    for (int turns = 0; turns < 500; turns++) {
        if (heard.len && event(f, heard.data, name, count - 1))
            return berth_arena_strdup(&f->arena, heard.data);
        struct pollfd in = {.fd = fd, .events = POLLIN};
        char chunk[8192];
        if (poll(&in, 1, 20) <= 0)
            continue;
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got <= 0)
            break;
        berth_buf_append(&heard, chunk, (size_t)got);
    }
    fail_msg("only: %s", berth_buf_str(&heard));
    return NULL;
}

static bool has_ended(struct fixture *f, const char *exec)
{
    struct reply r = ask(f, "GET", text_of(f, "/api/execs/%s", exec), NULL);
    assert_int_equal(r.status, 200);
    return strcmp(reply_text(f, &r, "status"), "ended") == 0;
}

static void await_end(struct fixture *f, const char *exec)
{
    for (int i = 0; i < 1000 && !has_ended(f, exec); i++)
        usleep(10000);
    assert_true(has_ended(f, exec));
}

/* --- one command --- */

static void a_command_and_its_result(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    struct reply r = exec_sh(f, lease, "echo out; echo err >&2; exit 3");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"exitCode\":3"));
    assert_string_equal(reply_text(f, &r, "stdout"), "out\n");
    assert_string_equal(reply_text(f, &r, "stderr"), "err\n");
    assert_string_equal(reply_text(f, &r, "cause"), "exited");
    const char *id = reply_text(f, &r, "execId");
    r = ask(f, "GET", text_of(f, "/api/execs/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "leaseId"), lease);
    assert_string_equal(reply_text(f, &r, "status"), "ended");
    r = ask(f, "POST", exec_path(f, lease),
            "{'command':'sh','args':['-c','cat; echo $COLOUR; pwd'],'stdin':'typed ',"
            "'env':{'COLOUR':'blue'},'cwd':'/usr'}");
    assert_string_equal(reply_text(f, &r, "stdout"), "typed blue\n/usr\n");
    r = ask(f, "POST", exec_path(f, lease), "{'command':'cat','stdin':''}");
    assert_string_equal(reply_text(f, &r, "stdout"), "");
    r = ask(f, "POST", exec_path(f, lease),
            "{'command':'sleep','args':['60'],'timeoutMs':100,'graceMs':100}");
    assert_string_equal(reply_text(f, &r, "cause"), "timeout");
    assert_non_null(strstr(r.body, "\"exitCode\":null"));
}

static void commands_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f), *to = exec_path(f, lease);
    assert_int_equal(ask(f, "POST", to, "{'command':'no-such-program-here'}").status, 422);
    assert_int_equal(ask(f, "POST", to, "{'command':'/etc/passwd'}").status, 422);
    static const char *const wrong[] = {
        "{}",
        "{'command':''}",
        "{'command':1}",
        "{'command':'a\\u0000b'}",
        "{'command':'x','args':'y'}",
        "{'command':'x','args':[1]}",
        "{'command':'x','env':{'A':1}}",
        "{'command':'x','env':['A=1']}",
        "{'command':'x','env':{'a b':'1'}}",
        "{'command':'x','env':{'a=b':'1'}}",
        "{'command':'x','env':{'':'1'}}",
        "{'command':'x','env':{'BERTH_LEASE_ID':'1'}}",
        "{'command':'x','stdin':'y','keepStdin':true}",
        "{'command':'x','rows':0}",
        "{'command':'x','rows':70000}",
        "{'command':'x','timeoutMs':-1}",
        "{'command':'x','timeoutMs':99999999999999}",
        "{'command':'x','shell':true}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (ask(f, "POST", to, wrong[i]).status != 400)
            fail_msg("%s", wrong[i]);
    assert_int_equal(
        ask(f, "POST", text_of(f, "/api/environment-leases/%s/release", lease), NULL).status, 200);
    assert_int_equal(ask(f, "POST", to, "{'command':'true'}").status, 409);
    assert_int_equal(ask(f, "POST", exec_path(f, NOBODY), "{'command':'true'}").status, 404);
    /* One that cannot run commands says so; nothing runs here instead. */
    const char *fake =
        ask_environment(f, "{'name':'f','driver':'sandbox','config':{'provider':'scripted'}}");
    assert_int_equal(ask(f, "POST", exec_path(f, lease_on(f, fake)), "{'command':'true'}").status,
                     501);
}

/* The data of that output, with its time, which is one, as TIME. */
static const char *output(struct fixture *f, const char *text, int which)
{
    char *data = berth_arena_strdup(&f->arena, event(f, text, "output", which));
    char *at = data ? strstr(data, "\"at\":\"") : NULL;
    int64_t ms;
    assert_non_null(at);
    at += strlen("\"at\":\"");
    char *end = strchr(at, '"');
    assert_non_null(end);
    *end = '\0';
    assert_true(berth_time_parse_iso(at, &ms));
    *end = '"';
    memcpy(at, "TIME", 4);
    memmove(at + 4, end, strlen(end) + 1);
    return data;
}

static void events_of_a_command(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    struct reply r =
        ask_with(f, EVENTS, "POST", exec_path(f, lease),
                 "{\"command\":\"sh\",\"args\":[\"-c\",\"echo one; sleep 0.1; echo two >&2; "
                 "sleep 0.1; printf '\\\\377'; exit 4\"]}");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Content-Type: text/event-stream"));
    const char *id = event(f, r.body, "exec", 0);
    assert_non_null(strstr(id, "\"execId\":\""));
    assert_string_equal(output(f, r.body, 0),
                        "{\"stream\":\"stdout\",\"offset\":0,\"at\":\"TIME\",\"data\":\"one\\n\"}");
    assert_string_equal(output(f, r.body, 1),
                        "{\"stream\":\"stderr\",\"offset\":0,\"at\":\"TIME\",\"data\":\"two\\n\"}");
    assert_string_equal(output(f, r.body, 2),
                        "{\"stream\":\"stdout\",\"offset\":4,\"at\":\"TIME\",\"base64\":\"/w==\"}");
    assert_null(event(f, r.body, "output", 3));
    assert_non_null(strstr(event(f, r.body, "end", 0), "\"exitCode\":4"));
    assert_string_equal(last_id(f, r.body), "9");
}

static void logs_from_any_offset(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    struct reply r = exec_sh(f, lease, "printf 0123456789; sleep 0.05; printf abcde >&2");
    const char *log = text_of(f, "/api/execs/%s/log", reply_text(f, &r, "execId"));
    r = ask(f, "GET", log, NULL);
    assert_string_equal(r.body, "0123456789abcde");
    assert_non_null(strstr(r.head, "Content-Type: application/octet-stream"));
    assert_string_equal(ask(f, "GET", text_of(f, "%s?offset=12", log), NULL).body, "cde");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?offset=7", log), NULL).body, "789abcde");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?offset=99", log), NULL).body, "");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?stream=stdout&offset=8", log), NULL).body,
                        "89");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?stream=stderr", log), NULL).body, "abcde");
    assert_string_equal(
        ask(f, "GET", text_of(f, "%s?stream=stderr&offset=3&follow=true", log), NULL).body, "de");
    r = ask_with(f, "Accept: text/event-stream\r\nLast-Event-ID: 13\r\n", "GET", log, NULL);
    assert_string_equal(output(f, r.body, 0),
                        "{\"stream\":\"stderr\",\"offset\":3,\"at\":\"TIME\",\"data\":\"de\"}");
    assert_non_null(event(f, r.body, "end", 0));
    r = ask_with(f, "Accept: text/event-stream\r\n", "GET",
                 text_of(f, "%s?stream=stderr&offset=4", log), NULL);
    assert_string_equal(output(f, r.body, 0),
                        "{\"stream\":\"stderr\",\"offset\":4,\"at\":\"TIME\",\"data\":\"e\"}");
    assert_string_equal(last_id(f, r.body), "5");
    assert_int_equal(ask(f, "GET", text_of(f, "%s?offset=-1", log), NULL).status, 400);
    assert_int_equal(ask(f, "GET", text_of(f, "%s?stream=stdin", log), NULL).status, 400);
    assert_int_equal(ask(f, "GET", "/api/execs/" NOBODY "/log", NULL).status, 404);
}

static void input_in_pieces(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    const char *id = detach(f, lease, "{'command':'cat','keepStdin':true,'detach':true}");
    const char *in = text_of(f, "/api/execs/%s/stdin", id);
    assert_int_equal(ask_with(f, "", "POST", in, "one ").status, 200);
    assert_int_equal(ask_with(f, "", "POST", in, "two ").status, 200);
    assert_false(has_ended(f, id));
    assert_int_equal(ask_with(f, "", "POST", text_of(f, "%s?close=true", in), "three").status, 200);
    await_end(f, id);
    assert_string_equal(ask(f, "GET", text_of(f, "/api/execs/%s/log", id), NULL).body,
                        "one two three");
    assert_int_equal(ask_with(f, "", "POST", in, "four").status, 409);
    const char *resize = text_of(f, "/api/execs/%s/resize", id);
    assert_int_equal(ask(f, "POST", resize, "{'rows':24,'columns':80}").status, 409);
    assert_int_equal(ask(f, "POST", resize, "{'rows':65536,'columns':80}").status, 400);
    assert_int_equal(ask(f, "POST", resize, "{'rows':24,'columns':0}").status, 400);
    /* More than any pipe holds, also for one that does not read for a while. */
    char *big = berth_arena_alloc(&f->arena, 1500001);
    memset(big, 'x', 1500000);
    id = detach(f, lease,
                "{'command':'sh','args':['-c','sleep 0.3; wc -c'],'keepStdin':true,'detach':true}");
    in = text_of(f, "/api/execs/%s/stdin?close=true", id);
    assert_int_equal(ask_with(f, "", "POST", in, big).status, 200);
    await_end(f, id);
    assert_string_equal(ask(f, "GET", text_of(f, "/api/execs/%s/log", id), NULL).body, "1500000\n");
    struct reply r =
        ask_with(f, "Content-Type: application/json\r\n", "POST", exec_path(f, lease),
                 text_of(f, "{\"command\":\"wc\",\"args\":[\"-c\"],\"stdin\":\"%.400s\"}", big));
    assert_string_equal(reply_text(f, &r, "stdout"), "400\n");
}

/* Asks for the events of a command's log. Returns the connection. */
static int send_follow(struct fixture *f, const char *id)
{
    int fd = dial(f);
    const char *text = text_of(f,
                               "GET /api/execs/%s/log HTTP/1.1\r\nHost: x\r\nConnection: "
                               "close\r\nAccept: text/event-stream\r\n\r\n",
                               id);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

/* A place that must have all input first refuses it when it comes: by whichever thread, whoever
 * listens hears of it. */
static void input_that_a_place_does_not_take(void **state)
{
    struct fixture *f = *state;
    (void)install_fake(f, "acme");
    const char *lease = lease_on(
        f, ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'acme'}}"));
    for (int i = 0; i < 5; i++) {
        const char *id = detach(f, lease, "{'command':'cat','keepStdin':true,'detach':true}");
        int fd = send_follow(f, id);
        usleep(20000); /* it has joined */
        struct reply r =
            ask_with(f, "", "POST", text_of(f, "/api/execs/%s/stdin?close=true", id), "\xff");
        assert_int_equal(r.status, 200);
        const char *heard = hear(f, fd, "end", 1);
        assert_non_null(strstr(event(f, heard, "output", 0), "The standard input is no UTF-8"));
        assert_non_null(strstr(event(f, heard, "end", 0), "\"exitCode\":126"));
        (void)close(fd);
    }
}

/* Writes until `len` bytes are there or one step is refused. Returns how many were taken. */
static size_t write_much(struct fixture *f, struct berth_exec *x, size_t len)
{
    static const char step[1024 * 1024];
    size_t at = 0;
    while (at < len && berth_exec_write(x, step, sizeof step, &f->err) == BERTH_OK)
        at += sizeof step;
    return at;
}

/* What places of plugins take as a whole is kept until it is complete: within a budget that all
 * commands of a company share. */
static void collected_input_has_a_budget(void **state)
{
    struct fixture *f = *state;
    enum { MIB = 1024 * 1024 };
    (void)install_fake(f, "acme");
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec *all[3];
    struct berth_exec_end end;
    struct live lives[3];
    request.argv = (const char *const[]){"cat", NULL};
    request.with_stdin = true;
    request.lease_id = lease_on(
        f, ask_environment(f, "{'name':'box','driver':'sandbox','config':{'provider':'acme'}}"));
    for (int i = 0; i < 3; i++)
        all[i] = live_start(f, &request, &lives[i]);
    const char *late =
        detach(f, request.lease_id, "{'command':'cat','keepStdin':true,'detach':true}");
    assert_int_equal(write_much(f, all[0], 40 * MIB), 40 * MIB);
    assert_int_equal(write_much(f, all[1], 40 * MIB), 24 * MIB); /* half of all is there now */
    assert_int_equal(f->err.code, BERTH_E_TOO_LARGE);
    assert_int_equal(write_much(f, all[1], MIB), 0); /* what it had is given back */
    assert_int_equal(write_much(f, all[2], 24 * MIB), 24 * MIB);
    const char *in = text_of(f, "/api/execs/%s/stdin?close=true", late);
    assert_int_equal(ask_with(f, "", "POST", in, "x").status, 413); /* at once */
    assert_int_equal(ask_with(f, "", "POST", in, "").status, 200);
    await_end(f, late);
    assert_non_null(strstr(ask(f, "GET", text_of(f, "/api/execs/%s/log", late), NULL).body,
                           "There is no memory for the standard input"));
    berth_exec_close_stdin(all[1]); /* it does not run with a part of its input */
    for (int i = 1; i < 4; i++) {
        struct berth_exec *x = all[i % 3];
        if (i == 3) /* the others have given theirs back */
            assert_int_equal(write_much(f, x, 20 * MIB), 20 * MIB);
        if (i != 1)
            berth_exec_cancel(x);
        berth_exec_wait(x, &end);
        assert_int_equal(end.exit_code, i == 1 ? 126 : -1);
        berth_exec_free(x);
        live_clear(&lives[i % 3]);
    }
}

/* Writers that wait for room in a standard input, and find none. */
struct waiting {
    const char *exec;
    struct waiter {
        struct berth_api_waiter base; /* first */
        const char *exec;
        int woken;
        bool served;
    } waiters[100];
};

static void on_waiter_room(struct berth_api_waiter *base)
{
    struct waiter *w = (struct waiter *)(void *)base;
    w->woken++;
    if (!w->served)
        assert_true(berth_api_live_wait(asked_api, w->exec, base));
}

static void tell_waiters(void *ctx)
{
    struct waiting *all = ctx;
    struct berth_api_live *live = berth_api_live_find(asked_api, all->exec);
    assert_non_null(live);
    for (int i = 0; i < 100; i++) {
        all->waiters[i].exec = all->exec;
        all->waiters[i].base.on_room = on_waiter_room;
        assert_true(berth_api_live_wait(asked_api, all->exec, &all->waiters[i].base));
    }
    for (int i = 0; i < 3; i++) { /* the first stays the first */
        berth_api_live_room(live);
        assert_int_equal(all->waiters[0].woken, i + 1);
        assert_int_equal(all->waiters[1].woken, 0);
    }
    for (int i = 0; i < 3; i++)
        all->waiters[i].served = true;
    berth_api_waiter_leave(&all->waiters[2].base);
    berth_api_live_room(live);
    assert_int_equal(all->waiters[1].woken, 1);
    assert_int_equal(all->waiters[2].woken, 0);
    assert_int_equal(all->waiters[3].woken, 1);
    assert_int_equal(all->waiters[4].woken, 0);
    for (int i = 0; i < 100; i++)
        berth_api_waiter_leave(&all->waiters[i].base);
}

struct last_words {
    const char *exec;
    bool said;
};

static void say_last(void *ctx)
{
    struct last_words *words = ctx;
    struct berth_api_live *live = berth_api_live_find(asked_api, words->exec);
    words->said = live && live->watches;
    if (!words->said)
        return;
    berth_api_live_output(live, BERTH_STDOUT, "last\n", 5);
    live->over = true;
    live->listeners->step(live);
    live->over = false; /* it has not ended yet */
}

/* The output that was collected when a command ends is handed out, not dropped. */
static void last_output_is_handed_out(void **state)
{
    struct fixture *f = *state;
    const char *lease = lease_on(f, ask_environment(f, "{'name':'here','driver':'local'}"));
    const char *id = detach(f, lease, "{'command':'cat','keepStdin':true,'detach':true}");
    int fd = send_follow(f, id);
    struct last_words words = {.exec = id};
    for (int i = 0; i < 10000 && !words.said; i++, usleep(1000))
        assert_ok(f, berth_engine_do(f->b->engine, say_last, &words, &f->err));
    assert_true(words.said);
    assert_int_equal(
        ask_with(f, "", "POST", text_of(f, "/api/execs/%s/cancel", id), "").status / 100, 2);
    assert_non_null(strstr(hear(f, fd, "end", 1), "last"));
    (void)close(fd);
}

/* Room is offered to one writer after the other, not to all each time. */
static void writers_are_served_in_turn(void **state)
{
    struct fixture *f = *state;
    static struct waiting all;
    all = (struct waiting){.exec = detach(f, local_lease(f),
                                          "{'command':'sleep','args':['600'],'keepStdin':true,"
                                          "'detach':true,'graceMs':100}")};
    assert_ok(f, berth_engine_do(f->b->engine, tell_waiters, &all, &f->err));
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", all.exec), NULL).status,
                     202);
    await_end(f, all.exec);
}

static void commands_are_cancelled(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    const char *id =
        detach(f, lease, "{'command':'sleep','args':['60'],'detach':true,'graceMs':100}");
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", id), NULL).status, 202);
    await_end(f, id);
    struct reply r = ask(f, "GET", text_of(f, "/api/execs/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "cause"), "cancelled");
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", id), NULL).status, 202);
    assert_int_equal(ask(f, "POST", "/api/execs/" NOBODY "/cancel", NULL).status, 404);
}

static bool is_gone(const char *marker)
{
    auto_buf line = BERTH_BUF_INIT(200);
    berth_buf_printf(&line, "pgrep -f '[s]leep %s' >/dev/null", marker);
    return system(line.data) != 0; /* NOLINT */
}

/* Who leaves does not want the command any more; whoever only listens may go. */
static void callers_who_leave(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    for (int events = 0; events < 2; events++) {
        const char *marker = text_of(f, "61.%d%d", events, (int)getpid());
        const char *body =
            text_of(f, "{\"command\":\"sleep\",\"args\":[\"%s\"],\"graceMs\":100}", marker);
        const char *text = text_of(
            f,
            "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n"
            "Content-Type: application/json\r\n\r\n%s",
            exec_path(f, lease), events ? "Accept: text/event-stream\r\n" : "", strlen(body), body);
        int fd = dial(f);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        for (int i = 0; i < 500 && is_gone(marker); i++)
            usleep(10000);
        assert_false(is_gone(marker));
        (void)close(fd);
        for (int i = 0; i < 500 && !is_gone(marker); i++)
            usleep(10000);
        assert_true(is_gone(marker));
    }
    const char *id = detach(f, lease, "{'command':'sleep','args':['0.5'],'detach':true}");
    int fd = dial(f);
    const char *text = text_of(
        f, "GET /api/execs/%s/log HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", id);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    usleep(50000);
    (void)close(fd);
    await_end(f, id);
    struct reply r = ask(f, "GET", text_of(f, "/api/execs/%s", id), NULL);
    assert_string_equal(reply_text(f, &r, "cause"), "exited");
}

/* --- many who listen --- */

struct listener {
    int fd;
    size_t got;
    uint64_t sum;
    bool slow;
};

static void take(struct listener *l)
{
    char chunk[16384];
    ssize_t got = recv(l->fd, chunk, l->slow ? 700 : sizeof chunk, MSG_DONTWAIT);
    if (got == 0) {
        (void)close(l->fd);
        l->fd = -1;
    }
    for (ssize_t i = 0; i < got; i++)
        l->sum = l->sum * 31 + (unsigned char)chunk[i];
    if (got > 0)
        l->got += (size_t)got;
}

/* Fast and slow ones hear the same bytes, from the same beginning. */
static void all_listeners_hear_all(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 60 };
    struct listener all[COUNT] = {{0}};
    const char *lease = local_lease(f);
    const char *id = detach(f, lease,
                            "{'command':'sh','args':['-c','for i in $(seq 1 40); do seq 1 2000; "
                            "sleep 0.01; done'],'detach':true}");
    const char *text = text_of(f,
                               "GET /api/execs/%s/log?follow=true HTTP/1.1\r\nHost: x\r\n"
                               "Connection: close\r\n\r\n",
                               id);
    for (int i = 0; i < COUNT; i++) {
        all[i] = (struct listener){.fd = dial(f), .slow = i % 10 == 0};
        assert_int_equal(write(all[i].fd, text, strlen(text)), (ssize_t)strlen(text));
    }
    int open = COUNT;
    for (int turns = 0; open && turns < 200000; turns++) {
        struct pollfd fds[COUNT];
        for (int i = 0; i < COUNT; i++)
            fds[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        assert_true(poll(fds, COUNT, 10000) > 0);
        open = 0;
        for (int i = 0; i < COUNT; i++) {
            if (all[i].fd >= 0 && fds[i].revents)
                take(&all[i]);
            open += all[i].fd >= 0;
        }
    }
    assert_int_equal(open, 0);
    struct reply r = ask(f, "GET", text_of(f, "/api/execs/%s/log", id), NULL);
    assert_int_equal(strlen(r.body), 40 * 8893);
    for (int i = 0; i < COUNT; i++) {
        /* The heads differ by the request's id alone. */
        assert_int_equal(all[i].got, all[0].got);
        assert_in_range(all[i].got, strlen(r.body), strlen(r.body) + 400);
    }
}

/* --- runs --- */

static const char *runs_of(struct fixture *f)
{
    return text_of(f, "/api/companies/%s/runs", default_company(f));
}

static struct reply await_run(struct fixture *f, const char *id)
{
    struct reply r;
    for (int i = 0; i < 1000; i++) {
        r = ask(f, "GET", text_of(f, "/api/runs/%s", id), NULL);
        assert_int_equal(r.status, 200);
        if (strcmp(reply_text(f, &r, "status"), "running") != 0)
            break;
        usleep(10000);
    }
    return r;
}

static int open_leases(struct fixture *f)
{
    struct reply r = ask(
        f, "GET", text_of(f, "/api/companies/%s/leases?status=active", default_company(f)), NULL);
    return reply_count(&r);
}

static void runs_from_beginning_to_end(void **state)
{
    struct fixture *f = *state;
    struct reply r =
        ask(f, "POST", runs_of(f), "{'command':'sh','args':['-c','echo $BERTH_RUN_ID']}");
    if (r.status != 201)
        fail_msg("%d %s", r.status, r.body);
    const char *id = reply_text(f, &r, "id");
    r = await_run(f, id);
    assert_string_equal(reply_text(f, &r, "status"), "succeeded");
    assert_string_equal(ask(f, "GET", text_of(f, "/api/runs/%s/log", id), NULL).body,
                        text_of(f, "%s\n", id));
    r = ask(f, "GET", text_of(f, "/api/runs/%s/execs", id), NULL);
    assert_int_equal(reply_count(&r), 1);
    for (int i = 0; open_leases(f) && i < 400; i++) /* given back when the row says so already */
        (void)usleep(10000);
    assert_int_equal(open_leases(f), 0);
    /* As it happens; then the end comes behind that. */
    r = ask_with(
        f, EVENTS, "POST", runs_of(f),
        "{\"command\":\"sh\",\"args\":[\"-c\",\"cat; echo done; exit 2\"],\"stdin\":\"typed "
        "\"}");
    assert_int_equal(r.status, 200);
    assert_non_null(event(f, r.body, "exec", 0));
    assert_non_null(strstr(event(f, r.body, "exit", 0), "\"exitCode\":2"));
    assert_non_null(strstr(event(f, r.body, "end", 0), "\"status\":\"failed\""));
    assert_non_null(strstr(r.body, "typed "));
    assert_string_equal(last_id(f, r.body), "11");
    assert_int_equal(open_leases(f), 0);
}

/* Of two commands, by one stream and an offset that is in the second. */
static void offsets_count_over_all_commands(void **state)
{
    struct fixture *f = *state;
    const char *e = ask_environment(f, "{'name':'here','driver':'local'}");
    struct reply r = ask(f, "POST", runs_of(f), "{}");
    const char *run = reply_text(f, &r, "id");
    r = ask(f, "POST", text_of(f, "/api/environments/%s/leases", e),
            text_of(f, "{'heartbeatRunId':'%s'}", run));
    const char *lease = reply_text(f, &r, "id");
    assert_int_equal(exec_sh(f, lease, "printf 0123456789; printf xx >&2").status, 200);
    assert_int_equal(exec_sh(f, lease, "printf abcdefghij; printf yy >&2").status, 200);
    const char *log = text_of(f, "/api/runs/%s/log", run);
    assert_string_equal(ask(f, "GET", text_of(f, "%s?stream=stdout&offset=15", log), NULL).body,
                        "fghij");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?stream=stdout&offset=4", log), NULL).body,
                        "456789abcdefghij");
    assert_string_equal(ask(f, "GET", text_of(f, "%s?stream=stderr&offset=1", log), NULL).body,
                        "xyy");
    assert_int_equal(strlen(ask(f, "GET", text_of(f, "%s?offset=13", log), NULL).body), 11);
    assert_int_equal(
        ask(f, "POST", text_of(f, "/api/runs/%s/finish", run), "{'status':'succeeded'}").status,
        200);
    r = ask_with(f, "Accept: text/event-stream\r\n", "GET",
                 text_of(f, "%s?stream=stdout&offset=15", log), NULL);
    assert_string_equal(output(f, r.body, 0),
                        "{\"stream\":\"stdout\",\"offset\":5,\"at\":\"TIME\",\"data\":\"fghij\"}");
    assert_string_equal(last_id(f, r.body), "20");
}

static void runs_are_cancelled(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "POST", runs_of(f), "{'command':'sleep','args':['60'],'graceMs':100}");
    assert_int_equal(r.status, 201);
    const char *id = reply_text(f, &r, "id");
    r = ask(f, "POST", text_of(f, "/api/runs/%s/cancel", id), NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(reply_text(f, &r, "status"), "cancelled");
    assert_string_equal(reply_text(f, &r, "errorCode"), "cancelled");
    assert_int_equal(ask(f, "POST", text_of(f, "/api/runs/%s/cancel", id), NULL).status, 200);
    assert_int_equal(open_leases(f), 0);
}

/* 26: what failed keeps its own code. */
static void W26_runs_that_cannot_begin_say_why(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "POST", runs_of(f), "{'command':'true','environmentId':'" NOBODY "'}");
    assert_int_equal(r.status, 201);
    assert_string_equal(reply_text(f, &r, "status"), "failed");
    assert_string_equal(reply_text(f, &r, "errorCode"), "environment_not_found");
    const char *fake =
        ask_environment(f, "{'name':'f','driver':'sandbox','config':{'provider':'scripted'}}");
    r = ask(f, "POST", runs_of(f), text_of(f, "{'command':'true','environmentId':'%s'}", fake));
    assert_string_equal(reply_text(f, &r, "errorCode"), "unsupported_environment");
    assert_int_equal(ask(f, "POST", runs_of(f), "{'command':''}").status, 400);
    assert_int_equal(ask(f, "POST", runs_of(f), "{'args':['x']}").status, 400);
    assert_int_equal(ask(f, "POST", runs_of(f), "{'command':'true','secrets':{'A=B':'x'}}").status,
                     400);
    assert_int_equal(ask(f, "POST", "/api/companies/" NOBODY "/runs", "{}").status, 404);
}

static void runs_of_others(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "POST", runs_of(f), "{}");
    assert_int_equal(r.status, 201);
    const char *id = reply_text(f, &r, "id"), *finish = text_of(f, "/api/runs/%s/finish", id);
    assert_int_equal(ask(f, "POST", finish, "{}").status, 400);
    assert_int_equal(ask(f, "POST", finish, "{'status':'running'}").status, 400);
    r = ask(f, "POST", finish, "{'status':'failed','error':'no','errorCode':'my_code'}");
    assert_string_equal(reply_text(f, &r, "errorCode"), "my_code");
    r = ask(f, "POST", finish, "{'status':'succeeded'}");
    assert_string_equal(reply_text(f, &r, "status"), "failed"); /* an end stays */
}

/* --- what happens in a company --- */

static int listen_with(struct fixture *f, const char *header)
{
    int fd = dial(f);
    const char *text = text_of(f,
                               "GET /api/companies/%s/events HTTP/1.1\r\nHost: x\r\n"
                               "Connection: close\r\n%s\r\n\r\n",
                               default_company(f), header);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static int listen_from(struct fixture *f, const char *last_id)
{
    return listen_with(f, text_of(f, "Last-Event-ID: %s", last_id));
}

static void change_something(struct fixture *f, int number)
{
    (void)ask_environment(
        f,
        text_of(f, "{'name':'e%d','driver':'sandbox','config':{'provider':'scripted'}}", number));
}

static void events_come_as_they_happen(void **state)
{
    struct fixture *f = *state;
    change_something(f, 0);
    struct reply head =
        ask(f, "HEAD", text_of(f, "/api/companies/%s/events", default_company(f)), NULL);
    assert_int_equal(head.status, 200); /* and it ends */
    int fd = listen_with(f, "X-None: 1");
    const char *heard = hear(f, fd, "ready", 1);
    assert_null(event(f, heard, "activity.logged", 0));
    const char *start = last_id(f, heard);
    for (int i = 1; i <= 3; i++)
        change_something(f, i);
    heard = hear(f, fd, "activity.logged", 3);
    assert_non_null(strstr(event(f, heard, "activity.logged", 0), "environment.created"));
    (void)close(fd);
    for (int i = 4; i <= 150; i++) /* more than a page */
        change_something(f, i);
    fd = listen_from(f, last_id(f, heard));
    heard = hear(f, fd, "activity.logged", 147);
    assert_null(event(f, heard, "activity.logged", 147));
    (void)close(fd);
    fd = listen_from(f, start);
    heard = hear(f, fd, "activity.logged", 150);
    (void)close(fd);
    /* Other companies are none of his business. */
    struct reply r = ask(f, "POST", "/api/companies", "{'name':'zzz'}");
    fd = listen_from(f, last_id(f, heard));
    assert_int_equal(r.status, 201);
    change_something(f, 151);
    heard = hear(f, fd, "activity.logged", 1);
    assert_null(strstr(heard, "company.created"));
    (void)close(fd);
}

/* An id that the store does not have is told, at once and beside other listeners. */
static void ids_that_are_not_of_this_store(void **state)
{
    struct fixture *f = *state;
    static const char *const wrong[] = {"none", "-1", "1x", "1 2", "9999999999999999999"};
    const char *path = text_of(f, "/api/companies/%s/events", default_company(f));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_error(
            f, ask_with(f, text_of(f, "Last-Event-ID: %s\r\n", wrong[i]), "GET", path, NULL), 400,
            "invalid", "Last-Event-ID is not the id of an event: it must be a number.");
    assert_int_equal(ask(f, "GET", text_of(f, "%s?after=x", path), NULL).status, 400);
    change_something(f, 0);
    int first = listen_with(f, "X-None: 1");
    const char *ready = last_id(f, hear(f, first, "ready", 1));
    for (int i = 0; i < 3; i++) {
        int fd = listen_from(f, "99999999");
        const char *heard = hear(f, fd, "reset", 1);
        assert_null(event(f, heard, "activity.logged", 0));
        assert_string_equal(last_id(f, heard), ready);
        (void)close(fd);
    }
    int fd = listen_from(f, "99999999");
    (void)hear(f, fd, "reset", 1);
    change_something(f, 1);
    (void)hear(f, fd, "activity.logged", 1);
    (void)hear(f, first, "activity.logged", 1);
    (void)close(fd);
    (void)close(first);
}

/* Who may not run commands on this machine does not speak to those that run there, either; and
 * nobody hears of ids of what he may not look at. */
static void commands_of_this_machine_are_not_for_companies(void **state)
{
    struct fixture *f = *state;
    const char *company = default_company(f);
    struct reply r = ask(f, "POST", exec_path(f, local_lease(f)),
                         "{'command':'cat','keepStdin':true,'detach':true}");
    const char *exec = reply_text(f, &r, "execId");
    r = ask(
        f, "POST", "/api/tokens",
        text_of(f, "{'name':'c','companyId':'%s','permissions':['environments:manage']}", company));
    const char *theirs = text_of(f, "Authorization: Bearer %s\r\n", reply_text(f, &r, "token"));
    static const char *const ways[] = {"stdin", "cancel", "resize"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        assert_int_equal(ask_with(f, theirs, "POST", text_of(f, "/api/execs/%s/%s", exec, ways[i]),
                                  "{\"rows\":1,\"columns\":1}")
                             .status,
                         403);
    assert_int_equal(
        ask_with(f, theirs, "GET", text_of(f, "/api/execs/%s/attach", exec), NULL).status, 403);
    r = ask(f, "POST", "/api/tokens",
            text_of(f, "{'name':'a','kind':'agent','agentId':'a','companyId':'%s'}", company));
    const char *agent = text_of(f, "Authorization: Bearer %s\r\n", reply_text(f, &r, "token"));
    static const char *const kinds[] = {"secret", "token", "lease"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        assert_int_equal(
            ask_with(f, agent, "GET", text_of(f, "/api/find?kind=%s&prefix=0000", kinds[i]), NULL)
                .status,
            403);
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", exec), NULL).status, 202);
}

static bool ends_within(int fd, int64_t ms)
{
    char bytes[4096];
    struct pollfd there = {.fd = fd, .events = POLLIN};
    int64_t end = berth_time_mono_ms() + ms;
    for (int64_t left; (left = end - berth_time_mono_ms()) > 0;)
        if (poll(&there, 1, (int)left) > 0 && read(fd, bytes, sizeof bytes) <= 0)
            return true;
    return false;
}

/* Who was let in by a token leaves with it, and nobody else does. */
static void streams_end_with_their_token(void **state)
{
    struct fixture *f = *state;
    int fds[3];
    const char *ids[2];
    for (int i = 0; i < 2; i++) {
        struct reply r = ask(f, "POST", "/api/tokens", text_of(f, "{'name':'t%d'}", i));
        ids[i] = reply_text(f, &r, "id");
        fds[i] = listen_with(f, text_of(f, "Authorization: Bearer %s", reply_text(f, &r, "token")));
        (void)hear(f, fds[i], "ready", 1);
    }
    fds[2] = listen_with(f, "X-None: 1");
    (void)hear(f, fds[2], "ready", 1);
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", ids[0]), NULL).status, 200);
    assert_true(ends_within(fds[0], 1500)); /* sooner than a look from time to time would see it */
    assert_false(ends_within(fds[1], 200));
    struct berth_token *other; /* as another process would */
    assert_ok(f, berth_token_revoke(f->b, &f->arena, ids[1], NULL, &other, &f->err));
    assert_true(ends_within(fds[1], 15000));
    assert_false(ends_within(fds[2], 200));
    for (int i = 0; i < 3; i++)
        (void)close(fds[i]);
}

/* Reads until the text has come. */
static void await_bytes(int fd, const char *text)
{
    auto_buf all = BERTH_BUF_INIT(1 << 20);
    char bytes[4096];
    struct pollfd there = {.fd = fd, .events = POLLIN};
    while (!strstr(berth_buf_str(&all), text)) {
        assert_int_equal(poll(&there, 1, 120000), 1);
        ssize_t got = read(fd, bytes, sizeof bytes);
        assert_true(got > 0);
        berth_buf_append(&all, bytes, (size_t)got);
    }
}

/* The stream of a token that expires ends as a whole answer; its connection can be used again. */
static void streams_end_with_their_last_chunk(void **state)
{
    struct fixture *f = *state;
    struct reply r = ask(f, "POST", "/api/tokens", "{'name':'t','ttlMs':600000}");
    const char *request = text_of(f,
                                  "GET /api/companies/%s/events HTTP/1.1\r\nHost: localhost\r\n"
                                  "Authorization: Bearer %s\r\n\r\n",
                                  default_company(f), reply_text(f, &r, "token"));
    int fd = dial(f);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    await_bytes(fd, "event: ready");
    run_sql(f, "UPDATE tokens SET expires_at = 1 WHERE id = $1", reply_text(f, &r, "id"));
    await_bytes(fd, "0\r\n\r\n");
    static const char again[] = "GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_int_equal(send(fd, again, strlen(again), MSG_NOSIGNAL), strlen(again));
    await_bytes(fd, "HTTP/1.1 200 OK");
    (void)close(fd);
}

/* Sends a request with a token, and returns its connection. */
static int send_with(struct fixture *f, const char *token, const char *path, const char *body,
                     size_t len)
{
    int fd = dial(f);
    const char *head = text_of(f,
                               "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                               path, token, len);
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), (ssize_t)strlen(head));
    assert_int_equal(send(fd, body, len, MSG_NOSIGNAL), (ssize_t)len);
    return fd;
}

/* Neither the output of a command nor room in its standard input is waited for with a token that
 * was revoked; and the command ends, as it does when its caller leaves. */
static void waiting_requests_end_with_their_token(void **state)
{
    struct fixture *f = *state;
    enum { BYTES = 1500000 }; /* more than is queued for a command */
    const char *lease = local_lease(f), *marker = text_of(f, "62.%d", (int)getpid());
    const char *body =
        text_of(f, "{\"command\":\"sleep\",\"args\":[\"%s\"],\"graceMs\":100}", marker);
    const char *exec =
        detach(f, lease,
               "{'command':'sleep','args':['600'],'keepStdin':true,'detach':true,'graceMs':100}");
    struct reply r =
        ask(f, "POST", "/api/tokens", "{'name':'t','permissions':['environments:manage']}");
    const char *token = reply_text(f, &r, "token"), *id = reply_text(f, &r, "id");
    char *input = berth_arena_alloc(&f->arena, BYTES);
    memset(input, 'x', BYTES);
    int waits = send_with(f, token, exec_path(f, lease), body, strlen(body));
    int writes = send_with(f, token, text_of(f, "/api/execs/%s/stdin", exec), input, BYTES);
    WAIT_FOR(!is_gone(marker));
    assert_false(ends_within(writes, 200));
    assert_int_equal(ask(f, "DELETE", text_of(f, "/api/tokens/%s", id), NULL).status, 200);
    int fds[] = {waits, writes};
    for (int i = 0; i < 2; i++) {
        char answer[13] = "";
        assert_int_equal(recv(fds[i], answer, 12, MSG_WAITALL), 12);
        assert_string_equal(answer, "HTTP/1.1 401");
        (void)close(fds[i]);
    }
    WAIT_FOR(is_gone(marker));
    assert_int_equal(ask(f, "POST", text_of(f, "/api/execs/%s/cancel", exec), NULL).status, 202);
    await_end(f, exec);
}

struct changing {
    struct fixture *f;
    pthread_t thread;
    const char *company;
    int from;
};

static void *change_much(void *ctx)
{
    struct changing *c = ctx;
    auto_arena arena = BERTH_ARENA_INIT;
    for (int i = 0; i < 100; i++) {
        struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
        struct berth_issues issues = {.arena = &arena};
        struct berth_environment *e;
        struct berth_error err;
        input.name = berth_arena_printf(&arena, "busy %d", c->from + i);
        input.driver = BERTH_DRIVER_SANDBOX;
        input.config_json = "{\"provider\":\"scripted\"}";
        if (berth_environment_create(c->f->b, &arena, &input, &issues, &e, &err) < 0)
            return c;
    }
    return NULL;
}

/* Entries are numbered before they are there for others: none may be passed over. */
static void no_event_is_left_out(void **state)
{
    struct fixture *f = *state;
    enum { THREADS = 6 };
    struct changing all[THREADS];
    int fd = listen_from(f, "0");
    for (int i = 0; i < THREADS; i++) {
        all[i] = (struct changing){.f = f, .from = i * 1000};
        assert_int_equal(pthread_create(&all[i].thread, NULL, change_much, &all[i]), 0);
    }
    const char *heard = hear(f, fd, "activity.logged", THREADS * 100);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(all[i].thread, &failed), 0);
        assert_null(failed);
    }
    (void)close(fd);
    long before = -1;
    for (const char *at = heard; (at = strstr(at, "id: ")); at++) {
        long id = strtol(at + 4, NULL, 10);
        assert_true(id > before);
        before = id;
    }
}

static void numbers_for_those_who_watch(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f);
    assert_int_equal(exec_sh(f, lease, "true").status, 200);
    int fd = listen_from(f, "0");
    (void)hear(f, fd, "activity.logged", 1);
    struct reply r = ask(f, "GET", "/metrics", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Content-Type: text/plain; version=0.0.4"));
    static const char *const lines[] = {
        "berth_leases{status=\"active\",place=\"none\",driver=\"local\",provider=\"local\"} 1\n",
        "berth_places_owed 0\n",
        "berth_acquire_seconds_count 1\n",
        "berth_exec_seconds_count 1\n",
        "berth_exec_seconds_bucket{le=\"+Inf\"} 1\n",
        "berth_release_seconds_count 0\n",
        "berth_http_streams 1\n",
        "# TYPE berth_store_commits_total counter\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(r.body, lines[i]))
            fail_msg("%s is not in\n%s", lines[i], r.body);
    (void)close(fd);
}

/* --- what is done once --- */

static struct reply ask_keyed(struct fixture *f, const char *key, const char *headers,
                              const char *path, const char *body)
{
    return ask_with(
        f, text_of(f, "Idempotency-Key: %s\r\nContent-Type: application/json\r\n%s", key, headers),
        "POST", path, body);
}

static bool is_replay(const struct reply *r)
{
    return strstr(r->head, "\r\nIdempotency-Replayed: true") != NULL;
}

static void leases_are_taken_once(void **state)
{
    struct fixture *f = *state;
    const char *e = ask_environment(f, "{'name':'here','driver':'local'}");
    const char *to = text_of(f, "/api/environments/%s/leases", e);
    struct reply first = ask_keyed(f, "k1", "", to, "{}"), again = ask_keyed(f, "k1", "", to, "{}");
    assert_int_equal(first.status, 201);
    assert_int_equal(again.status, 201);
    assert_string_equal(first.body, again.body);
    assert_false(is_replay(&first));
    assert_true(is_replay(&again));
    assert_int_equal(open_leases(f), 1);
    expect_error(f, ask_keyed(f, "k1", "", to, "{\"ttlMs\":5000}"), 422, "unprocessable",
                 "This Idempotency-Key was used for another request.");
    assert_int_equal(ask_keyed(f, "k2", "", to, "{}").status, 201);
    assert_int_equal(open_leases(f), 2);
    /* What failed may be tried again. */
    assert_int_equal(ask_keyed(f, "k3", "", to, "{\"noSuchKey\":1}").status, 400);
    assert_int_equal(ask_keyed(f, "k3", "", to, "{}").status, 201);
    char *longest = berth_arena_alloc(&f->arena, 300);
    memset(longest, 'k', 256);
    assert_int_equal(ask_keyed(f, longest, "", to, "{}").status, 400);
    longest[255] = '\0';
    assert_int_equal(ask_keyed(f, longest, "", to, "{}").status, 201);
    /* A day later it is forgotten. */
    berth_time_shift(INT64_C(25) * 3600 * 1000, 0);
    again = ask_keyed(f, "k1", "", to, "{}");
    berth_time_shift(INT64_C(-25) * 3600 * 1000, 0);
    assert_int_equal(again.status, 201);
    assert_false(is_replay(&again));
}

/* As another process, which ends without having ended it. */
static void begin_elsewhere(struct fixture *f, const struct berth_idempotency_request *request,
                            const char *environment_id, struct berth_id *lease_id)
{
    struct berth *own = f->b;
    struct berth_lease_request lease = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *l;
    struct berth_idempotency once;
    fixture_open(f);
    assert_ok(f, berth_idempotency_begin(f->b, &f->arena, request, &once, &f->err));
    assert_true(once.at_work);
    *lease_id = once.id;
    lease.id = once.id.text;
    lease.environment_id = environment_id;
    if (environment_id)
        assert_ok(f, berth_lease_acquire(f->b, &f->arena, &lease, &l, &f->err));
    berth_close(f->b);
    f->b = own;
}

static void leases_of_killed_daemons_are_taken_once(void **state)
{
    struct fixture *f = *state;
    const char *e = ask_environment(f, "{'name':'here','driver':'local'}");
    struct berth_idempotency_request request = {
        .caller = "c", .key = "made", .digest = "d", .makes_lease = true};
    struct berth_id id;
    struct berth_idempotency once, second;
    begin_elsewhere(f, &request, e, &id);
    struct berth_lease_request twice = BERTH_LEASE_REQUEST_INIT;
    struct berth_lease *l;
    twice.id = id.text;
    twice.environment_id = e;
    assert_int_equal(berth_lease_acquire(f->b, &f->arena, &twice, &l, &f->err), BERTH_E_CONFLICT);
    for (int i = 0; i < 2; i++) { /* the first finds it, the next its answer */
        assert_ok(f, berth_idempotency_begin(f->b, &f->arena, &request, &once, &f->err));
        assert_false(once.at_work);
        assert_int_equal(once.status, 201);
        assert_non_null(strstr(once.answer, id.text));
        assert_non_null(strstr(once.answer, "\"status\":\"active\""));
    }
    assert_int_equal(open_leases(f), 1);
    request.key = "not made";
    begin_elsewhere(f, &request, NULL, &id);
    assert_ok(f, berth_idempotency_begin(f->b, &f->arena, &request, &once, &f->err));
    assert_true(once.at_work);
    assert_string_not_equal(once.id.text, id.text);
    assert_fails(f, BERTH_E_CONFLICT, "A request with this Idempotency-Key is at work.",
                 berth_idempotency_begin(f->b, &f->arena, &request, &second, &f->err));
    berth_idempotency_end(f->b, &once, 201, "{}");
    assert_ok(f, berth_idempotency_begin(f->b, &f->arena, &request, &second, &f->err));
    assert_string_equal(second.answer, "{}");
}

static void commands_run_once(void **state)
{
    struct fixture *f = *state;
    const char *lease = local_lease(f), *to = exec_path(f, lease);
    const char *body = text_of(
        f, "{\"command\":\"sh\",\"args\":[\"-c\",\"echo x >>%s/ran; echo said\"]}", f->directory);
    struct reply first = ask_keyed(f, "e1", "", to, body), again = ask_keyed(f, "e1", "", to, body);
    assert_string_equal(reply_text(f, &first, "stdout"), "said\n");
    assert_string_equal(first.body, again.body);
    /* Who asks for events again hears which command it is. */
    first = ask_keyed(f, "e2", "Accept: text/event-stream\r\n", to, body);
    assert_int_equal(first.status, 200);
    again = ask_keyed(f, "e2", "Accept: text/event-stream\r\n", to, body);
    assert_int_equal(again.status, 202);
    const char *id = reply_text(f, &again, "execId");
    assert_non_null(strstr(first.body, id));
    assert_string_equal(ask(f, "GET", text_of(f, "/api/execs/%s/log", id), NULL).body, "said\n");
    struct reply r =
        ask(f, "POST", to, text_of(f, "{'command':'cat','args':['%s/ran']}", f->directory));
    assert_string_equal(reply_text(f, &r, "stdout"), "x\nx\n");
    /* One that is at work; and its caller may leave, for he comes back. */
    const char *slow = text_of(f,
                               "POST %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: e3\r\n"
                               "Content-Type: application/json\r\nContent-Length: 34\r\n\r\n"
                               "{\"command\":\"sleep\",\"args\":[\"0.6\"]}",
                               to);
    int fd = dial(f);
    assert_int_equal(write(fd, slow, strlen(slow)), (ssize_t)strlen(slow));
    usleep(200000);
    (void)close(fd);
    const char *same = "{\"command\":\"sleep\",\"args\":[\"0.6\"]}";
    assert_int_equal(strlen(same), 34);
    expect_error(f, ask_keyed(f, "e3", "", to, same), 409, "conflict",
                 "A request with this Idempotency-Key is at work.");
    for (int i = 0; i < 200; i++) {
        again = ask_keyed(f, "e3", "", to, same);
        if (again.status != 409)
            break;
        usleep(20000);
    }
    assert_true(is_replay(&again));
    assert_string_equal(reply_text(f, &again, "cause"), "exited");
    /* Runs. */
    first = ask_keyed(f, "r1", "", runs_of(f), "{\"command\":\"true\"}");
    again = ask_keyed(f, "r1", "", runs_of(f), "{\"command\":\"true\"}");
    assert_string_equal(reply_text(f, &first, "id"), reply_text(f, &again, "id"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASK_ON_BOTH(a_command_and_its_result),
        ASK_ON_BOTH(commands_that_cannot_be),
        ASK_ON_BOTH(events_of_a_command),
        ASK_ON_BOTH(logs_from_any_offset),
        ASK_ON_BOTH(input_in_pieces),
        ASK_ON_BOTH(input_that_a_place_does_not_take),
        ASK_ON_SQLITE(collected_input_has_a_budget),
        ASK_ON_SQLITE(last_output_is_handed_out),
        ASK_ON_SQLITE(writers_are_served_in_turn),
        ASK_ON_BOTH(commands_are_cancelled),
        ASK_ON_BOTH(callers_who_leave),
        ASK_ON_BOTH(all_listeners_hear_all),
        ASK_ON_BOTH(runs_from_beginning_to_end),
        ASK_ON_BOTH(offsets_count_over_all_commands),
        ASK_ON_BOTH(runs_are_cancelled),
        ASK_ON_BOTH(W26_runs_that_cannot_begin_say_why),
        ASK_ON_BOTH(runs_of_others),
        ASK_ON_BOTH(events_come_as_they_happen),
        ASK_ON_BOTH(ids_that_are_not_of_this_store),
        ASK_ON_BOTH(streams_end_with_their_token),
        ASK_ON_BOTH(streams_end_with_their_last_chunk),
        ASK_ON_BOTH(waiting_requests_end_with_their_token),
        ASK_ON_BOTH(commands_of_this_machine_are_not_for_companies),
        ASK_ON_BOTH(no_event_is_left_out),
        ASK_ON_BOTH(numbers_for_those_who_watch),
        ASK_ON_BOTH(leases_are_taken_once),
        ASK_ON_BOTH(leases_of_killed_daemons_are_taken_once),
        ASK_ON_BOTH(commands_run_once),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
